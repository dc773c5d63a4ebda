// Ids of 128 bits with a separate type for each kind. Ids of jobs, nodes, and processes are random.
// Ids of tasks and objects are keyed hashes, so a rerun of a task makes the same ids. Ids are
// ordered by value, so ordered tables iterate equally in every run.
// Thread: any.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/hash.h"

namespace mobula::internal {

std::string hex_of(Hash128 bits);
std::optional<Hash128> bits_from_hex(std::string_view hex);
// 128 bits from the operating system (getrandom). For shells; cores receive ids as inputs.
Hash128 random_bits();
// Keyed hash of (parent, kind, index).
Hash128 derive_bits(Hash128 parent, std::string_view kind, std::uint64_t index);

template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  explicit constexpr Id(Hash128 bits) : bits_(bits) {}
  // A readable id for tests and simulations.
  static constexpr Id of(std::uint64_t number) { return Id(Hash128{0, number}); }
  static Id random() { return Id(random_bits()); }
  template <class Parent>
  static Id derived(const Parent& parent, std::string_view kind, std::uint64_t index) {
    return Id(derive_bits(parent.bits(), kind, index));
  }
  static std::optional<Id> from_hex(std::string_view hex) {
    const auto bits = bits_from_hex(hex);
    return bits ? std::optional<Id>(Id(*bits)) : std::nullopt;
  }

  constexpr Hash128 bits() const { return bits_; }
  constexpr bool empty() const { return bits_ == Hash128{}; }
  std::string hex() const { return hex_of(bits_); }
  // The first 8 digits, a prefix that every command accepts. For an id made by of(), the last 8
  // digits.
  std::string brief() const { return hex().substr(bits_.high == 0 ? 24 : 0, 8); }
  friend constexpr auto operator<=>(const Id&, const Id&) = default;

 private:
  Hash128 bits_{};
};

using JobId = Id<struct JobTag>;
using NodeId = Id<struct NodeTag>;        // node of a worker agent; unchanged by agent restarts
using ProcessId = Id<struct ProcessTag>;  // one incarnation of a driver or executor process
using TaskId = Id<struct TaskTag>;
using ActorId = Id<struct ActorTag>;
using ObjectId = Id<struct ObjectTag>;
using SlotId = Id<struct SlotTag>;
using ClassId = Id<struct ClassTag>;      // demand class: hash of the request
using ProgramId = Id<struct ProgramTag>;  // hash of an executable and its non-system libraries
using GroupId = Id<struct GroupTag>;
using SlabId = Id<struct SlabTag>;  // one shared-memory slab; unique over agent restarts

}  // namespace mobula::internal
