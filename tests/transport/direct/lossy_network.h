// Two hosts with a network between them that delays, loses and cuts: two network namespaces, each with a tunnel
// device, and a process that passes packets from one to the other. What the test process starts runs on the host
// that it has entered. For a test process without threads; needs the right to make namespaces.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>

#include "base/fd.h"

namespace mobula::internal::direct_test {

struct NetworkControl;

struct Weather {
  std::uint32_t lost_per_mille = 0;  // of packets, in each direction
  std::uint32_t delay_us = 0;        // each way
  bool cut = false;                  // nothing arrives, and nobody is told
};

class LossyNetwork {
 public:
  LossyNetwork();
  ~LossyNetwork();
  LossyNetwork(const LossyNetwork&) = delete;
  LossyNetwork& operator=(const LossyNetwork&) = delete;

  // False where this user may not make one.
  bool made() const { return pid_ > 0; }
  // Host 0 or 1; leave() goes back to where the test was before.
  void enter(int host);
  void leave();
  // For a process that was started on a host: what the system says of devices is what that host has.
  static void see_own_devices();
  static std::string address(int host) { return host == 0 ? "10.77.0.1" : "10.77.0.2"; }

  void set(const Weather& weather);
  std::uint64_t lost() const;    // packets so far
  std::uint64_t passed() const;

 private:
  bool make_host(std::size_t host);

  NetworkControl* control_ = nullptr;  // shared with the process
  Fd before_;
  std::array<Fd, 2> hosts_, tunnels_;
  pid_t pid_ = -1;
};

}  // namespace mobula::internal::direct_test
