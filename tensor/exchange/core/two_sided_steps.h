// Two-sided transfers of this process, as sender or receiver. Opening a channel and moving bytes
// are steps that both processes issue while both have the turn of their device (`turns.h`). The
// process with the lower id takes its turn first and reports it; the peer takes its turn, issues,
// and reports; then the first one issues. A failed or stopped step breaks the channel: its epoch
// rises on both sides. Each side also closes an idle channel by its own clock; the peer learns of
// it from the higher epoch.
// Thread: owner (part of `TensorExchangeCore`).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "tensor/exchange/core/tensor_exchange_types.h"
#include "tensor/exchange/core/turns.h"

namespace mobula::internal::transfer {

// State that the parts of an exchange share during one event.
struct RegionContext {
  ProcessId self;
  RegionOptions options;
  Time now{};
  std::vector<RegionCommand>* out = nullptr;
  OperationId last_operation = 0;
  void send(ProcessId to, RegionMessage message) {
    out->push_back(SendRegions{to, std::move(message)});
  }
};

struct SideKey {
  ProcessId peer;
  TransferId transfer = 0;
  bool receives = false;
  friend auto operator<=>(const SideKey&, const SideKey&) = default;
};

// A two-sided channel between a local device and a device of the peer.
struct RegionChannel {
  ProcessId peer;
  DirectPath path = DirectPath::nccl;
  std::uint32_t device_ordinal = 0, peer_ordinal = 0;
  friend auto operator<=>(const RegionChannel&, const RegionChannel&) = default;
};

struct SideTerms {
  RegionChannel channel;
  ObjectId object;
  RegionPullId pull = 0;  // set on the receiving side
  std::uint64_t size_bytes = 0;
};

// Final result of a side, which no longer exists.
struct SideNews {
  SideKey key;
  std::optional<Failure> failure{};  // empty: all bytes arrived (receiver only), or it was stopped
  bool stopped = false;
};

class TwoSidedSteps {
 public:
  explicit TwoSidedSteps(RegionContext& context) : context_(context) {}

  // Called on both sides after `PullTensorReply`.
  void begin(const SideKey& key, const SideTerms& terms);
  void on(ProcessId from, const TwoSidedStep& message);
  // Stops a side at once, or when its operation no longer accesses memory. No effect on an unknown
  // side.
  void stop(const SideKey& key);
  // The same for a peer that has all bytes: a running operation is not cancelled.
  void finish(const SideKey& key);
  void stop_all_with(ProcessId peer);
  bool ended(OperationId operation, const std::optional<Failure>& failure);
  bool progressed(OperationId operation);
  void tick();
  std::optional<Time> next_deadline() const;
  std::vector<SideNews> take_news() { return std::exchange(news_, {}); }

  // Requests the turn of a device for other work; `TurnTaken` follows. A caller with claims in
  // several processes must acquire them in the order of process ids, which prevents deadlock.
  void claim(std::uint32_t device_ordinal, std::uint64_t claim);
  // Returns the turn, or leaves the queue.
  void unclaim(std::uint64_t claim);

  std::uint64_t epoch(const RegionChannel& channel) const;
  // The peer named a later epoch; older state is destroyed.
  void raise_epoch(const RegionChannel& channel, std::uint64_t epoch);
  bool has(const SideKey& key) const { return by_key_.contains(key); }
  std::size_t size() const { return sides_.size(); }
  std::size_t open_channels() const;
  std::size_t turns_in_line() const { return turns_.in_line(); }

 private:
  enum class Phase : std::uint8_t {
    idle,      // holder: until the receiver starts a step
    waiting,   // receiver: until a holder with a lower id has its turn
    in_line,   // queued for the local turn
    has_turn,  // lower id: until the peer has its turn
    issued,
    stopping,
  };
  struct Side {
    SideKey key;
    SideTerms terms;
    Phase phase = Phase::idle;
    std::uint32_t step = 0;
    std::uint64_t moved = 0;
    bool opens = false;
    bool is_last = false;     // no step follows the running one
    std::uint64_t epoch = 0;  // epoch of the running step
    OperationId operation = 0;
    std::optional<Time> due{};
    std::optional<Failure> why{};         // stopping: the reason
    std::optional<TwoSidedStep> early{};  // request for the next step, received early
  };
  struct ChannelRow {
    std::uint64_t epoch = 0;
    bool open = false;
    Time used{};
  };
  using SideId = Turns::Taker;

  bool is_lower(const Side& side) const { return context_.self < side.key.peer; }
  ChannelRow& row_of(const Side& side) { return channels_[side.terms.channel]; }
  void begin_step(SideId id, Side& side);
  void request_turn(SideId id, Side& side);
  void got_turn(SideId id, Side& side);
  void issue(SideId id, Side& side);
  void say(const Side& side, TwoSidedStep::Phase phase);
  void step_done(SideId id, Side& side);
  void fail(SideId id, Failure why);
  void break_channel(const Side& side);
  bool is_used(const RegionChannel& channel) const;
  std::optional<Time> idle_at(const ChannelRow& row) const;
  // Removes the side and passes its turn on.
  void end(SideId id, SideNews news);
  void pass_turn(SideId id, std::uint32_t device_ordinal);
  struct Claim {
    SideId taker = 0;
    std::uint32_t device_ordinal = 0;
  };

  RegionContext& context_;
  Turns turns_;
  std::map<SideId, Side> sides_;
  std::map<SideKey, SideId> by_key_;
  std::map<OperationId, SideId> operations_;
  std::map<RegionChannel, ChannelRow> channels_;
  std::map<std::uint64_t, Claim> claims_;
  std::map<SideId, std::uint64_t> claiming_;  // claims in the queue, by taker
  std::vector<SideNews> news_;
  SideId last_ = 0;
};

}  // namespace mobula::internal::transfer
