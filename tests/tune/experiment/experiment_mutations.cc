#include "tune/experiment/experiment_mutations.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

namespace mobula::internal::tune {
namespace {

// Passes all calls on.
class PassingScheduler : public TrialScheduler {
 public:
  explicit PassingScheduler(TrialSchedulerPtr inner) : inner_(std::move(inner)) {}
  Result<void> added(TrialNumber trial, SchedulerStep step) override {
    return inner_->added(trial, step);
  }
  Result<Decision> reported(const Report& report, SchedulerStep step) override {
    return inner_->reported(report, step);
  }
  void completed(const Report& last, SchedulerStep step) override { inner_->completed(last, step); }
  void failed(TrialNumber trial, SchedulerStep step) override { inner_->failed(trial, step); }
  void removed(TrialNumber trial, SchedulerStep step) override { inner_->removed(trial, step); }
  std::optional<TrialNumber> choose(SchedulerStep step) override { return inner_->choose(step); }
  Result<std::optional<TrialDecision>> saved(TrialNumber trial, CheckpointNumber checkpoint,
                                             SchedulerStep step) override {
    return inner_->saved(trial, checkpoint, step);
  }
  bool waits_for_checkpoint() const override { return inner_->waits_for_checkpoint(); }
  void checkpoints_in_use(std::vector<CheckpointNumber>& out) const override {
    inner_->checkpoints_in_use(out);
  }
  std::string save() const override { return inner_->save(); }
  Result<void> load(std::string_view state) override { return inner_->load(state); }

 private:
  TrialSchedulerPtr inner_;
};

class ForgetfulScheduler final : public PassingScheduler {
 public:
  using PassingScheduler::PassingScheduler;
  Result<void> load(std::string_view /*state*/) override { return {}; }
};

// Stops every eleventh report of the process, so its decisions are not those of the events.
class CountingScheduler final : public PassingScheduler {
 public:
  CountingScheduler(TrialSchedulerPtr inner, std::shared_ptr<int> calls)
      : PassingScheduler(std::move(inner)), calls_(std::move(calls)) {}
  Result<Decision> reported(const Report& report, SchedulerStep step) override {
    Result<Decision> decision = PassingScheduler::reported(report, step);
    if (++*calls_ % 11 == 0 && decision) return Decision::stop;
    return decision;
  }

 private:
  std::shared_ptr<int> calls_;  // shared by all cores of a history
};

// Notifies the searcher of each failure before and after its repetitions.
class RepeatingSearch final : public SearchAlgorithm {
 public:
  explicit RepeatingSearch(SearchAlgorithmPtr inner) : inner_(std::move(inner)) {}
  Result<Suggestion> ask(TrialNumber trial, SearchRandom random) override {
    return inner_->ask(trial, random);
  }
  void tell(TrialNumber trial, const TrialEnd& end) override {
    inner_->tell(trial, end);
    if (end.state == EndState::failed) inner_->tell(trial, end);
  }
  std::string save() const override { return inner_->save(); }
  Result<void> load(std::string_view state) override { return inner_->load(state); }

 private:
  SearchAlgorithmPtr inner_;
};

// Never learns that trials pause, so paused trials take the places of others.
class PauseBlindSearch final : public SearchAlgorithm {
 public:
  explicit PauseBlindSearch(SearchAlgorithmPtr inner) : inner_(std::move(inner)) {}
  Result<Suggestion> ask(TrialNumber trial, SearchRandom random) override {
    return inner_->ask(trial, random);
  }
  void report(TrialNumber trial, double step, double value) override {
    inner_->report(trial, step, value);
  }
  void tell(TrialNumber trial, const TrialEnd& end) override { inner_->tell(trial, end); }
  std::string save() const override { return inner_->save(); }
  Result<void> load(std::string_view state) override { return inner_->load(state); }

 private:
  SearchAlgorithmPtr inner_;
};

// Changes each command of type T; a command for which `change` returns false is lost.
template <class T, class Change>
WorldHooks each_command(Change change) {
  WorldHooks hooks;
  hooks.commands = [change](std::vector<ExperimentCommand>& commands) mutable {
    std::vector<ExperimentCommand> changed;
    for (ExperimentCommand& command : commands) {
      T* found = std::get_if<T>(&command);
      if (found == nullptr || change(*found, changed)) changed.push_back(std::move(command));
    }
    commands = std::move(changed);
  };
  return hooks;
}

template <class T>
WorldHooks lose_every(int period) {
  return each_command<T>([period, count = 0](T&, auto&) mutable { return ++count % period != 0; });
}

WorldHooks forget_scheduler() {
  return {.parts = [](ExperimentSettings&, ExperimentParts& parts) {
    parts.scheduler = std::make_unique<ForgetfulScheduler>(std::move(parts.scheduler));
  }};
}
WorldHooks decide_by_history_of_process() {
  return {.parts = [calls = std::make_shared<int>(0)](ExperimentSettings&, ExperimentParts& parts) {
    parts.scheduler = std::make_unique<CountingScheduler>(std::move(parts.scheduler), calls);
  }};
}
WorldHooks tell_twice() {
  return {.parts = [](ExperimentSettings&, ExperimentParts& parts) {
    parts.searcher = std::make_unique<RepeatingSearch>(std::move(parts.searcher));
  }};
}
WorldHooks count_paused_trials() {
  return {.parts = [](ExperimentSettings&, ExperimentParts& parts) {
    parts.searcher = std::make_unique<PauseBlindSearch>(std::move(parts.searcher));
  }};
}
WorldHooks allow_more_trials() {
  return {.parts = [](ExperimentSettings& settings, ExperimentParts&) {
    if (settings.max_concurrent > 0) ++settings.max_concurrent;
  }};
}
WorldHooks lose_report_at_resume() {
  return {.log = [](std::vector<TimedEvent>& log) {
    const auto last = std::find_if(log.rbegin(), log.rend(), [](const TimedEvent& each) {
      return std::holds_alternative<TrialReported>(each.event);
    });
    if (last != log.rend()) log.erase(std::next(last).base());
  }};
}
WorldHooks repeat_report_at_resume() {
  return {.log = [](std::vector<TimedEvent>& log) {
    const auto last = std::find_if(log.rbegin(), log.rend(), [](const TimedEvent& each) {
      return std::holds_alternative<TrialReported>(each.event);
    });
    if (last != log.rend()) log.insert(last.base(), *last);
  }};
}
WorldHooks continue_twice() {
  return each_command<ContinueTrial>([](ContinueTrial& command, auto& out) {
    out.emplace_back(command);
    return true;
  });
}
// A trial continues from the checkpoint before its last one.
WorldHooks start_from_older_checkpoint() {
  return each_command<StartTrial>(
      [before = std::map<TrialNumber, std::string>()](StartTrial& command, auto&) mutable {
        const std::string newest = command.checkpoint;
        std::string& older = before[command.trial];
        if (!older.empty()) command.checkpoint = older;
        older = newest;
        return true;
      });
}
WorldHooks start_from_beginning() {
  return each_command<StartTrial>([](StartTrial& command, auto&) {
    command.checkpoint.clear();
    return true;
  });
}
WorldHooks delete_newest_checkpoint() {
  WorldHooks hooks;
  hooks.commands = [](std::vector<ExperimentCommand>& commands) {
    std::vector<ExperimentCommand> more;
    for (const ExperimentCommand& command : commands)
      if (const auto* started = std::get_if<StartTrial>(&command))
        if (!started->checkpoint.empty())
          more.emplace_back(DeleteCheckpoint{0, started->checkpoint});
    commands.insert(commands.end(), more.begin(), more.end());
  };
  return hooks;
}
// A trial exploits the trial whose process ended first and did not start again.
WorldHooks exploit_ended_trial() {
  WorldHooks hooks;
  hooks.commands =
      [ended = std::vector<TrialNumber>()](std::vector<ExperimentCommand>& commands) mutable {
        for (ExperimentCommand& command : commands) {
          if (const auto* end = std::get_if<EndTrial>(&command)) ended.push_back(end->trial);
          if (const auto* start = std::get_if<StartTrial>(&command))
            std::erase(ended, start->trial);
          auto* exploit = std::get_if<TrialExploited>(&command);
          if (exploit == nullptr) continue;
          std::erase(ended, exploit->trial);
          if (!ended.empty()) exploit->donor = ended.front();
        }
      };
  return hooks;
}
// A trial of the first ones runs again in place of a later one.
WorldHooks start_finished_trial() {
  return each_command<StartTrial>([](StartTrial& command, auto&) {
    if (command.trial >= 4) command.trial -= 4;
    return true;
  });
}
WorldHooks request_each_group_thrice() {
  return each_command<MakeGroup>([](MakeGroup& command, auto& out) {
    for (const GroupNumber more : {1'000, 2'000}) {
      MakeGroup other = command;
      other.group += more;
      out.emplace_back(std::move(other));
    }
    return true;
  });
}
WorldHooks end_without_release() {
  return each_command<EndTrial>([](EndTrial&, auto&) { return false; });
}

}  // namespace

const std::vector<ExperimentMutation>& experiment_mutations() {
  const WorldOptions snapshots{.scheduler = "asha", .snapshot_every = 5};
  const WorldOptions asks_for_saves{.scheduler = "hyperband", .saves_on_request = true};
  static const std::vector<ExperimentMutation> all{
      {"TrialEndsTwice", {}, false, "ends of trial", tell_twice},
      {"FinishedTrialStarts", {.slots = 2}, false, "starts after its end", start_finished_trial},
      {"MoreTrialsAreLive", {.max_concurrent = 2}, false, "live trials", allow_more_trials},
      {"ReportIsDecidedTwice", {}, false, "decided twice", continue_twice},
      {"ReportCountsTwice",
       {.scheduler = "asha"},
       false,
       "decisions of the log differ",
       [] { return WorldHooks{.counts_reports_twice = true}; }},
      {"DecisionIsLost", {}, false, "does not end", [] { return lose_every<ContinueTrial>(7); }},
      {"DecisionPrecedesItsStorage",
       {},
       true,
       "are stored",
       [] { return WorldHooks{.acts_before_store = true}; }},
      {"CheckpointInUseIsDeleted",
       {.scheduler = "pbt"},
       false,
       "deleted",
       delete_newest_checkpoint},
      {"CheckpointIsOlder",
       {.scheduler = "pbt"},
       false,
       "continues from",
       start_from_older_checkpoint},
      {"RetryForgetsCheckpoint",
       {.max_failures = 2},
       false,
       "continues from",
       start_from_beginning},
      {"FinishedTrialIsExploited",
       {.scheduler = "pbt", .trials = 16, .slots = 16, .max_failures = 0},
       false,
       "exploits the finished trial",
       exploit_ended_trial},
      {"GroupIsLeft", {}, false, "a group is left", [] { return lose_every<RemoveGroup>(3); }},
      {"ProcessIsLeft", {.scheduler = "asha"}, false, "does not end", end_without_release},
      {"PauseIsSilent",
       {.scheduler = "promotion", .has_checkpoints = false},
       false,
       "without a warning",
       [] { return lose_every<TrialWarning>(1); }},
      {"GroupsAreUnbounded",
       {.trials = 12},
       false,
       "groups are pending",
       request_each_group_thrice},
      {"DecisionDependsOnProcess",
       {.scheduler = "asha"},
       false,
       "decisions of the log differ",
       decide_by_history_of_process},
      {"ResumeForgetsRungs", snapshots, true, "another state", forget_scheduler},
      {"ResumeLosesReport", {.scheduler = "asha"}, true, "another state", lose_report_at_resume},
      {"ResumeCountsReportTwice",
       {.scheduler = "asha"},
       true,
       "another state",
       repeat_report_at_resume},
      {"PausedTrialsBlockOthers",
       {.scheduler = "promotion", .searcher = "limited"},
       false,
       "the experiment ends with",
       count_paused_trials},
      {"ReasonIsLost",
       {.scheduler = "asha"},
       false,
       "is stopped without a reason",
       [] { return lose_every<TrialDecided>(2); }},
      {"SaveIsNotRequested", asks_for_saves, false, "does not end",
       [] { return lose_every<SaveCheckpoint>(1); }},
  };
  return all;
}

}  // namespace mobula::internal::tune
