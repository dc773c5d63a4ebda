// Tensors between processes: what this one has for others, and what it wants of them. Pure; owned by one
// core; not thread-safe. It knows ids, sizes, paths and turns; bytes, memory and connections are its owner's,
// who carries out the commands. The rules are in the parts: region_pulls.h for who wants, region_serves.h for
// who has, region_steps.h for paths on which both act at once.
//
// Whatever peers say is untrusted: what is unknown, old or out of place changes nothing. Messages between
// two processes are in order and complete until `peer_gone`; after that nothing of before is heard again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "transfer/core/region_pulls.h"
#include "transfer/core/region_serves.h"
#include "transfer/core/region_steps.h"
#include "transfer/core/region_types.h"

namespace mobula::internal::transfer {

class RegionExchange {
 public:
  using Commands = std::vector<RegionCommand>;

  explicit RegionExchange(ProcessId self, RegionOptions options = {});
  RegionExchange(const RegionExchange&) = delete;
  RegionExchange& operator=(const RegionExchange&) = delete;

  // ---- what it has ----
  // Complete, and readable for anybody. `lane`: the device of this process that has it.
  void publish(Time now, ObjectId object, std::uint64_t size_bytes, std::uint32_t lane, Commands& out);
  // Nobody has a ref of it any more, or of a copy: its memory is wanted for something else. FreeRegions follows
  // when nobody can reach it.
  void retire(Time now, ObjectId object, Commands& out);
  // It has to leave this process: StoreRegions follows when nobody is being given it.
  void evacuate(Time now, ObjectId object, Commands& out);
  // Success: FreeRegions follows.
  void stored(Time now, ObjectId object, const std::optional<Failure>& failure, Commands& out);

  // ---- what it wants ----
  Result<std::vector<RegionPullId>> want(Time now, std::vector<RegionWish> together, bool arguments, Commands& out);
  void unwant(Time now, RegionPullId pull, Commands& out);
  void located(Time now, ObjectId object, const RegionsLocated& answer, Commands& out);
  // Best first; none: it is not to be had there.
  void reached(Time now, RegionPullId pull, ProcessId keeper, std::vector<DirectPath> paths, Commands& out);

  // ---- turns of devices, for what is no transfer ----
  // TurnTaken follows; numbers are the caller's.
  void claim_turn(Time now, std::uint32_t lane, std::uint64_t claim, Commands& out);
  void return_turn(Time now, std::uint64_t claim, Commands& out);

  // ---- what happens ----
  void heard(Time now, ProcessId from, const RegionMessage& message, Commands& out);
  // It answers to partings: what carries nothing from it may be closed.
  void may_part(ProcessId holder) { pulls_.may_part(holder); }
  // It is dead, or what was said between the two is void for another reason.
  void peer_gone(Time now, ProcessId peer, Commands& out);
  void exported(Time now, OperationId operation, const Result<std::string>& ticket, Commands& out);
  // Bytes have moved.
  void progressed(Time now, OperationId operation);
  // Of Fetch and Issue, cancelled or not, and of Unexport.
  void ended(Time now, OperationId operation, const std::optional<Failure>& failure, Commands& out);
  void tick(Time now, Commands& out);
  std::optional<Time> next_deadline() const;

  // ---- views ----
  bool has(ObjectId object) const { return serves_.has(object); }
  bool has_copy(ObjectId object) const { return serves_.has_copy(object); }
  std::uint64_t bytes_reserved() const { return pulls_.bytes_reserved(); }
  std::size_t pulls() const { return pulls_.size(); }
  std::size_t serves() const { return serves_.serves(); }
  // Holders that it has asked, and not parted from.
  std::size_t ties() const { return pulls_.ties(); }
  std::size_t open_channels() const { return steps_.open_channels(); }
  // Nothing goes on, and no turn is held.
  bool is_idle() const;

 private:
  void begin(Time now, Commands& out);
  // Steps that have ended go on where they were begun.
  void settle();

  RegionContext context_;
  RegionSteps steps_;
  RegionServes serves_;
  RegionPulls pulls_;
};

}  // namespace mobula::internal::transfer
