// The 128 bits of an id, as the public headers carry them: an object, an actor, a group, an image.
// Value type. Not for users, who see ids as text.
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
  friend constexpr bool operator==(const RawId&, const RawId&) = default;  // explicit for the front end of nvcc
  friend constexpr auto operator<=>(const RawId&, const RawId&) = default;
};

// 32 digits.
MOBULA_API std::string hex(RawId id);

// What a value may hold besides bytes: a right to an object, a handle of an actor, or a tensor whose
// elements stay where they are.
enum class RefKind : std::uint8_t { object = 1, actor = 2, tensor = 3 };

struct ContainedRef {
  RefKind kind = RefKind::object;
  RawId id;

  friend bool operator==(const ContainedRef&, const ContainedRef&) = default;
};

}  // namespace mobula::detail
