// What this process wants of others' tensors. What is wanted together has room together, or waits for it,
// arguments of tasks before the rest; what is larger than all the room there is comes alone. Holders are
// tried in turn, each by the wish's paths in order, and each try is a transfer of its own; when none is left
// the owner is asked who has it. Of a part the holder may name keepers of copies: they are reached and tried first,
// with little patience, and what they fail to give comes from the holder. A pull ends once: with the bytes, with "it is in the object store", or with
// the failure of the last try. Its room is taken until nobody writes there any more. Not thread-safe: a
// part of RegionExchange.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "transfer/core/region_serves.h"
#include "transfer/core/region_steps.h"
#include "transfer/core/region_ties.h"
#include "transfer/core/region_types.h"

namespace mobula::internal::transfer {

class RegionPulls {
 public:
  RegionPulls(RegionContext& context, RegionSteps& steps, RegionServes& serves)
      : context_(context), steps_(steps), serves_(serves), ties_(context) {}

  // One pull for each, in their order. Fails with invalid_argument for a wish without a path, with
  // resource_exhausted where too many wait.
  Result<std::vector<RegionPullId>> want(std::vector<RegionWish> together, bool arguments);
  // It ends as cancelled, when it is quiet.
  void unwant(RegionPullId pull);
  void located(ObjectId object, const RegionsLocated& answer);
  void reached(RegionPullId pull, ProcessId keeper, std::vector<DirectPath> paths);

  void heard(ProcessId from, const RegionsReady& message);
  void heard(ProcessId from, const RegionsWait& message);
  void heard(ProcessId from, const RegionsRefused& message);
  void heard(ProcessId from, const RegionsParted& message);
  void may_part(ProcessId holder) { ties_.may_part(holder); }
  bool ended(OperationId operation, const std::optional<Failure>& failure);
  bool progressed(OperationId operation);
  // Of a side that receives.
  void side_news(const SideNews& news);
  void peer_gone(ProcessId peer);
  void tick();
  std::optional<Time> next_deadline() const;

  std::size_t size() const { return pulls_.size(); }
  std::size_t ties() const { return ties_.size(); }
  std::uint64_t bytes_reserved() const { return reserved_; }

 private:
  enum class Stage : std::uint8_t {
    queued,   // for room
    in_line,  // has it; too many parts are asked for
    looking,  // for holders
    reaching, // a keeper
    parting,  // the connection to one of them is being closed; then it is asked
    asking,   // one of them
    moving,   // one-sided
    stepping, // two-sided
    leaving,  // until its operation is quiet
  };
  struct Holder {
    ProcessId process;
    std::size_t path = 0;   // of the wish, to be tried next
    int failures = 0;       // by it
    bool may_redirect = true;
    bool keeps = false;     // a copy, as another holder has said
    std::vector<DirectPath> paths{};  // of a keeper; the wish's are the others'
  };
  struct Batch {
    std::uint64_t bytes = 0;
    std::vector<RegionPullId> pulls;  // that have not begun
  };
  struct Pull {
    RegionWish wish;
    ProcessId line{};  // of parts, that it is in or has left
    Stage stage = Stage::queued;
    std::deque<Holder> holders{};  // the first is being tried
    std::set<ProcessId> gone{};    // have said so, or have ended
    TransferId transfer = 0;
    RegionChannel channel{};  // stepping, and leaving after that
    OperationId operation = 0;
    bool asked_again = false;
    bool unwanted = false;
    int lookups = 0;
    std::optional<Time> due{};
    std::vector<RegionAttempt> attempts{};
    Failure last{ErrorCode::unavailable, "nobody has it"};
    Time since{};
    Time began{};
    Time moves_since{};
  };

  void admit();
  // Of a holder, as far as so many of its parts may be asked for.
  void begin_parts(ProcessId holder);
  void begin(RegionPullId id, Pull& pull);
  std::uint64_t bytes_of(const RegionWish& wish) const;
  static const std::vector<DirectPath>& paths_of(const Pull& pull) {
    const auto& holder = pull.holders.front();
    return holder.keeps ? holder.paths : pull.wish.paths;
  }
  static DirectPath path_of(const Pull& pull) { return paths_of(pull).at(pull.holders.front().path); }
  void follow(Pull& pull, const std::vector<ProcessId>& keepers);
  bool is_shunned(ProcessId keeper) const;
  void shun(ProcessId keeper);
  void next_try(RegionPullId id, Pull& pull);
  void look_up(RegionPullId id, Pull& pull);
  void ask(RegionPullId id, Pull& pull);
  void say_pull(Pull& pull);
  void say_left(ProcessId from, TransferId transfer);
  bool wants_from(ProcessId holder) const;
  // This try has failed, and its path or its holder may be tried no further.
  void try_failed(Pull& pull, Failure why, bool holder_is_out, bool path_is_out);
  void move_on(RegionPullId id, Pull& pull);
  void refused(RegionPullId id, Pull& pull, const RegionsRefused& message);
  void stop_moving(RegionPullId id, Pull& pull);
  void quiet(RegionPullId id, Pull& pull);
  void complete(RegionPullId id, Pull& pull);
  void finish(RegionPullId id, RegionOutcome outcome);
  void forget_transfer(Pull& pull);
  void note(Pull& pull, std::string refusal);
  Pull* asked(ProcessId from, TransferId transfer, RegionPullId& id);

  RegionContext& context_;
  RegionSteps& steps_;
  RegionServes& serves_;
  RegionTies ties_;
  std::map<RegionPullId, Pull> pulls_;
  std::deque<Batch> arguments_, others_;  // that wait for room
  std::size_t waiting_ = 0;
  struct PartLine {
    std::deque<RegionPullId> waiting{};
    std::size_t asked = 0;  // have left it, and not ended
  };
  std::map<ProcessId, PartLine> part_lines_;  // by the first holder: one that is silent holds up its own alone
  std::map<ProcessId, Time> shunned_;  // keepers, until when
  std::map<TransferId, RegionPullId> transfers_;
  std::map<OperationId, RegionPullId> operations_;
  std::uint64_t reserved_ = 0;
  RegionPullId last_pull_ = 0;
  TransferId last_transfer_ = 0;
};

}  // namespace mobula::internal::transfer
