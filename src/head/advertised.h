// At which address others find a head: what it tells them where it listens at every address of its machine, and
// whether those who knew the head before this one find it. The choices are pure; `HostFacts::of_machine` asks the
// system, a name server only where nothing else helps. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace mobula::internal::head {

bool is_any_host(const std::string& host);
// "10.0.0.3:80", "[fd00::3]:80".
std::string with_port(const std::string& host, std::uint16_t port);

// Hosts are numeric and without brackets.
struct HostFacts {
  std::string route_v4;                // from where packets to other networks leave; empty: there is no such route
  std::string route_v6;
  std::vector<std::string> addresses;  // of its interfaces, but loopback and link-local ones
  std::function<std::vector<std::string>()> named;  // what the machine's own name stands for

  static HostFacts of_machine();
};

// For a head that listens at every address: that of the route to other networks, else the one that the machine's own
// name stands for, where that is one of its interfaces', else an interface's, else loopback. Never a name: others may
// not know it. V6 goes before V4 where it listens at "::".
std::string advertised_host(const HostFacts& facts, bool v6);

// Where the head before this one listened, and what others were told.
struct HeadPlace {
  std::string bound;       // HOST:PORT
  std::string advertised;  // HOST:PORT
};
std::string to_text(const HeadPlace& place);
std::optional<HeadPlace> place_of(const std::string& text);

// Whether who connects to where the head was told to be before reaches one that listens at `now`. Asks name servers
// where a name was told.
bool reached_at(const HeadPlace& before, const std::string& now);

}  // namespace mobula::internal::head
