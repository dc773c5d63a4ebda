#include "tune/core/schedulers/population_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tune/core/state_archive.h"

namespace mobula::internal::tune {
namespace {

bool contains_trial(const std::vector<TrialNumber>& trials, TrialNumber trial) {
  return std::find(trials.begin(), trials.end(), trial) != trials.end();
}

struct PopulationMember {
  bool present = false;
  std::optional<double> score = {};
  CheckpointNumber checkpoint = 0;  // saved as a member of the upper quantile
  bool saving = false;              // that checkpoint is not saved yet
  double last_perturbation_time = 0, last_train_time = 0;

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.present, self.score, self.checkpoint, self.saving, self.last_perturbation_time,
            self.last_train_time);
  }
};

// The trials that one report perturbs. A member of the lower quantile may have to wait for the
// checkpoint of its donor.
struct PerturbationRound {
  bool active = false;
  TrialNumber reporter = 0;
  double time = 0;
  Decision decision = Decision::proceed;  // unless the reporter is paused by then
  std::vector<TrialNumber> upper = {}, lower = {}, queue = {};
  std::uint64_t next = 0;                 // index in the queue
  std::optional<TrialNumber> donor = {};  // drawn for queue[next], and not saved yet

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.active, self.reporter, self.time, self.decision, self.upper, self.lower,
            self.queue, self.next, self.donor);
  }
};

class PopulationTraining final : public TrialScheduler {
 public:
  PopulationTraining(PopulationSettings settings, std::unique_ptr<ExploreModel> model)
      : settings_(std::move(settings)),
        model_(std::move(model)),
        next_sync_(std::max(settings_.perturbation_interval, settings_.burn_in_period)) {}

  Result<void> added(TrialNumber trial, SchedulerStep step) override {
    const auto at = static_cast<std::size_t>(trial);
    if (at >= members_.size()) members_.resize(at + 1);
    if (!members_[at].present) order_.push_back(trial);
    members_[at] = PopulationMember{.present = true};
    Config& config = step.trials.row(trial).config;
    fill_config(config, settings_.explore.mutations, step.random);
    Result<void> checked = check_config(config, settings_.explore.mutations);
    if (checked) return checked;
    return failure(ErrorCode::invalid_argument,
                   fmt::format("trial {}: {}", trial, checked.error().text));
  }

  Result<Decision> reported(const Report& report, SchedulerStep step) override {
    if (!report.time || std::isnan(*report.time))
      return missing_field(report.trial, "time_attr", "PBT");
    if (!report.value) return missing_field(report.trial, "metric", "PBT");
    const double time = *report.time;
    PopulationMember& own = member(report.trial);
    if (time < settings_.burn_in_period ||
        time - own.last_perturbation_time < settings_.perturbation_interval)
      return Decision::proceed;
    own.score = sign_of(settings_.mode) * *report.value;
    own.last_train_time = time;
    if (model_)
      model_->record(report.trial, time, *own.score, step.trials.row(report.trial).config);
    if (settings_.synch && others_are_behind(report.trial, step.trials)) {
      step.trials.note({.trial = report.trial,
                        .rule = DecisionNote::Rule::population,
                        .outcome = DecisionNote::Outcome::paused,
                        .milestone = next_sync_,
                        .value = report.value});
      return Decision::pause;
    }
    begin_round(report.trial, time, step.trials);
    return continue_round(step);
  }

  // The end of a trial releases its checkpoint: a finished trial is no donor.
  void completed(const Report& last, SchedulerStep /*step*/) override { release(last.trial); }
  void failed(TrialNumber trial, SchedulerStep /*step*/) override { release(trial); }
  void removed(TrialNumber trial, SchedulerStep /*step*/) override { release(trial); }

  std::optional<TrialNumber> choose(SchedulerStep step) override {
    std::optional<TrialNumber> chosen;
    auto consider = [&](TrialNumber trial) {
      const double time = member(trial).last_train_time;
      if (settings_.synch && !(time < next_sync_)) return;
      if (chosen) {
        const double least = member(*chosen).last_train_time;
        if (time > least) return;
        if (time == least && step.trials.row(trial).position > step.trials.row(*chosen).position)
          return;
      }
      chosen = trial;
    };
    for (const TrialNumber trial : step.trials.all(TrialState::pending)) consider(trial);
    for (const TrialNumber trial : step.trials.all(TrialState::paused)) consider(trial);
    return chosen;
  }

  Result<std::optional<TrialDecision>> saved(TrialNumber trial, CheckpointNumber checkpoint,
                                             SchedulerStep step) override {
    PopulationMember& own = member(trial);
    if (own.saving) {
      own.saving = false;
      own.checkpoint = checkpoint;
    }
    if (!round_.donor || *round_.donor != trial) return std::optional<TrialDecision>();
    const TrialNumber reporter = round_.reporter;
    Result<Decision> decision = continue_round(step);
    if (!decision) return decision.error();
    if (*decision == Decision::wait) return std::optional<TrialDecision>();
    return std::optional<TrialDecision>(TrialDecision{reporter, *decision});
  }
  bool waits_for_checkpoint() const override { return round_.donor.has_value(); }
  void checkpoints_in_use(std::vector<CheckpointNumber>& out) const override {
    for (const PopulationMember& each : members_)
      if (each.checkpoint != 0) out.push_back(each.checkpoint);
  }

  std::string save() const override {
    if (!model_) return save_state(*this);
    StateWriter writer;
    writer(save_state(*this), model_->save());
    return writer.take();
  }
  Result<void> load(std::string_view state) override {
    if (!model_) return load_state(*this, state, "PBT scheduler");
    StateReader reader(state);
    std::string own;
    std::string model;
    reader(own, model);
    if (Result<void> loaded = model_->load(model); !loaded) return loaded;
    return load_state(*this, own, "PB2 scheduler");
  }

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.next_sync_, self.members_, self.order_, self.round_);
  }

 private:
  PopulationMember& member(TrialNumber trial) {
    const auto at = static_cast<std::size_t>(trial);
    if (at >= members_.size()) members_.resize(at + 1);
    return members_[at];
  }

  void release(TrialNumber trial) {
    member(trial).checkpoint = 0;
    member(trial).saving = false;
  }

  bool others_are_behind(TrialNumber reporter, const TrialTable& trials) {
    for (const TrialState state :
         {TrialState::pending, TrialState::running, TrialState::pausing, TrialState::paused})
      for (const TrialNumber trial : trials.all(state))
        if (trial != reporter && member(trial).last_train_time < next_sync_) return true;
    return false;
  }

  void begin_round(TrialNumber reporter, double time, const TrialTable& trials) {
    round_ = PerturbationRound{.active = true, .reporter = reporter, .time = time};
    find_quantiles(trials);
    if (!settings_.synch) {
      member(reporter).last_perturbation_time = time;
      round_.queue = {reporter};
      if (trials.has(TrialState::pending) || trials.has(TrialState::paused))
        round_.decision = Decision::pause;
      return;
    }
    round_.decision = Decision::pause;
    // Strong trials save their checkpoints before weak trials exploit them.
    round_.queue = round_.upper;
    for (const TrialNumber trial : trials.list())
      if (!contains_trial(round_.lower, trial) && !contains_trial(round_.upper, trial))
        round_.queue.push_back(trial);
    round_.queue.insert(round_.queue.end(), round_.lower.begin(), round_.lower.end());
  }

  void find_quantiles(const TrialTable& trials) {
    std::vector<TrialNumber> sorted;
    for (const TrialNumber trial : order_) {
      const auto& score = member(trial).score;
      if (score && !std::isnan(*score) && !is_finished(trials.state(trial)))
        sorted.push_back(trial);
    }
    std::stable_sort(sorted.begin(), sorted.end(), [&](TrialNumber a, TrialNumber b) {
      return *member(a).score < *member(b).score;
    });
    if (sorted.size() <= 1) return;
    const double count = static_cast<double>(sorted.size());
    auto share = static_cast<std::ptrdiff_t>(std::ceil(count * settings_.quantile_fraction));
    if (static_cast<double>(share) > count / 2) share = static_cast<std::ptrdiff_t>(count / 2);
    round_.lower.assign(sorted.begin(), sorted.begin() + share);
    round_.upper.assign(sorted.end() - share, sorted.end());
  }

  Result<Decision> continue_round(SchedulerStep step) {
    while (round_.next < round_.queue.size()) {
      const TrialNumber trial = round_.queue[round_.next];
      if (!round_.donor) {
        if (settings_.synch) member(trial).last_perturbation_time = round_.time;
        mark_checkpoint(trial, step.trials);
        if (contains_trial(round_.lower, trial))
          round_.donor = round_.upper[step.random.python.index(round_.upper.size())];
      }
      if (round_.donor) {
        if (member(*round_.donor).saving) return Decision::wait;
        const TrialNumber donor = *std::exchange(round_.donor, std::nullopt);
        if (member(donor).checkpoint != 0)
          if (Result<void> done = exploit(trial, donor, step); !done) {
            round_ = {};
            return done.error();
          }
      }
      ++round_.next;
    }
    if (settings_.synch) {
      double latest = 0;
      for (const PopulationMember& each : members_) latest = std::max(latest, each.last_train_time);
      next_sync_ = std::max(next_sync_ + settings_.perturbation_interval, latest);
    }
    const bool paused = step.trials.state(round_.reporter) == TrialState::paused;
    const Decision decision = paused ? Decision::none : round_.decision;
    // Trials that wait run first.
    if (decision == Decision::pause && !settings_.synch)
      step.trials.note({.trial = round_.reporter,
                        .rule = DecisionNote::Rule::population,
                        .outcome = DecisionNote::Outcome::paused,
                        .milestone = round_.time,
                        .value = value_of(round_.reporter)});
    round_ = {};
    return decision;
  }

  // The value as reported.
  std::optional<double> value_of(TrialNumber trial) {
    const auto& score = member(trial).score;
    return score ? std::optional(sign_of(settings_.mode) * *score) : std::nullopt;
  }

  void note_exploit(TrialNumber trial, TrialNumber donor, SchedulerStep step) {
    std::int64_t compared = 0;
    for (const TrialNumber each : order_) {
      const auto& score = member(each).score;
      compared += score && !std::isnan(*score) && !is_finished(step.trials.state(each)) ? 1 : 0;
    }
    step.trials.note({.trial = trial,
                      .rule = DecisionNote::Rule::population,
                      .outcome = DecisionNote::Outcome::exploited,
                      .milestone = round_.time,
                      .value = value_of(trial),
                      .cutoff = value_of(round_.lower.back()),
                      .compared = compared,
                      .donor = donor,
                      .donor_value = value_of(donor)});
  }

  // A member of the upper quantile keeps a checkpoint for others, and each other trial drops its
  // own.
  void mark_checkpoint(TrialNumber trial, TrialTable& trials) {
    PopulationMember& own = member(trial);
    release(trial);
    if (!contains_trial(round_.upper, trial)) return;
    switch (trials.state(trial)) {
      case TrialState::paused: own.checkpoint = trials.row(trial).checkpoint; break;
      case TrialState::pausing: own.saving = true; break;
      case TrialState::running:
        own.saving = true;
        trials.command(SaveTrial{trial});
        break;
      default: break;
    }
  }

  Result<void> exploit(TrialNumber trial, TrialNumber donor, SchedulerStep step) {
    PopulationMember& own = member(trial);
    const PopulationMember& best = member(donor);
    const Config donor_config = step.trials.row(donor).config;
    Result<Config> config = model_ ? model_->suggest(trial, donor, donor_config, step.random.numpy)
                                   : explore(donor_config, settings_.explore, step.random);
    if (!config) return config.error();
    TrialRow& row = step.trials.row(trial);
    ExploitTrial command{.trial = trial,
                         .donor = donor,
                         .checkpoint = best.checkpoint,
                         .iteration = row.iteration,
                         .donor_iteration = step.trials.row(donor).iteration,
                         .donor_config = donor_config,
                         .config = *config};
    note_exploit(trial, donor, step);
    row.config = std::move(*config);
    row.checkpoint = best.checkpoint;
    step.trials.set_state(trial, TrialState::paused);
    step.trials.command(std::move(command));
    own.last_perturbation_time = best.last_perturbation_time;
    own.last_train_time = best.last_train_time;
    return {};
  }

  PopulationSettings settings_;
  std::unique_ptr<ExploreModel> model_;  // absent: explore()
  double next_sync_;
  std::vector<PopulationMember> members_;  // by trial
  std::vector<TrialNumber> order_;         // trials in the order of their first addition
  PerturbationRound round_;
};

class PolicyReplay final : public TrialScheduler {
 public:
  explicit PolicyReplay(const std::vector<PolicyRow>& rows) {
    // The chain of donors ends where a later row replaced the earlier ones.
    for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
      if (!changes_.empty() && row->recipient != std::prev(row)->donor) break;
      changes_.emplace_back(static_cast<double>(row->donor_step), row->config);
      initial_ = row->donor_config;
    }
    std::reverse(changes_.begin(), changes_.end());
  }

  Result<void> added(TrialNumber trial, SchedulerStep step) override {
    if (trial_ && *trial_ != trial)
      return failure(
          ErrorCode::invalid_argument,
          fmt::format("trial {}: a replay of a policy has one trial; pass num_samples 1", trial));
    const bool again = std::exchange(trial_, trial).has_value();
    Config& config = step.trials.row(trial).config;
    if (again) return {};
    if (!changes_.empty())
      config = initial_;
    else if (config.empty())
      return failure(ErrorCode::invalid_argument,
                     "policy file: no rows, and the trial has no configuration; pass a space");
    return {};
  }

  Result<Decision> reported(const Report& report, SchedulerStep step) override {
    if (!report.time || next_ == changes_.size() || *report.time < changes_[next_].first)
      return Decision::proceed;
    const Config& config = changes_[next_++].second;
    step.trials.note({.trial = report.trial,
                      .rule = DecisionNote::Rule::policy,
                      .outcome = DecisionNote::Outcome::exploited,
                      .milestone = report.time,
                      .value = report.value});
    step.trials.row(report.trial).config = config;
    step.trials.set_state(report.trial, TrialState::paused);
    step.trials.command(ReconfigureTrial{report.trial, config});
    return Decision::none;
  }

  std::optional<TrialNumber> choose(SchedulerStep step) override {
    return choose_in_order(step.trials);
  }

  std::string save() const override { return save_state(*this); }
  Result<void> load(std::string_view state) override {
    return load_state(*this, state, "policy replay");
  }

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.trial_, self.next_);
  }

 private:
  Config initial_;
  std::vector<std::pair<double, Config>> changes_;  // from this iteration on
  std::optional<TrialNumber> trial_;
  std::uint64_t next_ = 0;
};

Failure population_option(const char* name, double value, const char* advice) {
  return failure(ErrorCode::invalid_argument,
                 fmt::format("PbtOptions::{}: {}; {}", name, value, advice));
}

}  // namespace

Result<TrialSchedulerPtr> make_population_training(PopulationSettings settings,
                                                   std::unique_ptr<ExploreModel> model) {
  const ExploreRules& rules = settings.explore;
  if (rules.mutations.empty() && !rules.custom)
    return failure(ErrorCode::invalid_argument,
                   "PbtOptions::hyperparam_mutations: empty; pass mutations or custom_explore_fn");
  if (Result<void> checked = check_mutations(rules.mutations); !checked) return checked.error();
  if (!(settings.quantile_fraction >= 0 && settings.quantile_fraction <= 0.5))
    return population_option("quantile_fraction", settings.quantile_fraction,
                             "pass a value from 0 to 0.5");
  if (!(settings.perturbation_interval > 0))
    return population_option("perturbation_interval", settings.perturbation_interval,
                             "pass a value above 0");
  if (!(rules.resample_probability >= 0 && rules.resample_probability <= 1))
    return population_option("resample_probability", rules.resample_probability,
                             "pass a value from 0 to 1");
  if (rules.perturbation_factors.empty())
    return population_option("perturbation_factors", 0, "pass at least one factor");
  return TrialSchedulerPtr(
      std::make_unique<PopulationTraining>(std::move(settings), std::move(model)));
}

TrialSchedulerPtr make_policy_replay(const std::vector<PolicyRow>& rows) {
  return std::make_unique<PolicyReplay>(rows);
}

}  // namespace mobula::internal::tune
