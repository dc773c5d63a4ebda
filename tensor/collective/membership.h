// Description of a group that each member receives before the members connect, and its encoded
// form.
// Thread: any (plain values).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "transport/bulk/seal.h"

namespace mobula::internal::collective {

using GroupId = std::array<std::byte, 16>;

// Connections that a group may use.
enum class Reach : std::uint8_t {
  any,  // shared memory within a machine, otherwise TCP
  shm,
  tcp,
  gloo,  // control messages as for `any`, payload through a transport plugin
  ucx,
  nccl,  // control messages as for `any`, device tensors through a communicator of all members
};

// Endpoint of one member, as that member reports it.
struct MemberEndpoint {
  std::string machine;    // equal for processes that can share memory; empty: none
  std::string local;      // path of a unix socket; empty: none
  std::string address;    // HOST:PORT for TCP
  std::string fabric{};   // trusted network of the node; empty: none
  std::string carrier{};  // endpoint in the transport plugin of the group
  // Groups with a communicator only:
  std::string process{};    // hexadecimal; turns of devices are taken in the order of these ids
  std::string device{};     // UUID of its GPU
  std::string nccl_host{};  // host identity as NCCL sees it
  std::string nccl_version{};
};

struct Membership {
  GroupId id{};
  std::string name;
  std::uint32_t rank = 0;
  Reach reach = Reach::any;
  std::uint32_t device = 0;               // device ordinal of this member's part in a communicator
  SealKey key{};                          // known to members only
  Duration timeout{};                     // of operations, as the creator of the group chose it
  std::vector<std::string> actors;        // human-readable, by rank
  std::vector<MemberEndpoint> endpoints;  // by rank

  std::uint32_t size() const { return static_cast<std::uint32_t>(actors.size()); }
  // Text such as "rank 2 (actor 0123…)".
  std::string member(std::uint32_t rank) const;
};

}  // namespace mobula::internal::collective
