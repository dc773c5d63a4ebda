// Who is in a group, as each of its members is told before they connect. Values with their written form.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "transport/seal.h"

namespace mobula::internal::collective {

using GroupId = std::array<std::byte, 16>;

// Which connections a group may have.
enum class Reach : std::uint8_t {
  any,  // shared memory within a machine, else TCP
  shm,
  tcp,
  gloo,  // words as with any; bytes by a library that a transport plug-in brings
  ucx,
  nccl,  // words go as with any; tensors of devices by a communicator of all
};

// Where one member is reached, in its own words.
struct Meeting {
  std::string machine;       // equal for those that can share memory; empty: with nobody
  std::string local;         // a unix socket; empty: none
  std::string address;       // HOST:PORT for TCP
  std::string fabric{};    // trusted network of its node; empty: none
  std::string carrier{};   // where its library is reached, of groups over a plug-in's
  // Of groups with a communicator:
  std::string process{};       // hexadecimal; turns of devices are taken in their order
  std::string device{};        // its GPU, by UUID
  std::string nccl_host{};     // what its NCCL takes for its machine
  std::string nccl_version{};
};

struct Membership {
  GroupId id{};
  std::string name;
  std::uint32_t rank = 0;
  Reach reach = Reach::any;
  std::uint32_t device = 0;          // with a communicator: which of this process's GPUs
  SealKey key{};                     // known to the members alone
  Duration timeout{};                // of operations, as its maker has said
  std::vector<std::string> actors;   // by rank, for people
  std::vector<Meeting> meetings;     // by rank

  std::uint32_t size() const { return static_cast<std::uint32_t>(actors.size()); }
  // "rank 2 (actor 0123…)".
  std::string member(std::uint32_t rank) const;
};

}  // namespace mobula::internal::collective
