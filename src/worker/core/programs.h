// The programs of this node's slots: pulls their files from the node that has them, and has the
// shell prepare them. Part of WorkerCore. A program is forgotten when no slot and no driver here
// uses it; one that could not be had is tried afresh by its next user, after a pause.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "base/table.h"
#include "worker/core/outbox.h"
#include "worker/core/transfers.h"

namespace mobula::internal::worker {

class Programs {
 public:
  // The program is ready, or `failure`; `cannot_start`: it never will be on this node.
  struct Outcome {
    ProgramId program;
    std::optional<Failure> failure;
    bool cannot_start = false;
  };

  Programs(Outbox& outbox, Transfers& transfers) : outbox_(outbox), transfers_(transfers) {}

  void start(NodeId self) { self_ = self; }

  // A driver of this node brought it; its files are here.
  void brought(std::int64_t pid, const ProgramRecord& program, ProcessId driver);
  // One more user. True if it is ready now; otherwise an Outcome comes.
  bool use(const ProgramRecord& program, SlotId user);
  void unuse(ProgramId program, SlotId user);
  void driver_ended(ProcessId driver);

  std::optional<Outcome> prepared(const ProgramPrepared& prepared);
  // Of the file pull that ended: what its programs have come to.
  std::vector<Outcome> pulled(const transfer::PullDone& done);

  // Files that could not be brought are tried again after a pause, which grows to `longest_pause`: whoever wants
  // the program here waits that long.
  static constexpr Duration first_pause = 500ms;
  static constexpr Duration longest_pause = 30s;
  void tick();
  std::optional<Time> next_deadline() const;

  std::size_t size() const { return rows_.size(); }

 private:
  struct Row {
    ProgramRecord record{};
    bool preparing = false;
    bool ready = false;
    std::set<SlotId> slots{};
    std::set<ProcessId> drivers{};
    std::set<transfer::PullId> pulls{};  // of files that are on their way
    bool pauses = false;                 // until its files are tried again
  };
  struct Pause {
    Time until;
    Duration next = first_pause;
  };

  std::optional<Outcome> fail(ProgramId id, Row& row, Failure why, bool cannot_start);
  void prepare(Row& row);
  void forget_unused(ProgramId id);

  Outbox& outbox_;
  Transfers& transfers_;
  NodeId self_;
  Table<ProgramId, Row> rows_;
  Table<ProgramId, Pause> pauses_;  // of those whose files could not be brought, also when nobody uses them
};

}  // namespace mobula::internal::worker
