// A faulty network link between two nodes: a process that relays bytes between its clients and one
// address. The test orders it, through a shared page, to cut, reset, stall, delay, or change the
// connections.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace mobula::internal::direct_test {

enum class LinkFault : std::uint32_t {
  none,
  cut,      // connections end as if the peer had closed them; also new ones
  reset,    // the same with a TCP reset
  stall,    // no bytes pass in either direction, without an error
  trickle,  // a few kilobytes at a time
  corrupt,  // one bit of one byte changes, once
  delay,    // each direction has a delay, without loss
};

struct LinkControl;

class LinkProxy {
 public:
  // Relays to V4:PORT `target`.
  explicit LinkProxy(const std::string& target);
  ~LinkProxy();
  LinkProxy(const LinkProxy&) = delete;
  LinkProxy& operator=(const LinkProxy&) = delete;

  const std::string& address() const { return address_; }
  // Starts the fault after `after` more bytes towards the clients.
  void set(LinkFault fault, std::uint64_t after = 0);
  // True if the fault took effect since it was set.
  bool met() const;

 private:
  LinkControl* control_ = nullptr;  // shared with the process
  std::string address_;
  pid_t pid_ = -1;
};

}  // namespace mobula::internal::direct_test
