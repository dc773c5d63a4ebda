#include "tune/experiment/experiment_world.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "tune/core/experiment/decision_record.h"
#include "tune/core/schedulers/hyperband.h"
#include "tune/core/schedulers/median_stopping.h"
#include "tune/core/schedulers/population_bandit.h"
#include "tune/core/schedulers/population_training.h"
#include "tune/core/schedulers/resource_changing.h"
#include "tune/core/schedulers/successive_halving.h"
#include "tune/core/searchers/bohb/bohb_search.h"
#include "tune/core/searchers/cma/cma_search.h"
#include "tune/core/searchers/gaussian/bayes_search.h"
#include "tune/core/searchers/gaussian/gp_search.h"
#include "tune/core/searchers/genetic/nsga_search.h"
#include "tune/core/searchers/search_wrappers.h"
#include "tune/core/searchers/sobol/sobol_search.h"
#include "tune/core/searchers/tpe/parzen_search.h"
#include "tune/core/searchers/variant_search.h"

namespace mobula::internal::tune {
namespace {

class RecordingSearch final : public SearchAlgorithm {
 public:
  explicit RecordingSearch(CallLog& log) : log_(&log) {}
  Result<Suggestion> ask(TrialNumber trial, SearchRandom /*random*/) override {
    log_->push_back(fmt::format("ask {}", trial));
    return Suggestion{.kind = Suggestion::Kind::config, .config = {{"x", trial}}};
  }
  void report(TrialNumber trial, double /*step*/, double value) override {
    log_->push_back(fmt::format("search report {} {}", trial, value));
  }
  void tell(TrialNumber trial, const TrialEnd& end) override {
    const std::string value = end.value ? fmt::format("{}", *end.value) : "-";
    const char* state = end.state == EndState::failed ? " failed" : "";
    log_->push_back(fmt::format("tell {} {}{}", trial, value, state));
  }
  std::string save() const override { return {}; }
  Result<void> load(std::string_view /*state*/) override { return {}; }

 private:
  CallLog* log_;
};

class RecordingScheduler final : public TrialScheduler {
 public:
  RecordingScheduler(CallLog& log, std::map<std::string, Decision> decisions)
      : log_(&log), decisions_(std::move(decisions)) {}
  Result<void> added(TrialNumber trial, SchedulerStep /*step*/) override {
    log_->push_back(fmt::format("added {}", trial));
    return {};
  }
  Result<Decision> reported(const Report& report, SchedulerStep /*step*/) override {
    log_->push_back(fmt::format("reported {}", report.trial));
    const auto found = decisions_.find(fmt::format("{}.{}", report.trial, *report.time));
    return found == decisions_.end() ? Decision::proceed : found->second;
  }
  void completed(const Report& last, SchedulerStep /*step*/) override {
    log_->push_back(fmt::format("completed {}", last.trial));
  }
  void failed(TrialNumber trial, SchedulerStep /*step*/) override {
    log_->push_back(fmt::format("failed {}", trial));
  }
  void removed(TrialNumber trial, SchedulerStep /*step*/) override {
    log_->push_back(fmt::format("removed {}", trial));
  }
  std::optional<TrialNumber> choose(SchedulerStep step) override {
    return choose_in_order(step.trials);
  }
  std::string save() const override { return {}; }
  Result<void> load(std::string_view /*state*/) override { return {}; }

 private:
  CallLog* log_;
  std::map<std::string, Decision> decisions_;
};

class RecordingStopper final : public TrialStopper {
 public:
  RecordingStopper(CallLog& log, double limit) : log_(&log), limit_(limit) {}
  Result<bool> stops(TrialNumber trial, const Config& metrics) override {
    log_->push_back(fmt::format("stopper {}", trial));
    return metrics.get("loss").number() >= limit_;
  }
  std::string reason() const override { return "the limit is reached"; }
  std::string save() const override { return {}; }
  Result<void> load(std::string_view /*state*/) override { return {}; }

 private:
  CallLog* log_;
  double limit_;
};

// Reports the ends of trials that a searcher gets.
class WatchedSearch final : public SearchAlgorithm {
 public:
  WatchedSearch(SearchAlgorithmPtr inner, ExperimentChecker& checker)
      : inner_(std::move(inner)), checker_(&checker) {}
  Result<Suggestion> ask(TrialNumber trial, SearchRandom random) override {
    return inner_->ask(trial, random);
  }
  void report(TrialNumber trial, double step, double value) override {
    inner_->report(trial, step, value);
  }
  void budget_reached(TrialNumber trial, double budget, double value) override {
    inner_->budget_reached(trial, budget, value);
  }
  void tell(TrialNumber trial, const TrialEnd& end) override {
    checker_->trial_ended(trial);
    inner_->tell(trial, end);
  }
  void paused(TrialNumber trial) override { inner_->paused(trial); }
  void resumed(TrialNumber trial) override { inner_->resumed(trial); }
  void stalled() override { inner_->stalled(); }
  bool limit_concurrency(int most) override { return inner_->limit_concurrency(most); }
  std::string save() const override { return inner_->save(); }
  Result<void> load(std::string_view state) override { return inner_->load(state); }

 private:
  SearchAlgorithmPtr inner_;
  ExperimentChecker* checker_;
};

// ASHA whose trials change between one and two CPUs.
TrialSchedulerPtr changing_scheduler(SuccessiveHalvingSettings::Type type) {
  return make_resource_changing(
      make_successive_halving({.max_t = 9, .reduction_factor = 3, .type = type}).value(),
      [](const Report& report, const TrialTable& /*trials*/,
         const ResourceBundles& /*base*/) -> Result<std::optional<ResourceBundles>> {
        const std::int64_t cpus =
            static_cast<std::int64_t>(report.time.value_or(0)) % 4 < 2 ? 1 : 2;
        return std::optional<ResourceBundles>({{{"CPU", cpus * 10000}}});
      });
}

TrialSchedulerPtr scheduler_named(const std::string& name) {
  if (name == "asha") return make_successive_halving({.max_t = 9, .reduction_factor = 3}).value();
  if (name == "promotion")
    return make_successive_halving({.max_t = 9,
                                    .reduction_factor = 3,
                                    .type = SuccessiveHalvingSettings::Type::promotion})
        .value();
  if (name == "hyperband") return make_hyperband({.max_t = 9}).value();
  if (name == "median")
    return make_median_stopping({.grace_period = 2, .min_samples_required = 2}).value();
  if (name == "pb2")
    return make_population_bandit({.perturbation_interval = 2, .bounds = {{"x", {0, 1}}}}).value();
  using Type = SuccessiveHalvingSettings::Type;
  if (name == "changing") return changing_scheduler(Type::stopping);
  if (name == "changing_promotion") return changing_scheduler(Type::promotion);
  if (name == "pbt" || name == "synch_pbt") {
    PopulationSettings settings{.perturbation_interval = 2, .synch = name == "synch_pbt"};
    settings.explore.mutations = Space{{"x", uniform(0, 1)}};
    return make_population_training(std::move(settings)).value();
  }
  return make_fifo_scheduler();
}

template <class Search, class Settings>
SearchAlgorithmPtr model_search(const Settings& settings, const SearchSpace& space) {
  return Search::make(settings, space).value();
}

SearchAlgorithmPtr searcher_named(const WorldOptions& options, std::uint64_t seed) {
  const std::string& name = options.searcher;
  Space space{{"x", uniform(0, 1)}};
  if (name == "variants")
    return VariantSearch::make(space, {.num_samples = options.trials}, seed).value();
  if (name != "bayes") {
    space.add("n", randint(0, 5));
    space.add("c", choice({"a", "b", "c"}));
  }
  const SearchSpace dimensions = SearchSpace::make(space).value();
  if (name == "bayes")
    return model_search<BayesSearch>(BayesSettings{.patience = 1'000, .skip_duplicate = false},
                                     dimensions);
  if (name == "gp") return model_search<GpSearch>(GpSettings{.n_startup_trials = 4}, dimensions);
  if (name == "cma") return model_search<CmaSearch>(CmaSettings{.popsize = 4}, dimensions);
  if (name == "nsga2")
    return model_search<NsgaSearch>(NsgaSettings{.population_size = 5}, dimensions);
  if (name == "bohb") return model_search<BohbSearch>(BohbSettings{}, dimensions);
  if (name == "sobol") return SobolSearch::make(dimensions, {.scramble = true}).value();
  SearchAlgorithmPtr tpe =
      model_search<ParzenSearch>(ParzenSettings{.n_startup_trials = 4}, dimensions);
  if (name == "limited")
    return make_concurrency_limiter(std::move(tpe), {.max_concurrent = 3, .batch = true}).value();
  if (name == "limited_each")
    return make_concurrency_limiter(std::move(tpe), {.max_concurrent = 2}).value();
  if (name == "repeated") return make_repeater(std::move(tpe), {.repeat = 3}).value();
  return tpe;
}

}  // namespace

SearchAlgorithmPtr recording_search(CallLog& log) { return std::make_unique<RecordingSearch>(log); }
TrialSchedulerPtr recording_scheduler(CallLog& log, std::map<std::string, Decision> decisions) {
  return std::make_unique<RecordingScheduler>(log, std::move(decisions));
}
TrialStopperPtr recording_stopper(CallLog& log, double limit) {
  return std::make_unique<RecordingStopper>(log, limit);
}

std::unique_ptr<ExperimentCore> make_core(const WorldOptions& options, std::uint64_t seed,
                                          const WorldHooks& hooks) {
  ExperimentSettings settings{.metric = "loss", .seed = seed, .num_trials = options.trials};
  settings.max_concurrent = options.max_concurrent;
  settings.early_trials = 4;
  settings.saves_on_request = options.saves_on_request;
  settings.shape = GroupShape{.bundles = {{{"CPU", 10000}}}};
  settings.max_failures = options.max_failures;
  settings.checkpoints.num_to_keep = 1;
  ExperimentParts parts;
  parts.searcher = searcher_named(options, seed);
  if (options.scheduler == "hyperband_bohb") {
    auto bohb = make_hyperband({.max_t = 9, .for_bohb = true}).value();
    parts.budgets = bohb.get();
    parts.scheduler = std::move(bohb);
  } else {
    parts.scheduler = scheduler_named(options.scheduler);
  }
  if (options.scheduler.starts_with("changing")) {
    parts.shape_of = [shape = *settings.shape](const Config&) { return Result<GroupShape>(shape); };
    settings.shape.reset();
  }
  parts.stopper = make_combined_stopper({});
  if (hooks.parts) hooks.parts(settings, parts);
  return std::make_unique<ExperimentCore>(std::move(settings), std::move(parts));
}

DrawnHistory draw_history(std::uint64_t seed) {
  MersenneTwister random(static_cast<std::uint32_t>(seed) ^ 0x5bd1e995U);
  const auto draw = [&](std::uint32_t count) { return random.next() % count; };
  static const std::vector<std::string> schedulers{
      "fifo", "asha",     "promotion",      "hyperband",         "median", "pbt", "synch_pbt",
      "pb2",  "changing", "hyperband_bohb", "changing_promotion"};
  static const std::vector<std::string> searchers{"tpe",   "cma",     "nsga2",
                                                  "sobol", "limited", "limited_each"};
  DrawnHistory drawn;
  WorldOptions& options = drawn.options;
  options.scheduler = schedulers[draw(static_cast<std::uint32_t>(schedulers.size()))];
  const bool population = options.scheduler.find("pb") != std::string::npos;
  if (options.scheduler == "hyperband_bohb") {
    options.searcher = "bohb";
  } else if (!population && draw(4) == 0) {
    options.searcher = searchers[draw(static_cast<std::uint32_t>(searchers.size()))];
  }
  options.trials = 3 + draw(12);
  options.slots = 1 + draw(5);
  if (draw(3) == 0) options.max_concurrent = 1 + draw(3);
  options.saves_on_request = draw(2) == 0;
  options.has_checkpoints = draw(5) != 0;
  options.max_failures = static_cast<int>(draw(3));
  if (draw(4) == 0) options.swap_every = 1 + static_cast<int>(draw(9));
  if (draw(2) == 0) options.snapshot_every = 1 + static_cast<int>(draw(30));
  if (draw(4) == 0) return drawn;
  options.kills = 1 + static_cast<int>(draw(4));
  options.kill_during_save = options.saves_on_request && draw(4) == 0;
  drawn.kill_at = 1 + static_cast<int>(draw(90));
  return drawn;
}

ExperimentWorld::ExperimentWorld(const WorldOptions& options, std::uint64_t seed, WorldHooks hooks)
    : options_(options),
      seed_(seed),
      hooks_(std::move(hooks)),
      random_(static_cast<std::uint32_t>(seed)),
      core_(new_core()) {}

std::unique_ptr<ExperimentCore> ExperimentWorld::new_core() {
  WorldHooks hooks = hooks_;
  hooks.parts = [this](ExperimentSettings& settings, ExperimentParts& parts) {
    parts.searcher = std::make_unique<WatchedSearch>(std::move(parts.searcher), checker_);
    if (hooks_.parts) hooks_.parts(settings, parts);
  };
  return make_core(options_, seed_, hooks);
}

std::uint32_t ExperimentWorld::draw(std::uint32_t count) { return random_.next() % count; }

void ExperimentWorld::feed(const ExperimentEvent& event) {
  events_.push_back({static_cast<double>(events_.size()), event});
  std::vector<ExperimentCommand> commands;
  core_->step(events_.back().now_s, event, commands);
  events_.back().digest = decision_digest(*core_, commands);
  if (hooks_.counts_reports_twice && std::holds_alternative<TrialReported>(event))
    core_->step(events_.back().now_s, event, commands);
  if (hooks_.commands) hooks_.commands(commands);
  if (cut_ == Cut::before_store) {
    events_.pop_back();
    if (hooks_.acts_before_store) carried_ += static_cast<std::int64_t>(commands.size());
    return;
  }
  checker_.stepped(*core_, commands);
  if (cut_ == Cut::after_store) return;
  carried_ += static_cast<std::int64_t>(commands.size());
  for (const ExperimentCommand& command : commands) carry_out(command);
  check_requests();
  if (options_.max_concurrent > 0 &&
      std::max(core_->running(), static_cast<std::int64_t>(processes_.size())) >
          options_.max_concurrent)
    faults_.push_back(fmt::format("event {}: {} live trials", events_.size(), processes_.size()));
  if (options_.snapshot_every > 0 &&
      events_.size() % static_cast<std::size_t>(options_.snapshot_every) == 0)
    snapshot_ = Snapshot{events_.size(), *core_->save(), carried_, checker_.tells()};
  if (options_.swap_every > 0 &&
      events_.size() % static_cast<std::size_t>(options_.swap_every) == 0)
    swap();
}

// Requested groups serve trials that have not ended, and their number is bounded.
void ExperimentWorld::check_requests() {
  std::int64_t wanted = options_.trials;
  for (TrialNumber trial = 0; trial < static_cast<TrialNumber>(core_->trials().size()); ++trial)
    wanted -= is_finished(core_->trials().state(trial)) ? 1 : 0;
  const auto requested = static_cast<std::int64_t>(requested_.size());
  if (requested > wanted)
    faults_.push_back(
        fmt::format("event {}: {} groups for {} trials", events_.size(), requested, wanted));
}

void ExperimentWorld::swap() {
  const auto saved = core_->save();
  auto loaded = new_core();
  if (const auto done = loaded->load(saved->core, saved->searcher); !done)
    faults_.push_back(fmt::format("event {}: {}", events_.size(), done.error().text));
  const auto again = loaded->save();
  if (again->core != saved->core || again->searcher != saved->searcher)
    faults_.push_back(fmt::format("event {}: the loaded core has another state", events_.size()));
  core_ = std::move(loaded);
}

void ExperimentWorld::carry_out(const ExperimentCommand& command) {
  if (const auto* made = std::get_if<MakeGroup>(&command)) {
    requested_.insert(made->group);
    const std::size_t most = std::max<std::size_t>(16, 2 * placed_.size());
    if (requested_.size() > most)
      faults_.push_back(fmt::format("{} groups are pending", requested_.size()));
  } else if (const auto* removed = std::get_if<RemoveGroup>(&command)) {
    if (requested_.erase(removed->group) + placed_.erase(removed->group) != 1)
      faults_.push_back(fmt::format("group {} is removed twice", removed->group));
    if (processes_.contains(removed->group))
      faults_.push_back(fmt::format("group {} is removed with its trial", removed->group));
  } else if (const auto* started = std::get_if<StartTrial>(&command)) {
    if (!placed_.contains(started->group) || processes_.contains(started->group))
      faults_.push_back(fmt::format("trial {} starts in a group in use", started->trial));
    if (!started->checkpoint.empty() && !checkpoints_.contains(started->checkpoint))
      faults_.push_back(
          fmt::format("trial {} starts from deleted {}", started->trial, started->checkpoint));
    processes_[started->group] = {
        .trial = started->trial, .attempt = started->attempt, .iteration = started->iteration};
  } else if (const auto* continued = std::get_if<ContinueTrial>(&command)) {
    for (auto& [group, process] : processes_) {
      if (process.trial != continued->trial || process.ending) continue;
      if (!process.awaits_decision)
        faults_.push_back(fmt::format("trial {} is decided twice", process.trial));
      process.awaits_decision = false;
    }
  } else if (const auto* saved = std::get_if<SaveCheckpoint>(&command)) {
    for (auto& [group, process] : processes_)
      if (process.trial == saved->trial && !process.ending) process.awaits_save = true;
  } else if (const auto* over = std::get_if<EndTrial>(&command)) {
    for (auto& [group, process] : processes_)
      if (process.trial == over->trial) process.ending = true;
  } else if (const auto* deleted = std::get_if<DeleteCheckpoint>(&command)) {
    if (checkpoints_.erase(deleted->directory) != 1)
      faults_.push_back("checkpoint " + deleted->directory + " is deleted twice");
  } else if (std::holds_alternative<ExperimentEnded>(command)) {
    if (ended_) faults_.emplace_back("the experiment ends twice");
    ended_ = true;
  }
}

void ExperimentWorld::report(GroupNumber group, Process& process) {
  const TrialNumber trial = process.trial;
  const std::int64_t attempt = process.attempt;
  const std::uint32_t kind = draw(40);
  if (process.iteration >= 9 || kind == 0) {
    const bool throws = kind == 0 && process.iteration < 9;
    process.ending = true;
    static_cast<void>(group);
    return feed(TrialExited{trial, attempt,
                            throws ? TrialExitKind::exception : TrialExitKind::returned, "why"});
  }
  ++process.iteration;
  process.awaits_decision = true;
  TrialReported event{.trial = trial, .attempt = attempt};
  event.metrics.set("training_iteration", process.iteration);
  event.metrics.set("loss", static_cast<double>(draw(1000)));
  if (!options_.saves_on_request && options_.has_checkpoints) {
    event.checkpoint = fmt::format("{}-{}-{}", trial, attempt, process.iteration);
    checkpoints_.insert(event.checkpoint);
  }
  feed(event);
}

// One event of the cluster or of a trial.
void ExperimentWorld::act() {
  std::vector<GroupNumber> groups(requested_.begin(), requested_.end());
  if (static_cast<std::int64_t>(placed_.size()) < options_.slots && !groups.empty() &&
      draw(2) == 0) {
    const GroupNumber group = groups.front();
    requested_.erase(group);
    placed_.insert(group);
    return feed(GroupReady{group});
  }
  std::vector<GroupNumber> able;
  for (const auto& [group, process] : processes_)
    if (process.ending || process.awaits_save || !process.awaits_decision) able.push_back(group);
  if (able.empty()) return;
  const GroupNumber group = able[draw(static_cast<std::uint32_t>(able.size()))];
  Process& process = processes_.at(group);
  if (process.ending) {
    processes_.erase(group);
    return feed(GroupReleased{group});
  }
  if (!process.awaits_save) return report(group, process);
  process.awaits_save = false;
  const TrialSaved saved{process.trial, process.attempt,
                         fmt::format("{}-{}-s{}", process.trial, process.attempt, events_.size())};
  checkpoints_.insert(saved.checkpoint);
  feed(saved);
}

// The driver ends, and a new one continues from the snapshot and the log. Its own groups and
// processes no longer exist.
void ExperimentWorld::resume() {
  const std::unique_ptr<ExperimentCore> killed = std::move(core_);
  std::vector<TimedEvent> log = events_;
  if (hooks_.log) hooks_.log(log);
  const std::size_t after = snapshot_ ? snapshot_->events : 0;
  std::int64_t stored = snapshot_ ? snapshot_->carried : 0;
  checker_.resumes(snapshot_ ? snapshot_->tells : std::map<TrialNumber, int>());
  core_ = new_core();
  if (snapshot_) {
    const auto loaded = core_->load(snapshot_->state.core, snapshot_->state.searcher);
    if (!loaded) faults_.push_back(loaded.error().text);
  }
  DecisionReplay replayed(*core_, static_cast<std::int64_t>(after));
  for (std::size_t i = after; i < log.size(); ++i) {
    const std::string body = save_event(log[i].now_s, log[i].event, log[i].digest);
    replayed.step(load_event(static_cast<std::int64_t>(log[i].event.index()), body).value());
    stored += static_cast<std::int64_t>(replayed.commands().size());
  }
  if (replayed.differing() > 0)
    faults_.push_back(fmt::format("{} decisions of the replay differ", replayed.differing()));
  if (carried_ > stored)
    faults_.push_back(fmt::format("{} commands were carried out, {} are stored", carried_, stored));
  carried_ = stored;
  // The killed core has seen one event more than the log.
  if (cut_ != Cut::before_store) {
    const auto before = killed->save();
    const auto now = core_->save();
    if (before->core != now->core || before->searcher != now->searcher)
      faults_.emplace_back("the core that resumes has another state");
  }
  requested_.clear();
  placed_.clear();
  processes_.clear();
  cut_ = Cut::none;
  if (!core_->ended()) feed(ExperimentStarted{});
  ended_ = core_->ended();
}

bool ExperimentWorld::may_kill() const {
  if (!options_.kill_during_save) return true;
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const auto& each) { return each.second.awaits_save; });
}

void ExperimentWorld::play(std::optional<int> kill_at) {
  int kills = options_.kills;
  feed(ExperimentStarted{});
  for (int i = 0; i < 20000 && !ended_; ++i) {
    if (!kill_at || static_cast<int>(events_.size()) < *kill_at || !may_kill()) {
      act();
      continue;
    }
    // The interruption comes between two steps, or within one.
    if (!options_.kill_during_save) cut_ = static_cast<Cut>(draw(3));
    if (cut_ != Cut::none) act();
    resume();
    kill_at.reset();
    if (--kills > 0) kill_at = static_cast<int>(events_.size() + 1 + draw(40));
  }
  check_end();
}

void ExperimentWorld::check_end() {
  // A core without an interruption decides as the killed one, and as the one after it.
  const auto whole = make_core(options_, seed_, hooks_);
  DecisionReplay replayed(*whole);
  for (const TimedEvent& event : events_) replayed.step(event);
  if (replayed.differing() > 0)
    faults_.push_back(fmt::format("{} decisions of the log differ", replayed.differing()));
  if (!ended_) faults_.emplace_back("the experiment does not end");
  if (!requested_.empty() || !placed_.empty()) faults_.emplace_back("a group is left");
  for (TrialNumber trial = 0; trial < static_cast<TrialNumber>(core_->trials().size()); ++trial)
    if (!is_finished(core_->trials().state(trial)))
      faults_.push_back(fmt::format("trial {} has not ended", trial));
  // Without a stop, a trial ends with its ninth report or with an error.
  if (options_.scheduler == "fifo")
    for (TrialNumber trial = 0; trial < static_cast<TrialNumber>(core_->trials().size()); ++trial)
      if (core_->trials().state(trial) == TrialState::terminated &&
          core_->trials().row(trial).iteration != 9)
        faults_.push_back(fmt::format("trial {} ended early", trial));
  if (static_cast<std::int64_t>(core_->trials().size()) != options_.trials)
    faults_.push_back(fmt::format("the experiment ends with {} of {} trials",
                                  core_->trials().size(), options_.trials));
  checker_.ended(*core_);
}

}  // namespace mobula::internal::tune
