// Core of the tensor exchange of one process: the tensors that it offers and the tensors that it
// pulls. The rules are in `region_pulls.h`, `region_serves.h`, and `region_steps.h` (two-sided
// paths). Messages of peers are untrusted: unknown, outdated, and misplaced ones change nothing.
// Messages between two processes are ordered and complete until `peer_gone`, and no earlier one
// arrives after that.
// Thread: owner.
// Not: bytes, memory, and connections; the owner carries out the commands.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tensor/exchange/core/tensor_exchange_types.h"
#include "tensor/exchange/core/tensor_offers.h"
#include "tensor/exchange/core/tensor_pulls.h"
#include "tensor/exchange/core/two_sided_steps.h"

namespace mobula::internal::transfer {

class TensorExchangeCore {
 public:
  using Commands = std::vector<RegionCommand>;

  explicit TensorExchangeCore(ProcessId self, RegionOptions options = {});
  TensorExchangeCore(const TensorExchangeCore&) = delete;
  TensorExchangeCore& operator=(const TensorExchangeCore&) = delete;

  // ---- registered tensors ----
  // Registers a complete, readable tensor. `device_ordinal`: ordinal of its device.
  void register_tensor(Time now, ObjectId object, std::uint64_t size_bytes,
                       std::uint32_t device_ordinal, Commands& out);
  // The last ref was released, or the memory of a replica is needed. `FreeRegions` follows when no
  // process can access the bytes.
  void unregister(Time now, ObjectId object, Commands& out);
  // Moves the tensor out of this process: `StoreRegions` follows when no offer is active.
  void evacuate(Time now, ObjectId object, Commands& out);
  // On success, `FreeRegions` follows.
  void stored(Time now, ObjectId object, const std::optional<Failure>& failure, Commands& out);

  // ---- pulls ----
  Result<std::vector<RegionPullId>> pull(Time now, std::vector<TensorRequest> together,
                                         bool arguments, Commands& out);
  void cancel(Time now, RegionPullId pull, Commands& out);
  void located(Time now, ObjectId object, const RegionsLocated& answer, Commands& out);
  // `paths` is ordered by preference; empty: the replica holder is not usable.
  void reached(Time now, RegionPullId pull, ProcessId replica_holder, std::vector<DirectPath> paths,
               Commands& out);

  // ---- turns of devices for other work ----
  // `TurnTaken` follows. `claim` is a number of the caller.
  void claim_turn(Time now, std::uint32_t device_ordinal, std::uint64_t claim, Commands& out);
  void return_turn(Time now, std::uint64_t claim, Commands& out);

  // ---- events ----
  void on(Time now, ProcessId from, const RegionMessage& message, Commands& out);
  // The holder supports closing idle connections.
  void supports_close(ProcessId holder) { pulls_.supports_close(holder); }
  // The peer has exited, or the connections with it are invalid. `may_return`: it may still live,
  // and a lookup may name it again.
  void peer_gone(Time now, ProcessId peer, bool may_return, Commands& out);
  void exported(Time now, OperationId operation, const Result<std::string>& ticket, Commands& out);
  // A transport reports progress.
  void progressed(Time now, OperationId operation);
  // Reported for `Fetch` and `Issue`, cancelled or not, and for `Unexport`.
  void ended(Time now, OperationId operation, const std::optional<Failure>& failure, Commands& out);
  void tick(Time now, Commands& out);
  std::optional<Time> next_deadline() const;

  // ---- queries ----
  bool has(ObjectId object) const { return serves_.has(object); }
  bool has_copy(ObjectId object) const { return serves_.has_copy(object); }
  std::uint64_t bytes_reserved() const { return pulls_.bytes_reserved(); }
  std::size_t pulls() const { return pulls_.size(); }
  std::size_t serves() const { return serves_.serves(); }
  // Number of connections to holders.
  std::size_t connections() const { return pulls_.connections(); }
  std::size_t open_channels() const { return steps_.open_channels(); }
  // True if nothing is in progress and no turn is held.
  bool is_idle() const;

 private:
  void begin(Time now, Commands& out);
  // Processes the results of two-sided sides.
  void settle();

  RegionContext context_;
  TwoSidedSteps steps_;
  TensorOffers serves_;
  TensorPulls pulls_;
};

}  // namespace mobula::internal::transfer
