// The starts and ends of trials.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "tune/core/experiment/experiment_core.h"

namespace mobula::internal::tune {
namespace {

// Suggestions for one trial under DuplicateRule::resample; the last one runs in any case.
constexpr int most_draws = 16;

}  // namespace

bool ExperimentCore::is_current(TrialNumber trial, std::int64_t attempt) const {
  if (trial < 0 || trial >= static_cast<TrialNumber>(trials_.size())) return false;
  const TrialState state = trials_.state(trial);
  return (state == TrialState::running || state == TrialState::pausing) &&
         record(trial).attempt == attempt && record(trial).group != 0;
}

TrialState ExperimentCore::shown_state(TrialNumber trial) const {
  const TrialState state = trials_.state(trial);
  if (state != TrialState::running) return state;
  const TrialGroup* group = groups_.find(record(trial).group);
  const bool waits = group != nullptr && group->stage == TrialGroup::Stage::requested;
  return waits ? TrialState::pending : state;
}

std::optional<TrialNumber> ExperimentCore::trial_of_group(GroupNumber number) const {
  const TrialGroup* group = groups_.find(number);
  return group == nullptr ? std::nullopt : group->trial;
}

void ExperimentCore::set_last(TrialNumber trial, Config metrics) {
  TrialRecord& record = own(trial);
  record.last = std::move(metrics);
  const Value* value = record.last.find(settings_.metric);
  records_.set_value(trial, value == nullptr || value->is_text()
                                ? std::numeric_limits<double>::quiet_NaN()
                                : value->number());
}

// A later trial may reuse the result.
void ExperimentCore::finish(TrialNumber trial) {
  if (settings_.duplicates != DuplicateRule::reuse) records_.ended(trial);
}

void ExperimentCore::complete(TrialNumber trial) {
  parts_.scheduler->completed(report_of(trial), scheduler_step());
  detach(trial);
  trials_.set_state(trial, TrialState::terminated);
  finish(trial);
  carry_out_commands();
  parts_.searcher->tell(trial, end_of(trial));
  changed(trial);
}

void ExperimentCore::remove(TrialNumber trial) {
  if (is_finished(trials_.state(trial))) return;
  parts_.scheduler->removed(trial, scheduler_step());
  detach(trial);
  trials_.set_state(trial, TrialState::terminated);
  finish(trial);
  carry_out_commands();
  // Ray passes no result for a trial that is not running.
  parts_.searcher->tell(trial, {});
  changed(trial);
}

void ExperimentCore::fail(TrialNumber trial, const std::string& kind, const std::string& why,
                          bool repeat) {
  TrialRecord& record = own(trial);
  record.error = why;
  record.error_kind = kind;
  // A lost node is no failure of the trial.
  if (kind != "node_lost") ++record.failures;
  parts_.scheduler->failed(trial, scheduler_step());
  detach(trial);
  const bool again = repeat && !stopping_ &&
                     (settings_.max_failures < 0 || record.failures <= settings_.max_failures);
  if (again) {
    trials_.retry(trial);
    carry_out_commands();
    const Result<void> added = parts_.scheduler->added(trial, addition_step(trial));
    carry_out_commands();
    if (added) return changed(trial);
    record.error = added.error().text;
  }
  trials_.set_state(trial, TrialState::failed);
  carry_out_commands();
  parts_.searcher->tell(trial, {.state = EndState::failed});
  changed(trial);
  if (settings_.stop_on_failure && !stopping_)
    stop_all("a trial failed, and fail_fast ended the experiment");
}

void ExperimentCore::detach(TrialNumber trial) {
  TrialRecord& record = own(trial);
  record.saving = false;
  const GroupNumber number = std::exchange(record.group, 0);
  TrialGroup* group = groups_.find(number);
  if (group == nullptr) return;
  if (group->stage == TrialGroup::Stage::requested) return remove_group(number);
  group->stage = TrialGroup::Stage::draining;
  out_->push_back(EndTrial{trial});
}

void ExperimentCore::stop_all(const char* reason) {
  stopping_ = true;
  if (stop_reason_.empty()) stop_reason_ = reason;
  for (const TrialState state :
       {TrialState::running, TrialState::pausing, TrialState::pending, TrialState::paused})
    for (const TrialNumber trial : trials_.all(state)) {
      // The end of an earlier trial stopped this one.
      if (is_finished(trials_.state(trial))) continue;
      note(trial, DecisionNote::Rule::experiment, stop_reason_);
      if (state == TrialState::running || state == TrialState::pausing) {
        complete(trial);
      } else {
        remove(trial);
      }
    }
}

void ExperimentCore::on(const FailedTrialsRepeated& event) {
  for (std::size_t i = 0; i < trials_.size(); ++i) {
    const auto trial = static_cast<TrialNumber>(i);
    if (trials_.state(trial) != TrialState::failed) continue;
    TrialRecord& record = own(trial);
    if (record.error_kind == "resources") continue;
    // The row of a finished trial is empty.
    TrialRow& row = trials_.row(trial);
    Result<GroupShape> shape =
        settings_.shape ? Result<GroupShape>(*settings_.shape) : parts_.shape_of(record.config);
    if (!shape) continue;
    row.config = record.config;
    row.resources = std::move(shape->bundles);
    if (!event.from_checkpoint) {
      row.checkpoint = 0;
      set_last(trial, {});
    }
    record.failures = 0;
    record.error.clear();
    record.error_kind.clear();
    ended_ = stopping_ = false;
    trials_.retry(trial);
    const Result<void> added = parts_.scheduler->added(trial, addition_step(trial));
    carry_out_commands();
    if (added)
      changed(trial);
    else
      fail(trial, "scheduler", added.error().text, false);
  }
}

// ---- starts

void ExperimentCore::advance() {
  if (!started_ || ended_) return;
  start_trials();
  if (is_stuck() && !search_finished()) {
    parts_.searcher->stalled();
    start_trials();
  }
  end_if_done();
}

void ExperimentCore::start_trials() {
  if (stopping_ || parts_.scheduler->waits_for_checkpoint()) return;
  while (!search_finished() &&
         static_cast<std::int64_t>(trials_.count(TrialState::pending)) < settings_.early_trials)
    if (!ask()) break;
  start_in_ready_groups();
  if (settings_.shape)
    request_common_groups();
  else
    request_single_groups();
}

// A group is ready, and neither the scheduler nor the searcher has a trial for it.
bool ExperimentCore::is_stuck() const {
  return starved_ && !stopping_ && groups_.in_use() == 0 &&
         groups_.count(TrialGroup::Stage::requested) == 0;
}

bool ExperimentCore::ask() {
  const auto trial = static_cast<TrialNumber>(trials_.size());
  Result<Suggestion> suggestion = suggest(trial);
  if (!suggestion) {
    searched_ = true;
    search_error_ = suggestion.error().text;
    return false;
  }
  if (suggestion->kind == Suggestion::Kind::finished) searched_ = true;
  if (suggestion->kind != Suggestion::Kind::config) return false;
  create(std::move(suggestion->config));
  return true;
}

Result<Suggestion> ExperimentCore::suggest(TrialNumber trial) {
  NumpyRandom stream(counter_stream(settings_.seed, trial, StreamPurpose::suggestion));
  for (int draw = 1;; ++draw) {
    Result<Suggestion> suggestion = parts_.searcher->ask(trial, {stream, stream});
    if (settings_.duplicates != DuplicateRule::resample || draw == most_draws || !suggestion ||
        suggestion->kind != Suggestion::Kind::config || !equal_trial(suggestion->config))
      return suggestion;
    parts_.searcher->tell(trial, {.state = EndState::failed});
  }
}

std::optional<TrialNumber> ExperimentCore::equal_trial(const Config& config) const {
  const auto found = configurations_.find(to_string(config));
  return found == configurations_.end() ? std::nullopt : std::optional(found->second);
}

void ExperimentCore::ask_for_pending() {
  while (!trials_.has(TrialState::pending) && !search_finished() && ask()) {
  }
}

void ExperimentCore::create(Config config) {
  if (settings_.duplicates != DuplicateRule::evaluate) {
    const auto earlier = equal_trial(config);
    if (settings_.duplicates == DuplicateRule::reuse && earlier &&
        trials_.state(*earlier) == TrialState::terminated && !record(*earlier).last.empty())
      return create_reused(std::move(config), *earlier);
    configurations_[to_string(config)] = static_cast<TrialNumber>(trials_.size());
  }
  TrialRecord record;
  Result<GroupShape> shape =
      settings_.shape ? Result<GroupShape>(*settings_.shape) : parts_.shape_of(config);
  if (shape) record.strategy = shape->strategy;
  const TrialNumber trial =
      trials_.add(std::move(config), shape ? shape->bundles : ResourceBundles());
  records_.add(std::move(record));
  const Result<void> added = parts_.scheduler->added(trial, addition_step(trial));
  carry_out_commands();
  own(trial).config = trials_.row(trial).config;
  if (!shape)
    return fail(trial, "resources",
                fmt::format("trial {}: resources_per_trial: {}", trial, shape.error().text), false);
  if (!added) return fail(trial, "scheduler", added.error().text, false);
  changed(trial);
}

// The scheduler does not learn the trial.
void ExperimentCore::create_reused(Config config, TrialNumber earlier) {
  const TrialNumber trial = trials_.add(config);
  records_.add({.config = std::move(config), .donor = earlier});
  set_last(trial, record(earlier).last);
  note(trial, DecisionNote::Rule::duplicate,
       fmt::format("trial {} has an equal configuration and gave this trial its result", earlier));
  carry_out_commands();
  trials_.set_state(trial, TrialState::terminated);
  records_.ended(trial);
  parts_.searcher->tell(trial, end_of(trial));
  changed(trial);
}

std::optional<TrialNumber> ExperimentCore::choose() {
  ask_for_pending();
  const std::optional<TrialNumber> chosen = parts_.scheduler->choose(scheduler_step());
  carry_out_commands();
  if (!chosen) return std::nullopt;
  const TrialState state = trials_.state(*chosen);
  if (state != TrialState::pending && state != TrialState::paused) return std::nullopt;
  if (state == TrialState::paused) parts_.searcher->resumed(*chosen);
  return chosen;
}

void ExperimentCore::start_in_ready_groups() {
  for (;;) {
    const auto group = groups_.first_common(TrialGroup::Stage::ready);
    if (!group) return;
    const auto trial = choose();
    starved_ = !trial;
    if (!trial) return;
    start(*trial, *group);
  }
}

void ExperimentCore::start(TrialNumber trial, GroupNumber number) {
  if (is_finished(trials_.state(trial))) return remove_group(number);
  TrialGroup& group = *groups_.find(number);
  group.stage = TrialGroup::Stage::busy;
  group.trial = trial;
  TrialRecord& record = own(trial);
  TrialRow& row = trials_.row(trial);
  trials_.set_state(trial, TrialState::running);
  record.group = number;
  record.calls = 0;
  ++record.attempt;
  StartTrial command{.trial = trial,
                     .attempt = record.attempt,
                     .group = number,
                     .config = row.config,
                     .seed = seed_of(trial)};
  row.iteration = 0;
  if (const CheckpointRow* checkpoint = checkpoints_.find(row.checkpoint)) {
    command.checkpoint = checkpoint->directory;
    command.iteration = row.iteration = checkpoint->iteration;
    command.time_total_s = checkpoint->time_total_s;
  }
  out_->push_back(std::move(command));
  changed(trial);
}

GroupNumber ExperimentCore::make_group(const GroupShape& shape, std::optional<TrialNumber> trial) {
  const GroupNumber group = groups_.add(shape, trial);
  out_->push_back(MakeGroup{group, shape});
  return group;
}

void ExperimentCore::remove_group(GroupNumber group) {
  groups_.erase(group);
  out_->push_back(RemoveGroup{group});
}

void ExperimentCore::request_common_groups() {
  using Stage = TrialGroup::Stage;
  const auto in_use = static_cast<std::int64_t>(groups_.in_use());
  auto requested = static_cast<std::int64_t>(groups_.count(Stage::requested));
  auto ready = static_cast<std::int64_t>(groups_.count(Stage::ready));
  auto wanted = static_cast<std::int64_t>(trials_.count(TrialState::pending) +
                                          trials_.count(TrialState::paused));
  if (!search_finished()) {
    const auto created = static_cast<std::int64_t>(trials_.size());
    // An unlimited search always wants the largest number of requests.
    wanted += settings_.num_trials < 0 ? 1 << 20 : settings_.num_trials - created;
  }
  if (settings_.max_concurrent > 0)
    wanted = std::min(wanted, std::max<std::int64_t>(settings_.max_concurrent - in_use, 0));
  if (starved_) wanted = std::min<std::int64_t>(wanted, 1);
  const std::int64_t most_requested = std::max<std::int64_t>(16, 2 * (in_use + ready));
  while (requested + ready < wanted && requested < most_requested) {
    make_group(*settings_.shape, std::nullopt);
    ++requested;
  }
  for (; requested + ready > wanted && requested > 0; --requested)
    remove_group(*groups_.last_common(Stage::requested));
  for (; ready > wanted; --ready) remove_group(*groups_.last_common(Stage::ready));
}

void ExperimentCore::request_single_groups() {
  using Stage = TrialGroup::Stage;
  for (;;) {
    const auto in_use = static_cast<std::int64_t>(groups_.in_use());
    const auto requested = static_cast<std::int64_t>(groups_.count(Stage::requested));
    if (settings_.max_concurrent > 0 && in_use + requested >= settings_.max_concurrent) return;
    if (requested >= std::max<std::int64_t>(16, 2 * in_use)) return;
    const auto trial = choose();
    starved_ = !trial;
    if (!trial) return;
    trials_.set_state(*trial, TrialState::running);
    own(*trial).group = make_group(shape_of(*trial), trial);
    changed(*trial);
  }
}

GroupShape ExperimentCore::shape_of(TrialNumber trial) const {
  return {trials_.row(trial).resources, record(trial).strategy};
}

void ExperimentCore::end_if_done() {
  using Stage = TrialGroup::Stage;
  const bool idle = groups_.in_use() == 0;
  const bool live = trials_.has(TrialState::pending) || trials_.has(TrialState::running) ||
                    trials_.has(TrialState::pausing) || trials_.has(TrialState::paused);
  if (is_stuck()) {
    if (!search_finished())
      search_error_ = "searcher: no suggestion while no trial runs; the experiment ends";
    stop_all(live ? "neither the scheduler nor the searcher had a trial to start" : "");
    return end_if_done();
  }
  if (live || !search_finished() || !idle) return;
  while (const auto group = groups_.last_common(Stage::requested)) remove_group(*group);
  while (const auto group = groups_.last_common(Stage::ready)) remove_group(*group);
  ended_ = true;
  out_->push_back(ExperimentEnded{});
}

}  // namespace mobula::internal::tune
