// Rows of an experiment as the store writes and reads them: trials, attempts, reports, checkpoints,
// events, and snapshots.
// Thread: any (plain values). Units: wall-clock milliseconds since 1970; the store orders nothing
// by them, because clocks jump.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "tune/core/schedulers/trial_scheduler.h"
#include "tune/core/space/config.h"
#include "tune/core/trial_table.h"

namespace mobula::internal::tune {

// Sequence number of an event: 1, 2, 3, … without gaps. 0 precedes the first event.
using EventNumber = std::int64_t;
// Metrics of a report, ordered by name.
using StoredMetrics = std::vector<std::pair<std::string, Value>>;

struct StoredExperiment {
  std::string name = {};
  std::int64_t created_ms = 0;
  std::string spec = {};  // JSON: space, options, command line, fingerprint of the program
  std::uint64_t seed = 0;
  std::string metric = {};
  Mode mode = Mode::min;
  std::string state = "running";  // running, finished, stopped, failed
  std::string end_reason = {};    // why it ended early, or why its next trial waits
};

struct StoredTrial {
  TrialNumber trial = 0;
  TrialState state = TrialState::pending;
  Config config = {};
  std::uint64_t seed = 0;
  std::optional<TrialNumber> parent = {};  // donor of the last exploit
  std::int64_t bracket = 0;
  std::int64_t attempts = 0;
  std::int64_t created_ms = 0;  // the first row of a trial decides
  std::int64_t ended_ms = 0;    // 0: live
  std::string node = {};        // empty: unchanged
  std::string error_kind = {};
  std::string error = {};
  // The store derives these from the reports; writers leave them empty.
  std::int64_t last_step = 0;
  std::optional<double> best = {};
  std::optional<double> last = {};
};

struct StoredAttempt {
  TrialNumber trial = 0;
  std::int64_t number = 0;  // 1, 2, …
  std::string node = {};
  std::int64_t pid = 0;
  std::int64_t began_ms = 0;
  std::int64_t ended_ms = 0;  // 0: running
  // completed, stopped, exception, crash, node_lost, out_of_memory, interrupted
  std::string kind = {};
  std::string text = {};
};

struct StoredReport {
  TrialNumber trial = 0;
  std::int64_t attempt = 1;
  std::int64_t step = 0;  // iteration
  std::int64_t time_ms = 0;
  StoredMetrics metrics = {};
};

struct StoredCheckpoint {
  CheckpointNumber number = 0;
  TrialNumber trial = 0;
  std::int64_t attempt = 1;
  std::int64_t step = 0;
  std::string directory = {};
  std::int64_t bytes = 0;
  std::optional<double> score = {};
  std::string state = "saved";  // saving, saved, deleting
  std::int64_t refs = 0;
};

// The reason for a decision about a trial.
struct StoredDecision {
  EventNumber event = 0;  // the event that led to it
  std::int64_t part = 0;  // number among the decisions of the event
  std::int64_t attempt = 0;
  std::int64_t step = 0;  // iteration
  DecisionNote note = {};
};

// An input of the core, or a decision that it made.
struct StoredEvent {
  EventNumber number = 0;
  std::int64_t kind = 0;
  TrialNumber trial = -1;  // -1: the experiment
  std::string body = {};   // bytes of StateWriter
};

using EventVisitor = std::function<Result<void>(const StoredEvent&)>;

// State of the core and the searcher after event `number`.
struct StoredSnapshot {
  EventNumber number = 0;
  std::string core = {};
  std::string searcher = {};
};

// The result of a finished trial, which a ResultGrid shows.
struct TrialOutcome {
  Config metrics = {};  // last report, with the kinds of its values
  std::vector<std::string> warnings = {};
  std::string checkpoint = {};  // directory of the last checkpoint

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.metrics, self.warnings, self.checkpoint);
  }
};
struct StoredOutcome {
  TrialNumber trial = 0;
  std::string body = {};  // bytes of StateWriter
};

// Removes the row of a deleted checkpoint.
struct EraseCheckpoint {
  CheckpointNumber number = 0;
};
// Changes the state of the experiment.
struct SetExperimentState {
  std::string state = {};
  std::string reason = {};  // why it ended early, or why its next trial waits
};
// Ends the attempts that have no end: the processes of an earlier controller.
struct EndOpenAttempts {
  std::int64_t ended_ms = 0;
  std::string kind = {};
};
// Changes the state of a trial, and nothing else.
struct SetTrialState {
  TrialNumber trial = 0;
  TrialState state = TrialState::pending;
};
// The process of an attempt that runs.
struct SetTrialProcess {
  TrialNumber trial = 0;
  std::int64_t attempt = 0;
  std::string node = {};
  std::int64_t pid = 0;
};

// Trials, attempts, outcomes, and checkpoints replace the row of the same number. A report that
// exists already stays as it is, so that a resumed controller may repeat it.
using StoreChange =
    std::variant<StoredTrial, SetTrialState, StoredAttempt, StoredReport, StoredCheckpoint,
                 EraseCheckpoint, StoredEvent, StoredSnapshot, SetExperimentState, EndOpenAttempts,
                 StoredOutcome, StoredDecision, SetTrialProcess>;

// "rung", "halving", "median", "population", and "continued", "paused", "promoted", "stopped",
// "exploited".
std::string_view rule_name(DecisionNote::Rule rule);
std::string_view outcome_name(DecisionNote::Outcome outcome);
DecisionNote::Rule rule_of(std::string_view name);
DecisionNote::Outcome outcome_of(std::string_view name);

// "pending", "running", "pausing", "paused", "terminated", "failed".
std::string_view state_name(TrialState state);
std::optional<TrialState> trial_state_of(std::string_view name);

// One batch is durable as a whole or not at all. Numbers rise.
struct StoreBatch {
  std::uint64_t number = 0;
  std::vector<StoreChange> changes = {};
};

}  // namespace mobula::internal::tune
