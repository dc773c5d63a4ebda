// Steps the core of an experiment, and records events, rows of trials, and snapshots in its log.
// Restores the core of an earlier process from the newest snapshot and the events after it.
// Thread: owner. Errors: restore() of a damaged or foreign file.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tune/core/experiment/decision_record.h"
#include "tune/core/experiment/experiment_core.h"
#include "tune/runtime/experiment/experiment_clock.h"
#include "tune/runtime/experiment/experiment_log.h"

namespace mobula::internal::tune {

// A snapshot follows as many events, or as much time in the core, which a replay takes again.
struct SnapshotRule {
  std::int64_t events = 10'000;
  std::chrono::milliseconds busy = std::chrono::seconds(1);
};

// Restores the core alone, without events.
Result<void> load_snapshot(const StoredSnapshot& snapshot, ExperimentCore& core);

class ExperimentRecorder {
 public:
  // `created_ms`: wall-clock time of the first event.
  ExperimentRecorder(ExperimentCore& core, ExperimentLog& log, std::int64_t created_ms,
                     const SnapshotRule& rule = {}, ExperimentClock clock = ExperimentClock());

  // Requires a core without steps. Returns the comparison of the decisions since the snapshot.
  Result<DecisionReplay> restore(const std::vector<StoredSnapshot>& snapshots);
  // All exploits of the experiment, in their order.
  const std::vector<TrialExploited>& exploits() const { return state_.exploits; }
  // Time of the last event.
  double last_s() const { return state_.last_s; }

  // Appends the commands of the core. record() must follow, before the next event.
  void decide(double now_s, const ExperimentEvent& event, std::vector<ExperimentCommand>& commands);
  // Adds the event and the changes to the open batch of the log.
  void record(double now_s, const ExperimentEvent& event,
              const std::vector<ExperimentCommand>& commands);
  void step(double now_s, const ExperimentEvent& event, std::vector<ExperimentCommand>& commands) {
    decide(now_s, event, commands);
    record(now_s, event, commands);
  }
  // The node of the last attempt of a trial.
  void set_node(TrialNumber trial, const std::string& node) { nodes_[trial] = node; }
  const std::map<TrialNumber, std::string>& nodes() const { return nodes_; }
  // Times of the rows of this process. A restored experiment continues at last_s().
  void set_clock(ExperimentClock clock) { clock_ = std::move(clock); }
  const ExperimentClock& clock() const { return clock_; }

 private:
  using Clock = std::chrono::steady_clock;
  friend Result<void> load_snapshot(const StoredSnapshot& snapshot, ExperimentCore& core);

  // The state of the recorder, and then that of the core.
  struct State {
    double last_s = 0;
    TrialNumber next_trial = 0;
    std::map<TrialNumber, std::int64_t> created_ms = {};  // live trials
    std::vector<TrialExploited> exploits = {};

    template <class Self, class Archive>
    static void fields(Self& self, Archive& archive) {
      archive(self.last_s, self.next_trial, self.created_ms, self.exploits);
    }
  };
  static Result<State> load(const StoredSnapshot& snapshot, ExperimentCore& core);

  void note_created(std::int64_t at_ms);
  void note_exploits(const std::vector<ExperimentCommand>& commands);
  void add_report(const TrialReported& report);
  void add_changes(const ExperimentCommand& command);
  void add_decisions(const std::vector<ExperimentCommand>& commands);
  void add_trial(TrialNumber trial);
  void add_outcome(TrialNumber trial);
  void add_snapshot();

  ExperimentCore& core_;
  ExperimentLog& log_;
  const std::int64_t created_ms_;
  const SnapshotRule rule_;
  ExperimentClock clock_;
  State state_;
  std::map<TrialNumber, std::string> nodes_;  // trials with a record
  std::int64_t events_ = 0;                   // since the last snapshot
  Clock::duration busy_{0}, snapshot_cost_{0};
};

}  // namespace mobula::internal::tune
