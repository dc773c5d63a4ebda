// The programs of the slots of this node: pulls their files from the node that has them, and lets
// the shell prepare them. A program without slots, drivers, and jobs here is erased. The node of a
// driver has the only files of the program, so it keeps them for the detached actors of the job. A
// failed pull is retried for the next user after a backoff.
// Thread: owner (WorkerCore).
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/containers/table.h"
#include "worker/core/outbox.h"
#include "worker/core/transfers/transfers.h"

namespace mobula::internal::worker {

class Programs {
 public:
  // The program is ready, or `failure`. `cannot_start`: permanent on this node.
  struct Outcome {
    ProgramId program;
    std::optional<Failure> failure;
    bool cannot_start = false;
  };

  Programs(Outbox& outbox, Transfers& transfers) : outbox_(outbox), transfers_(transfers) {}

  void start(NodeId self) { self_ = self; }

  // A driver of this node has the program; its files are here.
  void brought(std::int64_t pid, const ProgramRecord& program, ProcessId driver, JobId job);
  // Adds a user. True if the program is ready now; otherwise an Outcome follows.
  bool use(const ProgramRecord& program, SlotId user);
  void unuse(ProgramId program, SlotId user);
  void driver_ended(ProcessId driver);
  // `lingers`: detached actors of the job live, and may be started again on any node.
  void job_ended(JobId job, bool lingers);
  // Jobs whose programs are kept without their drivers.
  std::vector<JobId> kept_jobs() const;

  std::optional<Outcome> prepared(const ProgramPrepared& prepared);
  // Returns the outcomes for all programs that waited for this file.
  std::vector<Outcome> pulled(const transfer::PullDone& done);

  // Backoff before failed file pulls are retried, doubled up to `pull_backoff_max`. Slots that need
  // the program wait.
  static constexpr Duration pull_backoff_initial = 500ms;
  static constexpr Duration pull_backoff_max = 30s;
  // A program is kept for this long after its driver has ended, because the head may learn of the
  // end later than the agent.
  static constexpr Duration end_grace = 60s;
  void tick();
  std::optional<Time> next_deadline() const;

  std::size_t size() const { return rows_.size(); }

 private:
  struct Hold {
    bool lingers = false;
    std::optional<Time> until{};  // the driver has ended, and the end of the job is not known
  };
  using Holds = std::map<JobId, Hold>;
  struct Expiring {
    Time until;
    ProgramId program;
    JobId job;
  };
  struct Row {
    ProgramRecord record{};
    bool preparing = false;
    bool ready = false;
    std::set<SlotId> slots{};
    std::map<ProcessId, JobId> drivers{};
    Holds jobs{};
    std::set<transfer::PullId> pulls{};  // pulls of files in progress
    bool pauses = false;                 // waits for the backoff
  };
  struct Pause {
    Time until;
    Duration next = pull_backoff_initial;
  };

  std::optional<Outcome> fail(ProgramId id, Row& row, Failure why, bool cannot_start);
  void prepare(Row& row);
  void forget_unused(ProgramId id);

  Outbox& outbox_;
  Transfers& transfers_;
  NodeId self_;
  Table<ProgramId, Row> rows_;
  std::deque<Expiring> expiring_;   // by time; an entry is void if the hold has another time
  Table<ProgramId, Pause> pauses_;  // backoff of programs with failed pulls, also without users
};

}  // namespace mobula::internal::worker
