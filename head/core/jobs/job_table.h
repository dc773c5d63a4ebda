// Jobs: one per driver, from StartJob (answered after its row is durable) until the driver ends.
// The end of a job ends all its parts except detached actors and the resources that these
// requested. The row stays durable until the last detached actor has died.
// Thread: owner (one HeadCore).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>

#include "base/containers/grouped_ids.h"
#include "base/containers/table.h"
#include "base/result.h"
#include "base/time.h"
#include "head/core/records/rows.h"

namespace mobula::internal::head {

struct HeadTables;

enum class JobEnd : std::uint8_t { runs, succeeded, failed, stopped };

struct Job {
  StartJob start;
  NodeId node;  // node of the driver
  std::string name_space;
  bool durable = false;
  JobEnd end = JobEnd::runs;
  std::string why;                   // reason of the end
  bool lingers = false;              // ended, but some of its detached actors are alive
  std::int64_t absent_since_ms = 0;  // wall clock of the start of the driver's absence; 0: present
  // Its driver waits for the notification that nothing of the job runs any more.
  bool driver_waits = false;
  bool runs() const { return durable && end == JobEnd::runs; }
  // Whether processes may still send requests in the name of the job.
  bool works() const { return runs() || lingers; }
};

class JobTable {
 public:
  explicit JobTable(HeadTables& tables) : tables_(tables) {}

  void restore(const JobRow& row);
  // Request of the driver, which may be repeated.
  void start(NodeId node, const StartJob& message);
  // Adds the row of a submitted job, which has no driver and lasts as long as its command. Errors:
  // bad terms; already_exists for a known id.
  Result<void> submitted(const SubmissionRow& submission);
  void durable(JobId id);
  void not_durable(JobId id, const std::string& why);
  // Returns false if the job does not run.
  bool end(JobId id, JobEnd how, const std::string& why);
  void driver_ended(ProcessId process, const EndCause& cause);
  // A detached actor of the job has died. After the last one, settle() ends the rest of the job at
  // the end of this step.
  void actor_ended(JobId job) { bereaved_.insert(job); }
  void settle();
  // A slot of the job ended. After the last one the driver is notified and may exit.
  void slot_gone(JobId job);
  // Notifies the node about ended jobs that it still has parts of.
  void node_joined(NodeId node, const Facts& facts);
  // Starts the wait for drivers that have not returned, up to `driver_absence`.
  void recovery_ended();
  void driver_missing(ProcessId driver);
  // Starts the absence of the driver and returns the time by which it must return. The journal
  // keeps the start, so that a restart of the head does not extend the absence.
  Time driver_absent(ProcessId driver);
  void driver_present(ProcessId driver);

  bool runs(JobId id) const;
  bool works(JobId id) const;
  const Job* find(JobId id) const { return rows_.find(id); }
  // A task may name a function of the program of another job. Whether the demand does that.
  bool has_other_program(const DemandClass& demand) const;
  // Returns the job whose program the demand names, or null if no such job works.
  const Job* job_with_program(const DemandClass& demand) const;
  // Returns a JSON document with the program of the working jobs with this name, or with the reason
  // why no such program or several ones exist.
  std::string program_json(const std::string& job_name) const;
  // Returns the demand with the environment of its job, as executors start for it.
  DemandClass with_job_env(DemandClass demand) const;
  const Table<JobId, Job>& rows() const { return rows_; }

 private:
  // The running job of the driver, or null.
  Job* job_of_driver(ProcessId driver);
  void refuse(const StartJob& message, const std::string& why);
  void driver_exited(JobId id, EndCause cause);
  void end_the_rest(JobId id);

  HeadTables& tables_;
  Table<JobId, Job> rows_;
  std::deque<JobId> ended_;  // oldest first; beyond the limit the oldest are removed
  std::set<JobId> bereaved_;
  std::map<ProcessId, JobId> absent_;       // absent drivers
  GroupedIds<ProcessId, JobId> of_driver_;  // jobs whose driver has not exited
};

}  // namespace mobula::internal::head
