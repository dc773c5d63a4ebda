// Submitted jobs: commands that a tool has asked for, from `submit` to their end, and their history. Each is
// carried out as a detached actor with an entry point in a job of its own, so that placement, priority,
// restarts and the loss of nodes are those of actors; this table makes them, follows them, and remembers
// how they ended, in the journal too. Owned by one HeadCore; not thread-safe.
#pragma once

#include <deque>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/result.h"
#include "base/table.h"
#include "head/core/rows.h"

namespace mobula::internal::head {

struct Parts;
struct Actor;

class SubmissionTable {
 public:
  explicit SubmissionTable(Parts& parts) : parts_(parts) {}

  void restore(const SubmissionRow& row);
  void recovery_ended();

  // What `submit` asks for, as JSON (submission_json.h); the id is the asker's, so that it may ask again.
  // invalid_argument, naming the member and the rule; resource_exhausted at a limit. `owner`: whose word it is,
  // as the table of keys calls that key.
  Result<JobId> submit(const std::string& text, const std::string& owner);
  // By id, the beginning of it (4 digits or more) or name; of several with the name, the latest. not_found, or
  // invalid_argument where several begin so.
  Result<JobId> resolve(const std::string& text) const;
  // SIGTERM, and SIGKILL after its time. False if it had ended before.
  bool stop(JobId id, const std::string& why);
  // All of them are about to be ended for this reason.
  void stop_all(const std::string& why);

  // What becomes of the actor that carries one out.
  void changed(const Actor& actor);
  void infeasible(JobId id, const std::string& why);

  // Whether one that has not ended came with these files.
  bool needs_files(const std::string& name) const;
  // The actor that carries it out.
  static ActorId entry_of(JobId id) { return ActorId::derived(id, "entry", 0); }
  const SubmissionRow* find(JobId id) const { return rows_.find(id); }
  const Table<JobId, SubmissionRow>& rows() const { return rows_; }

 private:
  void write(const SubmissionRow& row);
  void end(SubmissionRow& row, const EndCause& cause);
  void forget_oldest();
  std::int64_t wall_ms() const;

  Parts& parts_;
  Table<JobId, SubmissionRow> rows_;
  std::deque<JobId> ended_;  // oldest first; the oldest are forgotten
};

std::string_view to_string(SubmissionState state);
inline bool has_ended(SubmissionState state) { return state > SubmissionState::running; }

}  // namespace mobula::internal::head
