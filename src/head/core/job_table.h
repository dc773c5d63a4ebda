// The jobs: one per driver, from StartJob (answered when it is durable) to the driver's end. A
// job's end takes along everything of it but detached actors and what those have asked for; its
// record stays, and is durable, until the last of them has ended. Owned by one HeadCore; not
// thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>

#include "base/result.h"
#include "base/table.h"
#include "base/time.h"
#include "head/core/rows.h"

namespace mobula::internal::head {

struct Parts;

enum class JobEnd : std::uint8_t { runs, succeeded, failed, stopped };

struct Job {
  StartJob start;
  NodeId node;  // of the driver
  std::string name_space;
  bool durable = false;
  JobEnd end = JobEnd::runs;
  std::string why;  // it ended
  bool lingers = false;      // it has ended, and detached actors of it live
  std::int64_t absent_since_ms = 0;  // wall clock, since its driver is missing; 0: it is not
  bool driver_waits = false; // its driver wants to hear when nothing of it runs any more
  bool runs() const { return durable && end == JobEnd::runs; }
  // Somebody may still ask for things in its name.
  bool works() const { return runs() || lingers; }
};

class JobTable {
 public:
  explicit JobTable(Parts& parts) : parts_(parts) {}

  void restore(const JobRow& row);
  // From the driver, also again.
  void start(NodeId node, const StartJob& message);
  // Of a submitted job: without a driver, for as long as its command is there. Fails for bad terms and where
  // the id is taken.
  Result<void> submitted(const SubmissionRow& submission);
  void durable(JobId id);
  void not_durable(JobId id, const std::string& why);
  // False if it does not run.
  bool end(JobId id, JobEnd how, const std::string& why);
  void driver_ended(ProcessId process, const EndCause& cause);
  // A detached actor of the job has died: with the last one the rest of the job ends, once the tables
  // have settled for this step.
  void actor_ended(JobId job) { bereaved_.insert(job); }
  void settle();
  // Something of the job is gone: if that was the last, its driver may go.
  void slot_gone(JobId job);
  // Jobs of which the node still has something, though they have ended: it is told so.
  void node_joined(NodeId node, const Facts& facts);
  // Drivers that are not there are waited for a little longer.
  void recovery_ended();
  void driver_missing(ProcessId driver);
  // The driver is missing: time by which it has to be back. The absence is in the journal, so that it
  // does not begin again when the head is started again.
  Time driver_absent(ProcessId driver);
  void driver_present(ProcessId driver);

  bool runs(JobId id) const;
  bool works(JobId id) const;
  const Job* find(JobId id) const { return rows_.find(id); }
  // The demand as executors start for it: with the environment of its job.
  DemandClass with_job_env(DemandClass demand) const;
  const Table<JobId, Job>& rows() const { return rows_; }

 private:
  void refuse(const StartJob& message, const std::string& why);
  void end_the_rest(JobId id);

  Parts& parts_;
  Table<JobId, Job> rows_;
  std::deque<JobId> ended_;  // oldest first; the oldest are forgotten
  std::set<JobId> bereaved_;
  std::map<ProcessId, JobId> absent_;  // drivers
};

}  // namespace mobula::internal::head
