// A link between two nodes that can fail: a process that passes bytes on between whoever connects to
// it and one address, until it is told to cut, reset, stall, slow down or change them. The test steers
// it through a page that both see.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace mobula::internal::direct_test {

enum class LinkFault : std::uint32_t {
  none,
  cut,      // connections end as if the other end had closed them; new ones too
  reset,    // the same without a farewell
  stall,    // nothing goes in either direction, and nobody is told
  trickle,  // a few kilobytes at a time
  corrupt,  // one bit of one byte changes, once
  delay,    // each way takes time, and nothing is lost
};

struct LinkControl;

class LinkProxy {
 public:
  // Leads to V4:PORT `target`.
  explicit LinkProxy(const std::string& target);
  ~LinkProxy();
  LinkProxy(const LinkProxy&) = delete;
  LinkProxy& operator=(const LinkProxy&) = delete;

  const std::string& address() const { return address_; }
  // From `after` more bytes on towards those who connect.
  void set(LinkFault fault, std::uint64_t after = 0);
  // The fault has been met since it was set.
  bool met() const;

 private:
  LinkControl* control_ = nullptr;  // shared with the process
  std::string address_;
  pid_t pid_ = -1;
};

}  // namespace mobula::internal::direct_test
