// What the members of a collective group say to each other about one operation before bytes move, and what
// follows when they do not say the same. Values; pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "mobula/dtype.h"

namespace mobula::internal::collective {

// Values travel: append only.
enum class OperationKind : std::uint8_t {
  barrier = 0,
  broadcast = 1,
  all_reduce = 2,
  reduce = 3,
  all_gather = 4,
  gather = 5,
  scatter = 6,
  reduce_scatter = 7,
  all_to_all = 8,
  send = 9,  // of a pair alone: no meeting
  receive = 10,
};
std::string_view name_of(OperationKind kind);

enum class ReduceKind : std::uint8_t { sum = 0, product = 1, min = 2, max = 3, average = 4 };
std::string_view name_of(ReduceKind kind);

// One member's word. `shape` is of one part: of what each member gives to all_gather, of what each gets from
// scatter, of the whole that reduce_scatter divides by its first dimension.
struct Operation {
  OperationKind kind = OperationKind::barrier;
  ReduceKind reduce = ReduceKind::sum;
  std::uint32_t root = 0;
  bool open = false;  // takes the shape and dtype of the root's
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape = {};
  // What no two have to agree on: which GPU the operand lies on, by UUID, and the version of this member's library
  // for those; empty: none.
  std::string device = {};
  std::string library = {};

  std::int64_t elements() const;
  std::int64_t bytes() const;
  // "all_reduce(sum) of float32 [4, 2]".
  std::string text() const;
  friend bool operator==(const Operation&, const Operation&) = default;
};

inline constexpr std::size_t max_members = 512;
inline constexpr std::size_t max_operation_bytes = 1024;
inline constexpr std::size_t max_device_bytes = 128;   // of a device's name
inline constexpr std::size_t max_library_bytes = 32;  // of a library's version
// Operands up to this size travel with the words themselves.
std::size_t inline_limit(std::size_t members);

std::vector<std::byte> encode(const Operation& operation);
// corrupt for what no member of this version says.
Result<Operation> decode_operation(std::span<const std::byte> bytes);

// What a member may not ask for, whatever the others say: a root that is no rank, a dtype that cannot be
// reduced so, a first dimension that cannot be divided.
Result<void> check(const Operation& operation, std::size_t members);

struct Difference {
  std::vector<std::uint32_t> ranks;  // that say something else than most do; ascending
  std::string text;                  // who says what
};
// Nothing where all agree. Every member that has the same words comes to the same verdict: what most say is
// right; among equally many, what the lowest rank says.
std::optional<Difference> difference(const std::vector<Operation>& said);

// What is done: the root's word, where the others leave it open. All agree.
const Operation& agreed(const std::vector<Operation>& said);

}  // namespace mobula::internal::collective
