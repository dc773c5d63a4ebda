// A TCP relay on loopback between one listener of a cluster and those who are told to reach it here: what goes
// towards the listener can be held, as in a network that fails one way. A thread of its own; the test's thread
// makes and ends it.
#pragma once

#include <atomic>
#include <list>
#include <string>
#include <thread>

namespace mobula::e2e {

class Relay {
 public:
  // `target`: HOST:PORT, in numbers.
  explicit Relay(const std::string& target);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  const std::string& address() const { return address_; }
  // From now on no byte reaches the target; what comes from it goes on.
  void hold_what_goes_to_target() { held_ = true; }

 private:
  struct Pair {
    int client = -1;
    int target = -1;
  };
  void work();
  void accept_one();
  // False where the connection has ended.
  static bool pass_on(int from, int to);

  std::string target_host_;
  int target_port_ = 0;
  std::string address_;
  int listener_ = -1;
  std::list<Pair> pairs_;  // of the thread
  std::atomic<bool> held_{false};
  std::atomic<bool> ends_{false};
  int wake_ = -1;
  std::thread thread_;
};

}  // namespace mobula::e2e
