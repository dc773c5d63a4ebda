// Collectives of the simulated NCCL: each rank sends its input to all ranks that need it and
// reduces the received data, last rank first, so that no test relies on rank order.
#include <cstring>

#include "simulated_gpu/nccl_state.h"
#include "simulated_gpu/settings.h"
#include "tensor/collective/core/half.h"

namespace simulated_gpu {
namespace {

namespace half = mobula::internal::collective;

std::size_t ranks_of(const Communicator& of) { return static_cast<std::size_t>(of.self.ranks); }
std::size_t rank_of(const Communicator& of) { return static_cast<std::size_t>(of.self.rank); }

std::uint64_t name_of(const Whole& whole) {
  return static_cast<std::uint64_t>(whole.kind) << 56 |
         static_cast<std::uint64_t>(whole.type + 1) << 48 |
         static_cast<std::uint64_t>(whole.reduction + 1) << 40 |
         static_cast<std::uint64_t>(whole.root + 1) << 28;
}

template <class T>
T joined(int reduction, T a, T b) {
  switch (reduction) {
    case nccl::op_product: return static_cast<T>(a * b);
    case nccl::op_max: return a < b ? b : a;
    case nccl::op_min: return b < a ? b : a;
    default: return static_cast<T>(a + b);
  }
}

template <class T>
void fold(const Whole& whole, std::size_t elements, std::byte* to, std::size_t ranks) {
  for (std::size_t i = 0; i < elements; ++i) {
    T sum{};
    for (std::size_t rank = ranks; rank-- > 0;) {
      T each{};
      std::memcpy(&each, whole.of_ranks[rank].data() + i * sizeof(T), sizeof(T));
      sum = rank + 1 == ranks ? each : joined(whole.reduction, sum, each);
    }
    if (whole.reduction == nccl::op_average) sum = static_cast<T>(sum / static_cast<T>(ranks));
    std::memcpy(to + i * sizeof(T), &sum, sizeof(T));
  }
}

// Rounds after each step, as the real library may.
template <float (*Widen)(std::uint16_t), std::uint16_t (*Round)(float)>
void fold_halves(const Whole& whole, std::size_t elements, std::byte* to, std::size_t ranks) {
  for (std::size_t i = 0; i < elements; ++i) {
    std::uint16_t sum = 0;
    for (std::size_t rank = ranks; rank-- > 0;) {
      std::uint16_t each = 0;
      std::memcpy(&each, whole.of_ranks[rank].data() + 2 * i, 2);
      sum = rank + 1 == ranks ? each : Round(joined(whole.reduction, Widen(sum), Widen(each)));
    }
    if (whole.reduction == nccl::op_average) sum = Round(Widen(sum) / static_cast<float>(ranks));
    std::memcpy(to + 2 * i, &sum, 2);
  }
}

void fold(const Whole& whole, std::size_t elements, std::byte* to, std::size_t ranks) {
  // signs matter only for comparisons
  const bool compares = whole.reduction == nccl::op_max || whole.reduction == nccl::op_min;
  switch (whole.type) {
    case nccl::type_int8: return fold<std::int8_t>(whole, elements, to, ranks);
    case nccl::type_bytes: return fold<std::uint8_t>(whole, elements, to, ranks);
    case nccl::type_int32:
      return compares ? fold<std::int32_t>(whole, elements, to, ranks)
                      : fold<std::uint32_t>(whole, elements, to, ranks);
    case nccl::type_uint32: return fold<std::uint32_t>(whole, elements, to, ranks);
    case nccl::type_int64:
      return compares ? fold<std::int64_t>(whole, elements, to, ranks)
                      : fold<std::uint64_t>(whole, elements, to, ranks);
    case nccl::type_uint64: return fold<std::uint64_t>(whole, elements, to, ranks);
    case nccl::type_float16:
      return fold_halves<half::from_float16, half::to_float16>(whole, elements, to, ranks);
    case nccl::type_bfloat16:
      return fold_halves<half::from_bfloat16, half::to_bfloat16>(whole, elements, to, ranks);
    case nccl::type_float32: return fold<float>(whole, elements, to, ranks);
    case nccl::type_float64: return fold<double>(whole, elements, to, ranks);
    default: misuse("a type that is not reduced");
  }
}

std::byte* first(const Seen& seen) {
  return seen.pieces.empty() ? nullptr : seen.pieces.front().data();
}

}  // namespace

std::size_t size_of_type(int type) {
  static constexpr std::size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return type >= 0 && type < 10 ? sizes[type] : 0;
}

std::size_t bytes_from(const Whole& whole, const Communicator& of) {
  const std::size_t bytes = whole.count * size_of_type(whole.type);
  if (whole.kind == Collective::broadcast && whole.root != of.self.rank) return 0;
  return whole.kind == Collective::reduce_scatter ? bytes * ranks_of(of) : bytes;
}

std::size_t bytes_to(const Whole& whole, const Communicator& of) {
  const std::size_t bytes = whole.count * size_of_type(whole.type);
  if (whole.kind == Collective::reduce && whole.root != of.self.rank) return 0;
  return whole.kind == Collective::all_gather ? bytes * ranks_of(of) : bytes;
}

std::vector<Operation> begin(Whole& whole, const Communicator& of) {
  const std::size_t bytes = whole.count * size_of_type(whole.type);
  const std::size_t ranks = ranks_of(of), self = rank_of(of);
  const auto root = static_cast<std::size_t>(whole.root);
  std::vector<Operation> operations;
  whole.of_ranks.assign(ranks, {});
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const bool to_it = whole.kind == Collective::broadcast
                           ? self == root
                           : whole.kind != Collective::reduce || rank == root;
    const bool from_it = whole.kind == Collective::broadcast
                             ? rank == root
                             : whole.kind != Collective::reduce || self == root;
    std::byte* const own =
        first(whole.from) == nullptr
            ? nullptr
            : first(whole.from) + (whole.kind == Collective::reduce_scatter ? rank * bytes : 0);
    if (from_it) whole.of_ranks[rank].resize(bytes);
    if (rank == self) {
      if (from_it && bytes > 0) std::memcpy(whole.of_ranks[rank].data(), own, bytes);
      continue;
    }
    Operation operation{false, static_cast<int>(rank), bytes, {}, name_of(whole)};
    operation.memory.found = true;
    if (to_it) {
      operation.sends = true;
      operation.memory.pieces = {std::span(own, bytes)};
      operations.push_back(operation);
    }
    if (from_it) {
      operation.sends = false;
      operation.memory.pieces = {std::span(whole.of_ranks[rank])};
      operations.push_back(operation);
    }
  }
  return operations;
}

void finish(Whole& whole, const Communicator& of) {
  const std::size_t bytes = whole.count * size_of_type(whole.type);
  std::byte* const to = first(whole.to);
  if (to == nullptr || bytes == 0) return;
  if (whole.kind == Collective::broadcast) {
    std::memcpy(to, whole.of_ranks[static_cast<std::size_t>(whole.root)].data(), bytes);
  } else if (whole.kind == Collective::all_gather) {
    for (std::size_t rank = 0; rank < ranks_of(of); ++rank)
      std::memcpy(to + rank * bytes, whole.of_ranks[rank].data(), bytes);
  } else if (whole.kind != Collective::reduce || whole.root == of.self.rank) {
    fold(whole, whole.count, to, ranks_of(of));
  }
}

}  // namespace simulated_gpu
