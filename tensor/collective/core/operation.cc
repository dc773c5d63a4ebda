#include "tensor/collective/core/operation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

namespace mobula::internal::collective {
namespace {

constexpr std::size_t max_dimensions = 64;

void put(std::vector<std::byte>& to, std::uint64_t number) {
  for (int i = 0; i < 8; ++i) to.push_back(static_cast<std::byte>(number >> (8 * i)));
}

std::uint64_t take(std::span<const std::byte>& from) {
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < 8; ++i) number |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  from = from.subspan(8);
  return number;
}

bool has_root(OperationKind kind) {
  return kind == OperationKind::broadcast || kind == OperationKind::reduce ||
         kind == OperationKind::gather || kind == OperationKind::scatter;
}

bool reduces(OperationKind kind) {
  return kind == OperationKind::all_reduce || kind == OperationKind::reduce ||
         kind == OperationKind::reduce_scatter;
}

// Encodes an announcement with open fields filled in, so that equal keys mean agreement.
std::vector<std::byte> key_of(const Operation& operation, const Operation& root) {
  Operation closed = operation;
  if (operation.open && operation.kind == root.kind && operation.root == root.root) {
    closed.dtype = root.dtype;
    closed.shape = root.shape;
  }
  closed.open = false;
  closed.device.clear();
  closed.library.clear();
  return encode(closed);
}

bool is_float(DType dtype) {
  return dtype == DType::float16 || dtype == DType::bfloat16 || dtype == DType::float32 ||
         dtype == DType::float64;
}
bool is_complex(DType dtype) { return dtype == DType::complex64 || dtype == DType::complex128; }
bool is_float8(DType dtype) {
  return dtype == DType::float8_e4m3fn || dtype == DType::float8_e5m2 ||
         dtype == DType::float8_e8m0;
}

}  // namespace

std::string_view name_of(OperationKind kind) {
  switch (kind) {
    case OperationKind::barrier: return "barrier";
    case OperationKind::broadcast: return "broadcast";
    case OperationKind::all_reduce: return "all_reduce";
    case OperationKind::reduce: return "reduce";
    case OperationKind::all_gather: return "all_gather";
    case OperationKind::gather: return "gather";
    case OperationKind::scatter: return "scatter";
    case OperationKind::reduce_scatter: return "reduce_scatter";
    case OperationKind::all_to_all: return "all_to_all";
    case OperationKind::send: return "send";
    case OperationKind::receive: return "receive";
  }
  return "unknown";
}

std::string_view name_of(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::sum: return "sum";
    case ReduceKind::product: return "product";
    case ReduceKind::min: return "min";
    case ReduceKind::max: return "max";
    case ReduceKind::average: return "average";
  }
  return "unknown";
}

std::int64_t Operation::elements() const {
  std::int64_t count = 1;
  for (const auto extent : shape) count *= extent;
  return kind == OperationKind::barrier ? 0 : count;
}

std::int64_t Operation::bytes() const {
  return elements() * static_cast<std::int64_t>(item_bytes(dtype));
}

std::string Operation::text() const {
  std::string said(name_of(kind));
  if (reduces(kind)) said += fmt::format("({})", name_of(reduce));
  if (has_root(kind)) said += fmt::format(", root {}", root);
  if (kind != OperationKind::barrier && !open)
    said += fmt::format(", {} {}", dtype_name(dtype), shape);
  return said;
}

std::size_t inline_limit(std::size_t members) { return members <= 8 ? 4096 : 1024; }

std::vector<std::byte> encode(const Operation& operation) {
  std::vector<std::byte> bytes;
  bytes.reserve(8 + 8 * operation.shape.size() + 8);
  bytes.push_back(static_cast<std::byte>(operation.kind));
  bytes.push_back(static_cast<std::byte>(operation.reduce));
  bytes.push_back(static_cast<std::byte>(operation.dtype));
  bytes.push_back(static_cast<std::byte>(operation.open));
  bytes.push_back(static_cast<std::byte>(operation.shape.size()));
  const std::string_view device = std::string_view(operation.device).substr(0, max_device_bytes);
  const std::string_view library = std::string_view(operation.library).substr(0, max_library_bytes);
  bytes.push_back(static_cast<std::byte>(device.size()));
  bytes.push_back(static_cast<std::byte>(library.size()));
  bytes.push_back(std::byte{0});
  put(bytes, operation.root);
  for (const auto extent : operation.shape) put(bytes, static_cast<std::uint64_t>(extent));
  for (const char each : device) bytes.push_back(static_cast<std::byte>(each));
  for (const char each : library) bytes.push_back(static_cast<std::byte>(each));
  return bytes;
}

Result<Operation> decode_operation(std::span<const std::byte> bytes) {
  const Failure broken = failure(ErrorCode::corrupt, "a member sent an invalid operation");
  if (bytes.size() < 16) return broken;
  Operation operation;
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[i]); };
  if (at(0) > static_cast<int>(OperationKind::receive) ||
      at(1) > static_cast<int>(ReduceKind::average) || item_bytes(static_cast<DType>(at(2))) == 0 ||
      at(3) > 1 || at(4) > max_dimensions || at(5) > max_device_bytes ||
      at(6) > max_library_bytes) {
    return broken;
  }
  operation.kind = static_cast<OperationKind>(at(0));
  operation.reduce = static_cast<ReduceKind>(at(1));
  operation.dtype = static_cast<DType>(at(2));
  operation.open = at(3) == 1;
  const std::size_t dimensions = at(4);
  const std::size_t device = at(5);
  const std::size_t library = at(6);
  bytes = bytes.subspan(8);
  const std::uint64_t root = take(bytes);
  if (root >= max_members || bytes.size() != 8 * dimensions + device + library) return broken;
  operation.root = static_cast<std::uint32_t>(root);
  std::int64_t total = static_cast<std::int64_t>(item_bytes(operation.dtype));
  for (std::size_t i = 0; i < dimensions; ++i) {
    const std::uint64_t extent = take(bytes);
    if (extent > (std::uint64_t{1} << 62)) return broken;
    operation.shape.push_back(static_cast<std::int64_t>(extent));
    if (__builtin_mul_overflow(total, operation.shape.back(), &total)) return broken;
  }
  for (const std::byte each : bytes.first(device))
    operation.device.push_back(static_cast<char>(each));
  for (const std::byte each : bytes.subspan(device))
    operation.library.push_back(static_cast<char>(each));
  return operation;
}

Result<void> check(const Operation& operation, std::size_t members) {
  const auto refused = [&](std::string why) {
    return failure(ErrorCode::invalid_argument, fmt::format("{}: {}", operation.text(), why));
  };
  if (operation.root >= members) {
    return refused(
        fmt::format("the group has {} members, so there is no rank {}", members, operation.root));
  }
  if (operation.shape.size() > max_dimensions) return refused("at most 64 dimensions");
  if (operation.kind == OperationKind::reduce_scatter &&
      (operation.shape.empty() || operation.shape[0] % static_cast<std::int64_t>(members) != 0)) {
    return refused(
        fmt::format("the first dimension is divided among the {} members, and cannot be", members));
  }
  if (!reduces(operation.kind) || operation.open) return {};
  if (is_float8(operation.dtype)) {
    return refused("8-bit floats are not reduced, their range is too small; convert them first");
  }
  const bool ordered = operation.reduce == ReduceKind::min || operation.reduce == ReduceKind::max;
  if (ordered && is_complex(operation.dtype)) return refused("complex numbers have no order");
  if (operation.reduce == ReduceKind::average && !is_float(operation.dtype) &&
      !is_complex(operation.dtype)) {
    return refused("an average is of floating point numbers; take the sum, and divide");
  }
  return {};
}

std::optional<Difference> difference(const std::vector<Operation>& said) {
  struct Group {
    std::vector<std::uint32_t> ranks;
  };
  std::map<std::vector<std::byte>, Group> groups;
  for (std::uint32_t rank = 0; rank < said.size(); ++rank) {
    const std::uint32_t root = said[rank].root;
    const Operation& of_root = root < said.size() ? said[root] : said[rank];
    groups[key_of(said[rank], of_root)].ranks.push_back(rank);
  }
  if (groups.size() <= 1) return std::nullopt;
  const Group* most = nullptr;
  for (const auto& [key, group] : groups) {
    const bool more = most == nullptr || group.ranks.size() > most->ranks.size() ||
                      (group.ranks.size() == most->ranks.size() && group.ranks[0] < most->ranks[0]);
    if (more) most = &group;
  }
  Difference found;
  std::vector<const Group*> others;
  for (const auto& [key, group] : groups) {
    if (&group == most) continue;
    others.push_back(&group);
    found.ranks.insert(found.ranks.end(), group.ranks.begin(), group.ranks.end());
  }
  std::ranges::sort(found.ranks);
  std::ranges::sort(others, {}, [](const Group* group) { return group->ranks[0]; });
  const auto words = [&](const Group& group) {
    return fmt::format("{} {} {} {}", group.ranks.size() == 1 ? "rank" : "ranks",
                       fmt::join(group.ranks, ", "), group.ranks.size() == 1 ? "is at" : "are at",
                       said[group.ranks[0]].text());
  };
  found.text = words(*most);
  for (const Group* other : others) found.text += ", " + words(*other);
  return found;
}

const Operation& agreed(const std::vector<Operation>& said) {
  const std::uint32_t root = said.front().root;
  if (has_root(said.front().kind) && root < said.size() && !said[root].open) return said[root];
  for (const Operation& each : said) {
    if (!each.open) return each;
  }
  return said.front();
}

}  // namespace mobula::internal::collective
