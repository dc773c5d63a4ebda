#include "tune/core/schedulers/hyperband.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <utility>

#include "tune/core/numpy_arithmetic.h"
#include "tune/core/schedulers/hyperband_bracket.h"
#include "tune/core/state_archive.h"

namespace mobula::internal::tune {
namespace {

constexpr std::int64_t no_bracket = -1;

class HyperBandRules final : public HyperBandScheduler {
 public:
  explicit HyperBandRules(const HyperBandSettings& settings)
      : settings_(settings),
        brackets_per_band_(static_cast<std::int64_t>(round_half_even(
                               std::log(settings.max_t) / std::log(settings.reduction_factor))) +
                           1) {}

  Result<void> added(TrialNumber trial, SchedulerStep /*step*/) override {
    if (current_ == no_bracket || bracket(current_).filled()) open_bracket();
    bracket(current_).add(trial);
    bracket_of_[trial] = current_;
    return {};
  }

  Result<Decision> reported(const Report& report, SchedulerStep step) override {
    if (!report.time) return missing_field(report.trial, "time_attr", "HyperBand");
    if (!report.value) return missing_field(report.trial, "metric", "HyperBand");
    if (!(*report.time >= 0))
      return failure(
          ErrorCode::invalid_argument,
          fmt::format("report of trial {}: time_attr is {}; report a value of at least 0",
                      report.trial, *report.time));
    budgets_.erase(report.trial);
    const auto found = bracket_of_.find(report.trial);
    if (found == bracket_of_.end() ||
        !bracket(found->second)
             .update(report.trial, *report.time, sign_of(settings_.mode) * *report.value))
      return Decision::stop;  // left its bracket
    HyperBandBracket& own = bracket(found->second);
    if (own.continues(report.trial)) return Decision::proceed;
    if (!settings_.for_bohb) {
      if (!own.round_done()) note_wait(own, report, step);
      return halve_when_done(own, step);
    }
    budgets_[report.trial] = own.milestone();
    const bool others_run =
        std::any_of(own.live().begin(), own.live().end(), [&](const HyperBandBracket::Live& live) {
          return live.trial != report.trial && step.trials.state(live.trial) != TrialState::paused;
        });
    const bool waits = !own.filled() || others_run;
    if (waits || !own.round_done()) note_wait(own, report, step);
    const Decision decision = waits ? Decision::pause : halve_when_done(own, step);
    if (decision == Decision::pause) step.trials.command(NotifyPaused{report.trial});
    return decision;
  }

  void completed(const Report& last, SchedulerStep step) override { removed(last.trial, step); }
  void failed(TrialNumber trial, SchedulerStep step) override { removed(trial, step); }
  void removed(TrialNumber trial, SchedulerStep step) override {
    budgets_.erase(trial);
    const auto found = bracket_of_.find(trial);
    if (found == bracket_of_.end()) return;
    HyperBandBracket& own = bracket(found->second);
    own.remove(trial);
    bracket_of_.erase(found);
    if (!own.finished() && !own.was_halved()) halve_when_done(own, step);
  }

  std::optional<TrialNumber> choose(SchedulerStep step) override {
    return settings_.for_bohb ? choose_for_bohb(step, true) : choose_by_completion(step);
  }

  std::optional<double> budget_of_report(TrialNumber trial) const override {
    const auto found = budgets_.find(trial);
    if (found == budgets_.end()) return std::nullopt;
    return found->second;
  }

  std::string save() const override { return save_state(*this); }
  Result<void> load(std::string_view state) override {
    return load_state(*this, state, "HyperBand scheduler");
  }

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.brackets_, self.bands_, self.current_, self.bracket_of_, self.budgets_);
  }

 private:
  using Band = std::vector<std::int64_t>;  // numbers of brackets; no_bracket: too small

  HyperBandBracket& bracket(std::int64_t number) {
    return brackets_[static_cast<std::size_t>(number)];
  }

  void open_bracket() {
    current_ = no_bracket;
    while (current_ == no_bracket) {
      if (bands_.empty() || static_cast<std::int64_t>(bands_.back().size()) == brackets_per_band_)
        bands_.emplace_back();
      const auto opened = static_cast<std::int64_t>(bands_.back().size());
      const std::int64_t s = settings_.for_bohb ? brackets_per_band_ - opened - 1 : opened;
      const double power = std::pow(settings_.reduction_factor, static_cast<double>(s));
      const double reciprocal = std::pow(settings_.reduction_factor, static_cast<double>(-s));
      const BracketShape shape{
          .trials = static_cast<std::int64_t>(std::ceil(static_cast<double>(brackets_per_band_) /
                                                        static_cast<double>(s + 1) * power)),
          .milestone = static_cast<std::int64_t>(settings_.max_t * reciprocal),
          .halvings = s};
      if (shape.milestone > 0) {
        current_ = static_cast<std::int64_t>(brackets_.size());
        brackets_.emplace_back(shape, settings_.max_t, settings_.reduction_factor,
                               settings_.stop_last_trials);
      }
      bands_.back().push_back(current_);
    }
  }

  static bool halted(const TrialTable& trials, TrialNumber trial) {
    const TrialState state = trials.state(trial);
    return state == TrialState::paused || state == TrialState::pausing;
  }

  DecisionNote note_of(TrialNumber trial, DecisionNote::Outcome outcome, double milestone,
                       double score) const {
    DecisionNote note{.trial = trial,
                      .rule = DecisionNote::Rule::halving,
                      .outcome = outcome,
                      .milestone = milestone,
                      .value = sign_of(settings_.mode) * score};
    if (const auto found = bracket_of_.find(trial); found != bracket_of_.end())
      note.bracket = found->second;
    return note;
  }
  // The trial waits until all live trials of its bracket have reached the milestone.
  void note_wait(const HyperBandBracket& own, const Report& report, SchedulerStep step) const {
    step.trials.note(note_of(report.trial, DecisionNote::Outcome::paused, own.milestone(),
                             sign_of(settings_.mode) * *report.value));
  }
  // A decision without a comparison: the bracket has ended, or the trial is ahead of its round.
  void note_alone(const HyperBandBracket& own, TrialNumber trial, DecisionNote::Outcome outcome,
                  SchedulerStep step) const {
    if (const auto* live = own.find(trial))
      step.trials.note(note_of(trial, outcome, own.milestone(), live->score));
  }
  // `worst`: the score of the worst trial that continues; absent: none continues.
  void note_halving(const HyperBandBracket::Live& live, bool good, double milestone,
                    std::optional<double> worst, std::size_t compared, SchedulerStep step) const {
    DecisionNote note =
        note_of(live.trial, good ? DecisionNote::Outcome::promoted : DecisionNote::Outcome::stopped,
                milestone, live.score);
    if (worst) note.cutoff = sign_of(settings_.mode) * *worst;
    note.compared = static_cast<std::int64_t>(compared);
    step.trials.note(std::move(note));
  }
  void note_halves(const HyperBandBracket& own, const HyperBandBracket::Halves& halves,
                   double milestone, SchedulerStep step) const {
    std::optional<double> worst;
    if (!halves.good.empty())
      if (const auto* live = own.find(halves.good.front())) worst = live->score;
    for (const auto* half : {&halves.bad, &halves.good})
      for (const TrialNumber trial : *half)
        if (const auto* live = own.find(trial))
          note_halving(*live, half == &halves.good, milestone, worst, own.live().size(), step);
  }

  void stop(TrialNumber trial, SchedulerStep step) {
    step.trials.set_state(trial, TrialState::terminated);
    step.trials.command(StopTrial{trial});
    removed(trial, step);
  }

  // Ends the round if all live trials have reached the milestone. At most one of them runs: the
  // trial that reported.
  Decision halve_when_done(HyperBandBracket& own, SchedulerStep step) {
    if (!own.round_done()) return Decision::pause;
    if (own.finished()) {
      const std::vector<HyperBandBracket::Live> live = own.live();
      for (const auto& entry : live)
        note_alone(own, entry.trial, DecisionNote::Outcome::stopped, step);
      for (const auto& entry : live)
        if (step.trials.state(entry.trial) == TrialState::paused) stop(entry.trial, step);
      return Decision::stop;
    }
    Decision decision = Decision::pause;
    const double milestone = own.milestone();
    const HyperBandBracket::Halves halves = own.halve();
    note_halves(own, halves, milestone, step);
    for (const TrialNumber trial : halves.bad) {
      if (halted(step.trials, trial)) {
        stop(trial, step);
      } else {
        own.remove(trial);
        decision = Decision::stop;
      }
    }
    for (const TrialNumber trial : halves.good) {
      const bool running = step.trials.state(trial) == TrialState::running;
      if (own.continues(trial)) {
        if (halted(step.trials, trial)) {
          if (settings_.for_bohb) step.trials.command(NotifyResumed{trial});
          own.resume_later(trial);
        } else if (running) {
          decision = Decision::proceed;
        }
      } else if (own.finished() && own.stop_last_trials()) {
        note_alone(own, trial, DecisionNote::Outcome::stopped, step);
        if (halted(step.trials, trial)) {
          stop(trial, step);
        } else if (running) {
          own.remove(trial);
          decision = Decision::stop;
        }
      } else {
        note_alone(own, trial, DecisionNote::Outcome::paused, step);
      }
    }
    return decision;
  }

  static bool startable(const HyperBandBracket& own, TrialNumber trial, const TrialTable& trials) {
    const TrialState state = trials.state(trial);
    return state == TrialState::pending || (state == TrialState::paused && own.may_resume(trial));
  }
  static std::optional<TrialNumber> first_startable(const HyperBandBracket& own,
                                                    const TrialTable& trials) {
    for (const auto& live : own.live())
      if (startable(own, live.trial, trials)) return live.trial;
    return std::nullopt;
  }

  std::optional<TrialNumber> choose_by_completion(SchedulerStep step) {
    for (const Band& band : bands_) {
      std::vector<std::pair<double, const HyperBandBracket*>> sorted;
      for (const std::int64_t number : band)
        if (number != no_bracket && !bracket(number).live().empty())
          sorted.emplace_back(bracket(number).completion(), &bracket(number));
      std::stable_sort(sorted.begin(), sorted.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      for (const auto& [completion, own] : sorted)
        if (const auto trial = first_startable(*own, step.trials)) return trial;
    }
    return std::nullopt;
  }

  std::optional<TrialNumber> choose_for_bohb(SchedulerStep step, bool may_halve) {
    for (const Band& band : bands_)
      for (const std::int64_t number : band)
        if (number != no_bracket)
          if (const auto trial = first_startable(bracket(number), step.trials)) return trial;
    if (step.trials.has(TrialState::running) || step.trials.has(TrialState::pausing))
      return std::nullopt;
    for (const Band& band : bands_) {
      for (const std::int64_t number : band) {
        if (number == no_bracket) continue;
        HyperBandBracket& own = bracket(number);
        const bool paused = std::any_of(
            own.live().begin(), own.live().end(),
            [&](const auto& live) { return step.trials.state(live.trial) == TrialState::paused; });
        if (!paused) continue;
        halve_when_done(own, step);
        if (may_halve && first_startable(own, step.trials)) return choose_for_bohb(step, false);
      }
    }
    return std::nullopt;
  }

  HyperBandSettings settings_;
  std::int64_t brackets_per_band_;
  std::deque<HyperBandBracket> brackets_;
  std::vector<Band> bands_;
  std::int64_t current_ = no_bracket;
  std::map<TrialNumber, std::int64_t> bracket_of_;
  std::map<TrialNumber, double> budgets_;
};

Failure hyperband_option(const char* name, double value, const char* advice) {
  return failure(ErrorCode::invalid_argument,
                 fmt::format("HyperBandOptions::{}: {}; {}", name, value, advice));
}

}  // namespace

Result<std::unique_ptr<HyperBandScheduler>> make_hyperband(const HyperBandSettings& settings) {
  if (!(settings.max_t >= 1) || !(settings.max_t < 1e15))
    return hyperband_option("max_t", settings.max_t, "pass a value from 1 to 1e15");
  if (!(settings.reduction_factor > 1))
    return hyperband_option("reduction_factor", settings.reduction_factor, "pass a value above 1");
  if (std::log(settings.max_t) / std::log(settings.reduction_factor) > 60)
    return hyperband_option("reduction_factor", settings.reduction_factor,
                            "pass a larger one: at most 60 halvings");
  return std::unique_ptr<HyperBandScheduler>(std::make_unique<HyperBandRules>(settings));
}

}  // namespace mobula::internal::tune
