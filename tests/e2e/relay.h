// A TCP relay on loopback between one listener of a cluster and its clients. It can hold the bytes
// toward the listener, like a network that fails in one direction.
// Thread: the test thread constructs and destroys it. It runs one thread.
#pragma once

#include <atomic>
#include <list>
#include <string>
#include <thread>

namespace mobula::e2e {

class Relay {
 public:
  // `target`: numeric HOST:PORT.
  explicit Relay(const std::string& target);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  const std::string& address() const { return address_; }
  // Stops the bytes to the target. Bytes from the target still pass.
  void hold_what_goes_to_target() { held_ = true; }

 private:
  struct Pair {
    int client = -1;
    int target = -1;
  };
  void work();
  void accept_one();
  // False if the connection has ended.
  static bool pass_on(int from, int to);

  std::string target_host_;
  int target_port_ = 0;
  std::string address_;
  int listener_ = -1;
  std::list<Pair> pairs_;  // relay thread only
  std::atomic<bool> held_{false};
  std::atomic<bool> ends_{false};
  int wake_ = -1;
  std::thread thread_;
};

}  // namespace mobula::e2e
