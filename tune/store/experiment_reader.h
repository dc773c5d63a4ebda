// Reads the file of one experiment for commands and reports, also while a controller writes it and
// on read-only storage. Each call sees one consistent state.
// Thread: owner. Errors: not_found without the experiment; corrupt for a damaged or newer file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tune/store/experiment_location.h"
#include "tune/store/stored_rows.h"

namespace mobula::internal::tune {

class SqliteDatabase;

struct TrialFilter {
  std::optional<TrialState> state = {};
  std::size_t limit = 0;  // 0: all
  bool newest = false;    // the last ones, in ascending order
};

struct StateCount {
  TrialState state = TrialState::pending;
  std::int64_t count = 0;
};

// One value of a metric.
struct MetricPoint {
  TrialNumber trial = 0;
  std::int64_t attempt = 1;
  std::int64_t step = 0;
  double value = 0;
};

class ExperimentReader {
 public:
  static Result<ExperimentReader> open(const ExperimentLocation& location);
  ~ExperimentReader();
  ExperimentReader(ExperimentReader&&) noexcept;
  ExperimentReader& operator=(ExperimentReader&&) noexcept;

  Result<StoredExperiment> experiment();
  Result<std::vector<StateCount>> counts();
  Result<std::int64_t> report_count();
  Result<std::vector<StoredTrial>> trials(const TrialFilter& filter = {});
  Result<StoredTrial> trial(TrialNumber number);
  // The trials with the best values of the experiment's metric, best first.
  Result<std::vector<StoredTrial>> best(std::size_t count);
  Result<std::vector<StoredAttempt>> attempts(std::optional<TrialNumber> trial = {});
  // In the order of attempts and steps.
  Result<std::vector<StoredReport>> reports(TrialNumber trial);
  Result<std::vector<StoredCheckpoint>> checkpoints(TrialNumber trial);
  // The decisions about a trial in their order; empty for a file of an earlier release.
  Result<std::vector<StoredDecision>> decisions(TrialNumber trial);
  Result<std::vector<StoredEvent>> events(EventNumber after = 0);
  // The events after `after`.
  Result<void> each_event(EventNumber after, const EventVisitor& visit);
  // The number of the first stored event; 0 without events.
  Result<EventNumber> first_event();
  // Visits all trials with their outcomes; an outcome is empty for a live trial.
  Result<void> each_outcome(
      const std::function<Result<void>(const StoredTrial&, const TrialOutcome&)>& visit);
  Result<std::vector<StoredSnapshot>> snapshots();
  Result<std::vector<std::string>> metrics();
  // The numeric values of a metric that are not NaN, by trial, attempt, and step.
  Result<std::vector<MetricPoint>> points(const std::string& metric);
  // Calls `visit` for every report by trial, attempt, and step; memory is that of one report.
  Result<void> each_report(const std::function<void(const StoredReport&)>& visit);

 private:
  ExperimentReader(std::unique_ptr<SqliteDatabase> database, std::string path);

  std::unique_ptr<SqliteDatabase> database_;
  std::string path_;
};

// The names of the experiments of a storage directory, sorted. An absent directory has no
// experiments.
std::vector<std::string> experiment_names(const std::string& storage);

}  // namespace mobula::internal::tune
