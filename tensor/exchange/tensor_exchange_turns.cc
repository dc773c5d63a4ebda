// Work under device turns: two-sided transfers in steps, and turns for other work.
#include <algorithm>
#include <utility>

#include "tensor/exchange/tensor_exchange.h"

namespace mobula::internal::exchange {

// ---- turns for other work -----------------------------------------------------------------------

void TensorExchange::claim_turn(std::uint32_t device_ordinal, std::uint64_t claim,
                                std::function<void()> taken) {
  post([this, device_ordinal, claim, taken = std::move(taken)] {
    claims_[claim] = taken;
    step([&](Time now, auto& out) { core_.claim_turn(now, device_ordinal, claim, out); });
  });
}

void TensorExchange::return_turn(std::uint64_t claim) {
  post([this, claim] {
    claims_.erase(claim);
    step([&](Time now, auto& out) { core_.return_turn(now, claim, out); });
  });
}

void TensorExchange::carry_out(const transfer::TurnTaken& command) {
  const auto at = claims_.find(command.claim);
  if (at != claims_.end() && at->second) at->second();
}

// ---- two-sided steps ----------------------------------------------------------------------------

void TensorExchange::issued(transfer::OperationId operation, const Result<void>& result) {
  operations_.erase(operation);
  const auto failed = result ? std::nullopt : std::optional<Failure>(result.error());
  step([&](Time now, auto& out) { core_.ended(now, operation, failed, out); });
}

void TensorExchange::issue(const transfer::IssueStep& command, const TensorPaths::Pairing& pair,
                           std::span<std::byte> bytes, bool sends) {
  // Both sides derive the same id, which differs from all other active transfers between them.
  const ProcessId receiver = sends ? command.peer : options_.self.process;
  const auto of_channel = ObjectId::derived(command.object, receiver.hex(), command.epoch);
  const auto transfer = TransferId::derived(of_channel, "piece", command.offset);
  operations_[command.operation].transfer = transfer;
  paths_->move_pair(pair, transfer, bytes, sends,
                    [this, operation = command.operation](const Result<void>& result) {
                      issued(operation, result);
                    });
}

void TensorExchange::carry_out(const transfer::IssueStep& command) {
  const TensorPaths::Pairing pair{command.peer, command.device_ordinal, command.peer_ordinal,
                                  command.epoch};
  operations_[command.operation] = {command.path, {}, command.pull, pair};
  const auto ends = [this, operation = command.operation](const Result<void>& result) {
    issued(operation, result);
  };
  if (command.opens) return paths_->open_pair(pair, ends);
  if (command.pull == 0) {
    const auto at = registered_.find(command.object);
    if (at == registered_.end())
      return ends(failure(ErrorCode::not_found, "the tensor is not here any more"));
    const auto all = at->second.elements.bytes;
    auto* const first = const_cast<std::byte*>(all.data());  // only read
    return issue(command, pair,
                 std::span(first, all.size()).subspan(command.offset, command.size_bytes), true);
  }
  if (command.offset > 0 && arriving_.contains(command.pull)) {
    auto* const first = arriving_[command.pull].memory->bytes;
    return issue_next(command, pair, first);
  }
  const auto request = pulls_.find(command.pull);
  if (request == pulls_.end() || !requests_.contains(request->second.request)) {
    return ends(failure(ErrorCode::cancelled, "no request needs the tensor any more"));
  }
  const Wanted& wanted = requests_.at(request->second.request).pulls.at(command.pull);
  const auto size = static_cast<std::uint64_t>(wanted.ref.tensor->size_bytes);
  // A failed attempt may still write to its memory, so each attempt has its own.
  paths_->take(wanted.device, size, [this, command, pair, ends](Result<DeviceAllocation> taken) {
    if (!operations_.contains(command.operation)) return;
    if (!taken) return ends(taken.error());
    arriving_[command.pull].memory = std::make_shared<const DeviceAllocation>(std::move(*taken));
    issue_next(command, pair, arriving_[command.pull].memory->bytes);
  });
}

// Issues the next step of the receiving side.
void TensorExchange::issue_next(const transfer::IssueStep& command,
                                const TensorPaths::Pairing& pair, std::byte* first) {
  const auto request = pulls_.find(command.pull);
  if (request != pulls_.end() && requests_.contains(request->second.request)) {
    const Wanted& wanted = requests_.at(request->second.request).pulls.at(command.pull);
    const auto size = static_cast<std::uint64_t>(wanted.ref.tensor->size_bytes);
    progress_.moves(monotonic_now(), request->second.request, wanted.ref.object, command.path);
    progress_.there(request->second.request, wanted.ref.object, command.offset);
    if (command.offset + command.size_bytes == size) {
      fetched_[command.pull] = {.bytes = {first, size},
                                .owner = arriving_.at(command.pull).memory->owner,
                                .device = wanted.device};
    }
  }
  issue(command, pair, {first + command.offset, command.size_bytes}, false);
}

void TensorExchange::carry_out(const transfer::DropChannel& command) {
  paths_->drop_pair({command.peer, command.device_ordinal, command.peer_ordinal, command.epoch});
}

}  // namespace mobula::internal::exchange
