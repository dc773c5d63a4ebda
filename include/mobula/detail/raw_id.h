// The 128 bits of an id of an object, an actor, a group, or an image.
// Thread: owner (plain value).
// Not: for users, who see ids as text.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

#include <mobula/detail/export.h>

namespace mobula::detail {

struct RawId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  constexpr bool empty() const { return high == 0 && low == 0; }
  // Explicit for the front end of nvcc.
  friend constexpr bool operator==(const RawId&, const RawId&) = default;
  friend constexpr auto operator<=>(const RawId&, const RawId&) = default;
};

// Returns 32 hexadecimal digits.
MOBULA_API std::string hex(RawId id);

// The kinds of references inside a value: an object ref, an actor handle, or a tensor whose
// elements stay in their process.
enum class RefKind : std::uint8_t { object = 1, actor = 2, tensor = 3 };

struct ContainedRef {
  RefKind kind = RefKind::object;
  RawId id;

  friend bool operator==(const ContainedRef&, const ContainedRef&) = default;
};

}  // namespace mobula::detail
