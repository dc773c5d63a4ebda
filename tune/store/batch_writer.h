// Applies batches to the database of one experiment, and loads its state.
// Thread: owner.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tune/store/experiment_location.h"
#include "tune/store/sqlite_database.h"
#include "tune/store/stored_rows.h"

namespace mobula::internal::tune {

struct ResumeState;

class BatchWriter {
 public:
  // Requires the lock of the experiment.
  static Result<std::unique_ptr<BatchWriter>> create(const ExperimentLocation& location,
                                                     const StoredExperiment& experiment,
                                                     bool keep_events);
  static Result<std::unique_ptr<BatchWriter>> open(const ExperimentLocation& location,
                                                   bool keep_events);

  // Commits all batches in one transaction. On a failure the file is unchanged.
  Result<void> commit(const std::vector<StoreBatch>& batches);
  // True if the failed commit may succeed later.
  bool can_retry() const { return can_retry_; }

  Result<ResumeState> load();
  // The same without the events; each_event visits them.
  Result<ResumeState> load_without_events();
  // Visits the events after `after`, and refuses gaps.
  Result<void> each_event(EventNumber after, const EventVisitor& visit);

 private:
  BatchWriter(SqliteDatabase database, const StoredExperiment& experiment, bool keep_events);

  bool apply(const StoredTrial& row);
  bool apply(const SetTrialState& row);
  bool apply(const SetTrialProcess& row);
  bool apply(const StoredAttempt& row);
  bool apply(const StoredReport& row);
  bool apply(const StoredCheckpoint& row);
  bool apply(const EraseCheckpoint& row);
  bool apply(const StoredEvent& row);
  bool apply(const StoredSnapshot& row);
  bool apply(const SetExperimentState& row);
  bool apply(const EndOpenAttempts& row);
  bool apply(const StoredOutcome& row);
  bool apply(const StoredDecision& row);
  bool write_params(const StoredTrial& row);
  // 0 on a failure.
  std::int64_t metric_id(const std::string& name);
  SqliteStatement& statement(const char* sql);
  Result<void> commit_in_transaction(const std::vector<StoreBatch>& batches);
  Result<void> load_snapshots(ResumeState& state);
  Result<void> find_last_event(ResumeState& state);
  Result<void> load_checkpoints(ResumeState& state);

  SqliteDatabase database_;
  std::string metric_;
  double sign_;  // 1 if larger values are better, otherwise -1
  bool keep_events_;
  bool can_retry_ = false;
  std::map<std::string, std::int64_t, std::less<>> metrics_;
  // Keyed by the text: each literal appears once.
  std::map<std::string_view, SqliteStatement> statements_;
};

}  // namespace mobula::internal::tune
