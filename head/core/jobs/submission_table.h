// Submitted jobs from `submit` to their end, and their history, which is also in the journal. Each
// job runs as a detached actor with an entry point, in a separate job. Placement, priority,
// restarts, and the loss of nodes follow the rules of actors.
// Thread: owner (one HeadCore).
#pragma once

#include <deque>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/containers/table.h"
#include "base/result.h"
#include "head/core/records/rows.h"

namespace mobula::internal::head {

struct HeadTables;
struct Actor;

class SubmissionTable {
 public:
  explicit SubmissionTable(HeadTables& tables) : tables_(tables) {}

  void restore(const SubmissionRow& row);
  void recovery_ended();

  // Adds a job from the JSON argument of `submit` (submission_json.h). The client chooses the id,
  // so a repeated request has no effect. `owner` is the user id of the submitting key. Errors:
  // invalid_argument, with the member and the rule; resource_exhausted at a limit.
  Result<JobId> submit(const std::string& text, const std::string& owner);
  // Resolves an id, an id prefix of at least four digits, or a name. Of several jobs with the name,
  // the latest job of the requesting key precedes others. Errors: not_found; invalid_argument if
  // the prefix or name is ambiguous.
  Result<JobId> resolve(const std::string& text) const;
  // Sends SIGTERM, and SIGKILL after the grace of the job. Returns false if the job had already
  // ended.
  bool stop(JobId id, const std::string& why);
  // Records the reason before all jobs are terminated.
  void stop_all(const std::string& why);

  // State changes of the actor that runs a job.
  void changed(const Actor& actor);
  void infeasible(JobId id, const std::string& why);

  // Whether an unfinished job needs these files.
  bool needs_files(const std::string& name) const;
  // Actor that runs the job.
  static ActorId entry_of(JobId id) { return ActorId::derived(id, "entry", 0); }
  const SubmissionRow* find(JobId id) const { return rows_.find(id); }
  const Table<JobId, SubmissionRow>& rows() const { return rows_; }

 private:
  void write(const SubmissionRow& row);
  void end(SubmissionRow& row, const EndCause& cause);
  void forget_oldest();
  std::int64_t wall_ms() const;

  HeadTables& tables_;
  Table<JobId, SubmissionRow> rows_;
  std::deque<JobId> ended_;  // oldest first; beyond the limit the oldest are removed
};

std::string_view to_string(SubmissionState state);
inline bool has_ended(SubmissionState state) { return state > SubmissionState::running; }

}  // namespace mobula::internal::head
