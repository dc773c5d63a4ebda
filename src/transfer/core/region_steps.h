// The two-sided transfers of this process, whichever side it is: opening a channel and moving chunks are
// steps that both processes issue while both have the turn of their devices (turns.h). The process with
// the lower id takes its turn first and says so; the other one takes its own, issues and says so; then
// the first one issues. What fails, or stops, costs the channel: its epoch rises on both sides. So does what idles:
// each side lets go of it by its own clock, and whoever does so first is heard by its epoch when it is wanted again.
// Not thread-safe: a part of RegionExchange.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "transfer/core/region_types.h"
#include "transfer/core/turns.h"

namespace mobula::internal::transfer {

// What the parts of an exchange share while it handles one event.
struct RegionContext {
  ProcessId self;
  RegionOptions options;
  Time now{};
  std::vector<RegionCommand>* out = nullptr;
  OperationId last_operation = 0;
  void send(ProcessId to, RegionMessage message) { out->push_back(SendRegions{to, std::move(message)}); }
};

struct SideKey {
  ProcessId peer;
  TransferId transfer = 0;
  bool receives = false;
  friend auto operator<=>(const SideKey&, const SideKey&) = default;
};

// A two-sided way between a device here and one of the peer.
struct RegionChannel {
  ProcessId peer;
  DirectPath path = DirectPath::nccl;
  std::uint32_t lane = 0, peer_lane = 0;
  friend auto operator<=>(const RegionChannel&, const RegionChannel&) = default;
};

struct SideTerms {
  RegionChannel channel;
  ObjectId object;
  RegionPullId pull = 0;  // of the receiver
  std::uint64_t size_bytes = 0;
};

// What became of a side, which is gone then.
struct SideNews {
  SideKey key;
  std::optional<Failure> failure{};  // else all bytes are there (receiver only), or it was stopped
  bool stopped = false;
};

class RegionSteps {
 public:
  explicit RegionSteps(RegionContext& context) : context_(context) {}

  // After RegionsReady, on both sides.
  void begin(const SideKey& key, const SideTerms& terms);
  void heard(ProcessId from, const RegionStep& message);
  // Ends as stopped, at once or when its operation is quiet. Nothing if there is no such side.
  void stop(const SideKey& key);
  // The same of a side whose peer has all it wants: what goes on here is let come to its end.
  void finish(const SideKey& key);
  void stop_all_with(ProcessId peer);
  bool ended(OperationId operation, const std::optional<Failure>& failure);
  bool progressed(OperationId operation);
  void tick();
  std::optional<Time> next_deadline() const;
  std::vector<SideNews> take_news() { return std::exchange(news_, {}); }

  // The turn of a device for something that others do with several processes: in line like a side, and told by
  // TurnTaken. Who claims in several processes does so in the order of their ids, and so waits in no circle.
  void claim(std::uint32_t lane, std::uint64_t claim);
  // Gives it back, or leaves the line.
  void unclaim(std::uint64_t claim);

  std::uint64_t epoch(const RegionChannel& channel) const;
  // A later one that the peer has named; what is older is taken down.
  void raise_epoch(const RegionChannel& channel, std::uint64_t epoch);
  bool has(const SideKey& key) const { return by_key_.contains(key); }
  std::size_t size() const { return sides_.size(); }
  std::size_t open_channels() const;
  std::size_t turns_in_line() const { return turns_.in_line(); }

 private:
  enum class Phase : std::uint8_t {
    idle,      // holder: until the receiver begins a step
    waiting,   // receiver: for a lower holder's turn
    in_line,   // for the turn of this process
    has_turn,  // the lower one: until the other has it, too
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
    bool is_last = false;     // nothing comes after the running step
    std::uint64_t epoch = 0;  // of the running step
    OperationId operation = 0;
    std::optional<Time> due{};
    std::optional<Failure> why{};      // stopping: for this
    std::optional<RegionStep> early{};  // of the next step, which the other side has begun
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
  void ask_turn(SideId id, Side& side);
  void got_turn(SideId id, Side& side);
  void issue(SideId id, Side& side);
  void say(const Side& side, RegionStep::Phase phase);
  void step_done(SideId id, Side& side);
  void fail(SideId id, Failure why);
  void break_channel(const Side& side);
  bool is_used(const RegionChannel& channel) const;
  std::optional<Time> idle_at(const ChannelRow& row) const;
  // The side is gone; others may have its turn.
  void end(SideId id, SideNews news);
  void pass_turn(SideId id, std::uint32_t lane);
  struct Claim {
    SideId taker = 0;
    std::uint32_t lane = 0;
  };

  RegionContext& context_;
  Turns turns_;
  std::map<SideId, Side> sides_;
  std::map<SideKey, SideId> by_key_;
  std::map<OperationId, SideId> operations_;
  std::map<RegionChannel, ChannelRow> channels_;
  std::map<std::uint64_t, Claim> claims_;
  std::map<SideId, std::uint64_t> claiming_;  // who is in line for them
  std::vector<SideNews> news_;
  SideId last_ = 0;
};

}  // namespace mobula::internal::transfer
