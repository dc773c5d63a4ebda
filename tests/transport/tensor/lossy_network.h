// Two hosts with a network between them that delays, drops, and cuts: two network namespaces, each
// with a tunnel device, and a process that forwards packets. Processes started by the test run on
// the host that it has entered. For a test process without threads; needs the right to create
// namespaces.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>

#include "base/fd.h"

namespace mobula::internal::direct_test {

struct NetworkControl;

struct Weather {
  std::uint32_t lost_per_mille = 0;  // lost packets, in each direction
  std::uint32_t delay_us = 0;        // per direction
  bool cut = false;                  // no packet arrives, without an error
};

class LossyNetwork {
 public:
  LossyNetwork();
  ~LossyNetwork();
  LossyNetwork(const LossyNetwork&) = delete;
  LossyNetwork& operator=(const LossyNetwork&) = delete;

  // False if this user may not create the network.
  bool made() const { return pid_ > 0; }
  // Enters host 0 or 1. leave() returns to the previous network.
  void enter(int host);
  void leave();
  // For a process that was started on a host: the system then shows only the devices of that host.
  static void see_own_devices();
  static std::string address(int host) { return host == 0 ? "10.77.0.1" : "10.77.0.2"; }

  void set(const Weather& weather);
  std::uint64_t lost() const;  // packets so far
  std::uint64_t passed() const;

 private:
  bool make_host(std::size_t host);

  NetworkControl* control_ = nullptr;  // shared with the process
  Fd before_;
  std::array<Fd, 2> hosts_, tunnels_;
  pid_t pid_ = -1;
};

}  // namespace mobula::internal::direct_test
