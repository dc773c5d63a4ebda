#include "tensor/collective/communicator.h"

#include <utility>

#include "base/mutex.h"
#include "tensor/collective/core/plan.h"

namespace mobula::internal::collective {
namespace {

struct Element {
  int type = -1;          // NCCL data type; -1: not supported
  std::size_t parts = 1;  // NCCL elements per element of ours
};

// NCCL type for a reduction. A complex number counts as two reals, which is valid only for sums.
Element element_of(DType dtype, ReduceKind reduce) {
  const bool adds = reduce == ReduceKind::sum || reduce == ReduceKind::average;
  switch (dtype) {
    case DType::boolean:
    case DType::uint8: return {nccl_abi::type_bytes};
    case DType::int8: return {nccl_abi::type_int8};
    case DType::int32: return {nccl_abi::type_int32};
    case DType::uint32: return {nccl_abi::type_uint32};
    case DType::int64: return {nccl_abi::type_int64};
    case DType::uint64: return {nccl_abi::type_uint64};
    case DType::float16: return {nccl_abi::type_float16};
    case DType::bfloat16: return {nccl_abi::type_bfloat16};
    case DType::float32: return {nccl_abi::type_float32};
    case DType::float64: return {nccl_abi::type_float64};
    case DType::complex64: return adds ? Element{nccl_abi::type_float32, 2} : Element{};
    case DType::complex128: return adds ? Element{nccl_abi::type_float64, 2} : Element{};
    default: return {};
  }
}

int reduction_of(const Operation& operation) {
  // Logical "or" and "and" of zeros and ones.
  const bool logical = operation.dtype == DType::boolean;
  switch (operation.reduce) {
    case ReduceKind::sum: return logical ? nccl_abi::op_max : nccl_abi::op_sum;
    case ReduceKind::product: return logical ? nccl_abi::op_min : nccl_abi::op_product;
    case ReduceKind::min: return nccl_abi::op_min;
    case ReduceKind::max: return nccl_abi::op_max;
    case ReduceKind::average: return nccl_abi::op_average;
  }
  return nccl_abi::op_sum;
}

bool reduces(OperationKind kind) {
  return kind == OperationKind::all_reduce || kind == OperationKind::reduce ||
         kind == OperationKind::reduce_scatter;
}

// The call of NCCL that performs the whole operation, if one exists.
std::optional<NcclCall::Kind> single_call(OperationKind kind) {
  switch (kind) {
    case OperationKind::broadcast: return NcclCall::Kind::broadcast;
    case OperationKind::all_reduce: return NcclCall::Kind::all_reduce;
    case OperationKind::reduce: return NcclCall::Kind::reduce;
    case OperationKind::reduce_scatter: return NcclCall::Kind::reduce_scatter;
    case OperationKind::all_gather: return NcclCall::Kind::all_gather;
    default: return std::nullopt;
  }
}

NcclCall whole_call(NcclCall::Kind kind, const Operation& operation, std::uint32_t members,
                    const Memory& memory) {
  NcclCall whole{.kind = kind,
                 .from = memory.input.data(),
                 .to = memory.output.data(),
                 .count = static_cast<std::size_t>(operation.bytes()),
                 .peer = static_cast<int>(operation.root)};
  if (!reduces(operation.kind)) return whole;
  const Element element = element_of(operation.dtype, operation.reduce);
  whole.type = element.type;
  whole.reduction = reduction_of(operation);
  whole.count = static_cast<std::size_t>(operation.elements()) * element.parts;
  if (operation.kind == OperationKind::reduce_scatter) whole.count /= members;
  return whole;
}

}  // namespace

std::vector<NcclCall> calls_for(const Operation& operation, std::uint32_t rank,
                                std::uint32_t members, const Memory& memory, std::uint32_t peer) {
  std::vector<NcclCall> calls;
  const auto bytes = static_cast<std::size_t>(operation.bytes());
  if (bytes == 0) return calls;
  if (const auto kind = single_call(operation.kind)) {
    calls.push_back(whole_call(*kind, operation, members, memory));
    return calls;
  }
  const std::byte* const from = memory.input.data();
  std::byte* const to = memory.output.data();
  const auto send = [&](std::uint32_t other, std::size_t part) {
    calls.push_back({.kind = NcclCall::Kind::send,
                     .from = from + part * bytes,
                     .count = bytes,
                     .peer = static_cast<int>(other)});
  };
  const auto receive = [&](std::uint32_t other, std::size_t part) {
    calls.push_back({.kind = NcclCall::Kind::receive,
                     .to = to + part * bytes,
                     .count = bytes,
                     .peer = static_cast<int>(other)});
  };
  switch (operation.kind) {
    case OperationKind::gather:
      // The root receives from itself like from any other rank, and first, because both halves are
      // in one NCCL group.
      send(operation.root, 0);
      if (rank == operation.root) receive(rank, rank);
      for (std::uint32_t other = 0; rank == operation.root && other < members; ++other) {
        if (other != rank) receive(other, other);
      }
      break;
    case OperationKind::scatter:
      receive(operation.root, 0);
      if (rank == operation.root) send(rank, rank);
      for (std::uint32_t other = 0; rank == operation.root && other < members; ++other) {
        if (other != rank) send(other, other);
      }
      break;
    case OperationKind::all_to_all:
      // Ordered by distance, so that matching calls have the same position at all members.
      for (std::uint32_t distance = 0; distance < members; ++distance) {
        const std::uint32_t next = (rank + distance) % members;
        const std::uint32_t before = (rank + members - distance) % members;
        send(next, next);
        receive(before, before);
      }
      break;
    case OperationKind::send: send(peer, 0); break;
    case OperationKind::receive: receive(peer, 0); break;
    default: break;
  }
  return calls;
}

Result<nccl_abi::UniqueId> Communicator::make_id() const {
  nccl_abi::UniqueId id{};
  const auto status = terms_.nccl->call().unique_id(&id);
  if (status != nccl_abi::success) return terms_.nccl->error("ncclGetUniqueId", status);
  return id;
}

void Communicator::begin(const nccl_abi::UniqueId& id, Time deadline) {
  {
    const MutexLock lock(mutex_);
    begun_ = true;
  }
  thread_.post([self = shared_from_this(), id, deadline] {
    // The channel is owned by the communicator and destroyed with it.
    self->channel_ = std::make_unique<NcclChannel>(NcclChannel::Terms{
        .nccl = self->terms_.nccl,
        .context = self->terms_.context,
        .id = id,
        .rank = static_cast<int>(self->terms_.rank),
        .ranks = static_cast<int>(self->terms_.ranks),
        .deadline = deadline,
        .shutdown_timeout = self->terms_.shutdown_timeout,
        .opened = [self = self.get()](const Result<void>& result) { self->ended(result); },
        .lost =
            [self = self.get()](const std::string& why) {
              if (self->terms_.lost) self->terms_.lost(why);
              const MutexLock lock(self->mutex_);
              self->quiet_ = self->lost_ = true;
              self->terms_.wake();
            }});
    self->channel_->begin();
    self->drive();
  });
}

void Communicator::move(std::vector<NcclCall> calls, Duration limit,
                        std::shared_ptr<const void> keeps) {
  {
    const MutexLock lock(mutex_);
    done_.reset();
  }
  thread_.post([self = shared_from_this(), calls = std::move(calls), limit,
                keeps = std::move(keeps)]() mutable {
    NcclMove move;
    move.calls = std::move(calls);
    move.limit = limit;
    move.ended = [self, keeps = std::move(keeps)](const Result<void>& result) {
      self->ended(result);
    };
    self->channel_->move(std::move(move));
    self->drive();
  });
}

std::optional<Result<void>> Communicator::done() {
  const MutexLock lock(mutex_);
  return std::exchange(done_, std::nullopt);
}

void Communicator::take_down(const Failure& why) {
  {
    const MutexLock lock(mutex_);
    if (std::exchange(taken_down_, true)) return;
    if (!begun_) {
      quiet_ = true;
      return;
    }
  }
  thread_.post([self = shared_from_this(), why] {
    self->channel_->take_down(why, [raw = self.get()] {
      const MutexLock lock(raw->mutex_);
      raw->quiet_ = true;
      raw->terms_.wake();
    });
    self->drive();
  });
}

bool Communicator::quiet() const {
  const MutexLock lock(mutex_);
  return quiet_;
}

bool Communicator::lost() const {
  const MutexLock lock(mutex_);
  return lost_;
}

void Communicator::ended(const Result<void>& result) {
  {
    const MutexLock lock(mutex_);
    done_ = result;
  }
  terms_.wake();
}

// Runs on the device thread until the channel has no work.
void Communicator::drive() {
  if (std::exchange(watched_, true)) return;
  thread_.watch([self = shared_from_this()] {
    if (!self->channel_->step()) return false;
    self->watched_ = false;
    return true;
  });
}

}  // namespace mobula::internal::collective
