// Handshake of a collective operation: the operation that each member announces before bytes move,
// and the comparison of the announcements.
// Thread: any (pure).
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

// The values are part of the wire format: append only.
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
  send = 9,  // between two members, without a handshake of all
  receive = 10,
};
std::string_view name_of(OperationKind kind);

enum class ReduceKind : std::uint8_t { sum = 0, product = 1, min = 2, max = 3, average = 4 };
std::string_view name_of(ReduceKind kind);

// Announcement of one member. `shape` is the shape of one part: the input of each member for
// all_gather, the output of each member for scatter, the whole input for reduce_scatter, which
// divides its first dimension.
struct Operation {
  OperationKind kind = OperationKind::barrier;
  ReduceKind reduce = ReduceKind::sum;
  std::uint32_t root = 0;
  bool open = false;  // uses the shape and dtype of the root
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape = {};
  // Not compared: UUID of the GPU with the operand, and version of this member's NCCL. Empty: none.
  std::string device = {};
  std::string library = {};

  std::int64_t elements() const;
  std::int64_t bytes() const;
  // Text such as "all_reduce(sum) of float32 [4, 2]".
  std::string text() const;
  friend bool operator==(const Operation&, const Operation&) = default;
};

inline constexpr std::size_t max_members = 512;
inline constexpr std::size_t max_operation_bytes = 1024;
inline constexpr std::size_t max_device_bytes = 128;  // longest device name
inline constexpr std::size_t max_library_bytes = 32;  // longest library version
// Largest operand that is part of the handshake message.
std::size_t inline_limit(std::size_t members);

std::vector<std::byte> encode(const Operation& operation);
// Fails with corrupt on input that no member of this version sends.
Result<Operation> decode_operation(std::span<const std::byte> bytes);

// Rejects an operation that is invalid regardless of the other members: an unknown root, a dtype
// that cannot be reduced in this way, or a first dimension that cannot be divided.
Result<void> check(const Operation& operation, std::size_t members);

struct Difference {
  std::vector<std::uint32_t> ranks;  // ranks that differ from the majority; ascending
  std::string text;                  // human-readable: the ranks and their operations
};
// Empty if all agree. All members with the same announcements reach the same verdict: the majority
// is right, and on a tie the announcement of the lowest rank.
std::optional<Difference> difference(const std::vector<Operation>& said);

// The agreed operation: the root's announcement if the others left it open. Requires agreement.
const Operation& agreed(const std::vector<Operation>& said);

}  // namespace mobula::internal::collective
