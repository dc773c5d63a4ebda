// The core of an experiment: creates trials from suggestions, starts them in placement groups,
// passes reports to stoppers, scheduler, and searcher in the order of Ray's controller, and repeats
// failed trials. Equal events give equal commands, so a stored log resumes an experiment.
// Thread: owner. Units: seconds. Errors: errors of trials are in their records.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tune/core/experiment/checkpoint_table.h"
#include "tune/core/experiment/experiment_events.h"
#include "tune/core/experiment/trial_groups.h"
#include "tune/core/experiment/trial_records.h"
#include "tune/core/schedulers/hyperband.h"
#include "tune/core/searchers/search_algorithm.h"
#include "tune/core/stoppers/trial_stopper.h"

namespace mobula::internal::tune {

// A suggestion that equals the configuration of an earlier trial.
enum class DuplicateRule : unsigned char {
  evaluate,  // runs as any other trial
  reuse,     // takes the last report of a complete earlier trial, and does not run
  resample,  // the searcher suggests another one
};

struct ExperimentSettings {
  std::string metric = {};                    // empty: trials need no metric
  Mode mode = Mode::min;                      // direction of the metric
  std::vector<std::string> objectives = {};   // metrics of several objectives, without `metric`
  std::vector<std::string> constraints = {};  // metrics with the upper limit 0
  std::string time_attr = "training_iteration";
  std::uint64_t seed = 0;
  std::int64_t num_trials = -1;          // most trials; -1: until the searcher has finished
  std::int64_t max_concurrent = 0;       // groups in use at one time; 0: no limit
  std::int64_t early_trials = 0;         // pending trials that exist before a group is ready
  bool saves_on_request = false;         // otherwise a checkpoint is the last one of a report
  std::optional<GroupShape> shape = {};  // shape of all groups; absent: one per trial
  DuplicateRule duplicates = DuplicateRule::evaluate;
  int max_failures = 0;  // -1: unlimited
  bool stop_on_failure = false;
  CheckpointRules checkpoints = {};
};

struct ExperimentParts {
  SearchAlgorithmPtr searcher;
  TrialSchedulerPtr scheduler;
  const HyperBandScheduler* budgets = nullptr;  // the scheduler, if it reports budgets
  TrialStopperPtr stopper;
  // The group of a configuration.
  std::function<Result<GroupShape>(const Config&)> shape_of = {};
};

class ExperimentCore {
 public:
  ExperimentCore(ExperimentSettings settings, ExperimentParts parts);

  void step(double now_s, const ExperimentEvent& event, std::vector<ExperimentCommand>& out);

  // The state without the searcher, and that of the searcher. Absent if a scheduler or a searcher
  // of the user cannot save: a resume then repeats all events.
  struct SavedState {
    std::string core, searcher;
  };
  std::optional<SavedState> save() const;
  // Continues from a state. Requires equal settings and parts, and no earlier step. After a
  // failure, discard the core.
  Result<void> load(std::string_view core, std::string_view searcher);

  const TrialTable& trials() const { return trials_; }
  // An empty record for most of the trials that ended before the last step.
  const TrialRecord& record(TrialNumber trial) const { return records_.find(trial); }
  std::size_t live_trials() const { return trials_.live(); }
  bool has_record(TrialNumber trial) const { return records_.has(trial); }
  // The metric of the last report; NaN: none.
  double last_value(TrialNumber trial) const { return records_.value(trial); }
  const CheckpointRow* checkpoint(CheckpointNumber number) const {
    return checkpoints_.find(number);
  }
  const CheckpointTable& checkpoints() const { return checkpoints_; }
  std::uint64_t seed_of(TrialNumber trial) const;
  // The state that commands and tables show: a trial that waits for its own group is pending.
  TrialState shown_state(TrialNumber trial) const;
  // The only trial that may use a group; absent: any trial, or the group does not exist.
  std::optional<TrialNumber> trial_of_group(GroupNumber group) const;
  // True if a group is not placed yet.
  bool waits_for_group() const { return groups_.count(TrialGroup::Stage::requested) > 0; }
  // The limit of live trials, if further trials wait for it; otherwise 0.
  std::int64_t full_limit() const {
    const bool full = settings_.max_concurrent > 0 && running() >= settings_.max_concurrent;
    const bool more = !search_finished() || trials_.has(TrialState::pending);
    return full && more ? settings_.max_concurrent : 0;
  }
  // Groups in use.
  std::int64_t running() const { return static_cast<std::int64_t>(groups_.in_use()); }
  bool ended() const { return ended_; }
  // True if no further trial will be created.
  bool search_finished() const;
  // True if the searcher ended the search before `num_trials` trials existed.
  bool search_ended_early() const {
    return searched_ && static_cast<std::int64_t>(trials_.size()) < settings_.num_trials;
  }
  // The failure of the searcher or of all groups that ended the search; empty: none.
  const std::string& search_error() const { return search_error_; }
  // The reason for a stop of the whole experiment; empty: none.
  const std::string& stop_reason() const { return stop_reason_; }

 private:
  void handle(const ExperimentEvent& event);
  void handle_deferred();
  void end_saves();
  void on(const ExperimentStarted& event);
  void on(const GroupReady& event);
  void on(const GroupFailed& event);
  void on(const GroupReleased& event);
  void on(const TrialReported& event);
  void on(const TrialSaved& event);
  void on(const TrialExited& event);
  void on(const StopRequested& event);
  void on(const ClockTicked& event);
  void on(const FailedTrialsRepeated& event);

  // Reports and decisions.
  void decide(TrialNumber trial);
  void apply(TrialNumber trial, Decision decision);
  void pause(TrialNumber trial);
  void finish_save(TrialNumber trial, CheckpointNumber checkpoint);
  // Records a decision that no scheduler made.
  void note(TrialNumber trial, DecisionNote::Rule rule, std::string words);
  void carry_out_commands();
  void carry_out(const TrialCommand& command);
  CheckpointNumber add_checkpoint(TrialNumber trial, const std::string& directory);
  void prune_checkpoints(TrialNumber trial);
  std::optional<std::string> fault_of_report(TrialNumber trial);
  std::optional<std::string> fault_of_metric(TrialNumber trial, const std::string& name);
  void warn_of_missing_metrics(TrialNumber trial);
  void warn(TrialNumber trial, std::string text);
  bool is_done(TrialNumber trial) const;
  Report report_of(TrialNumber trial) const;
  TrialEnd end_of(TrialNumber trial) const;
  SchedulerStep scheduler_step() { return {trials_, random_}; }
  SchedulerStep addition_step(TrialNumber trial);

  // Ends of trials.
  bool is_current(TrialNumber trial, std::int64_t attempt) const;
  void complete(TrialNumber trial);
  void remove(TrialNumber trial);
  void fail(TrialNumber trial, const std::string& kind, const std::string& why, bool repeat);
  void detach(TrialNumber trial);
  void stop_all(const char* reason);

  // Starts of trials.
  void advance();
  void start_trials();
  bool is_stuck() const;
  // A new trial with a suggestion; false without one.
  bool ask();
  Result<Suggestion> suggest(TrialNumber trial);
  // An earlier trial with an equal configuration.
  std::optional<TrialNumber> equal_trial(const Config& config) const;
  void create(Config config);
  void create_reused(Config config, TrialNumber earlier);
  // Creates trials until one is pending.
  void ask_for_pending();
  std::optional<TrialNumber> choose();
  void start_in_ready_groups();
  void start(TrialNumber trial, GroupNumber group);
  void request_common_groups();
  void request_single_groups();
  GroupNumber make_group(const GroupShape& shape, std::optional<TrialNumber> trial);
  void remove_group(GroupNumber group);
  GroupShape shape_of(TrialNumber trial) const;
  void end_if_done();

  TrialRecord& own(TrialNumber trial) { return records_.at(trial); }
  void set_last(TrialNumber trial, Config metrics);
  // The trial has ended without an error.
  void finish(TrialNumber trial);
  void changed(TrialNumber trial) { out_->push_back(TrialChanged{trial}); }

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.trials_, self.records_, self.groups_, self.checkpoints_, self.random_,
            self.configurations_, self.now_s_, self.started_, self.searched_, self.starved_,
            self.stopping_, self.ended_, self.search_error_, self.stop_reason_);
  }

  const ExperimentSettings settings_;
  ExperimentParts parts_;
  TrialTable trials_;
  TrialRecords records_;
  TrialGroups groups_;
  CheckpointTable checkpoints_;
  TuneRandom random_;  // draws in the order of events
  TuneRandom addition_random_{NumpyRandom(0), PythonRandom(0)};
  // Trials by the text of their configuration; empty with DuplicateRule::evaluate.
  std::map<std::string, TrialNumber> configurations_;
  std::deque<ExperimentEvent> deferred_;  // events while a decision waits for a checkpoint
  std::vector<ExperimentCommand>* out_ = nullptr;
  double now_s_ = 0;
  bool started_ = false;
  bool searched_ = false;  // the searcher has finished
  bool starved_ = false;   // a group is ready, and no trial may start
  bool stopping_ = false;
  bool ended_ = false;
  std::string search_error_, stop_reason_;
};

}  // namespace mobula::internal::tune
