#include "tune/core/experiment/experiment_core.h"

#include <fmt/format.h>

#include <cmath>
#include <set>
#include <utility>
#include <variant>

namespace mobula::internal::tune {
namespace {

std::optional<double> number_of(const Config& metrics, std::string_view name) {
  const Value* value = metrics.find(name);
  if (value == nullptr || value->is_text()) return std::nullopt;
  return value->number();
}

std::string names_of(const Config& metrics) {
  std::string names;
  for (const auto& [name, value] : metrics) names += (names.empty() ? "" : ", ") + name;
  return names;
}

constexpr const char* stopper_reason = "the time budget or a stopper ended the experiment";

bool is_answer(const ExperimentEvent& event) {
  return std::holds_alternative<TrialSaved>(event) || std::holds_alternative<TrialExited>(event);
}

}  // namespace

ExperimentCore::ExperimentCore(ExperimentSettings settings, ExperimentParts parts)
    : settings_(std::move(settings)),
      parts_(std::move(parts)),
      records_(settings_.mode),
      checkpoints_(settings_.checkpoints),
      random_{NumpyRandom(counter_stream(settings_.seed, -1, StreamPurpose::exploit)),
              PythonRandom(counter_stream(~settings_.seed, -1, StreamPurpose::exploit))} {
  trials_.keep_notes();
}

std::uint64_t ExperimentCore::seed_of(TrialNumber trial) const {
  MersenneTwister stream = counter_stream(settings_.seed, trial, StreamPurpose::trial_seed);
  const std::uint64_t high = stream.next();
  return high << 32 | stream.next();
}

bool ExperimentCore::search_finished() const {
  return searched_ || stopping_ ||
         (settings_.num_trials >= 0 &&
          static_cast<std::int64_t>(trials_.size()) >= settings_.num_trials);
}

// A stream per addition, so that the order of events does not change the bracket of a trial.
SchedulerStep ExperimentCore::addition_step(TrialNumber trial) {
  const auto call = static_cast<std::uint64_t>(own(trial).additions++);
  const std::uint64_t seed = settings_.seed + call * 0x9e3779b97f4a7c15ULL;
  addition_random_.numpy = NumpyRandom(counter_stream(seed, trial, StreamPurpose::bracket));
  addition_random_.python = PythonRandom(counter_stream(~seed, trial, StreamPurpose::bracket));
  return {trials_, addition_random_};
}

void ExperimentCore::step(double now_s, const ExperimentEvent& event,
                          std::vector<ExperimentCommand>& out) {
  now_s_ = now_s;
  out_ = &out;
  records_.forget_ended();
  // The events before a start are events of earlier processes, which answer no request.
  if (started_ && std::holds_alternative<ExperimentStarted>(event)) end_saves();
  if (parts_.scheduler->waits_for_checkpoint() && !is_answer(event)) {
    deferred_.push_back(event);
  } else {
    handle(event);
  }
  handle_deferred();
  advance();
}

void ExperimentCore::handle_deferred() {
  while (!deferred_.empty() && !parts_.scheduler->waits_for_checkpoint()) {
    const ExperimentEvent next = std::move(deferred_.front());
    deferred_.pop_front();
    handle(next);
  }
}

// Ends all requested saves without a checkpoint. A deferred event may request the next one.
void ExperimentCore::end_saves() {
  for (bool found = true; found;) {
    found = false;
    for (const TrialState state : {TrialState::pausing, TrialState::running})
      for (const TrialNumber trial : trials_.all(state)) {
        if (!std::exchange(own(trial).saving, false)) continue;
        found = true;
        finish_save(trial, 0);
      }
    handle_deferred();
  }
}

void ExperimentCore::handle(const ExperimentEvent& event) {
  std::visit([this](const auto& each) { on(each); }, event);
}

// ---- events

void ExperimentCore::on(const ExperimentStarted& /*event*/) {
  if (started_) {
    // Groups and processes ended with the earlier job.
    parts_.stopper->resumed();
    for (const TrialState state : {TrialState::pausing, TrialState::running})
      for (const TrialNumber trial : trials_.all(state)) {
        own(trial).group = 0;
        if (trials_.state(trial) == TrialState::pausing) finish_save(trial, 0);
        if (trials_.state(trial) != TrialState::running) continue;
        trials_.set_state(trial, TrialState::pending);
        changed(trial);
      }
    groups_.clear();
    starved_ = false;
  }
  started_ = true;
}

void ExperimentCore::on(const GroupReady& event) {
  TrialGroup* group = groups_.find(event.group);
  if (group == nullptr || group->stage != TrialGroup::Stage::requested) return;
  group->stage = TrialGroup::Stage::ready;
  if (group->trial) start(*group->trial, event.group);
}

void ExperimentCore::on(const GroupFailed& event) {
  const TrialGroup* group = groups_.find(event.group);
  if (group == nullptr) return;
  std::optional<TrialNumber> trial = group->trial;
  groups_.erase(event.group);
  if (!trial) {
    ask_for_pending();
    trial = trials_.first(TrialState::pending);
    if (!trial) trial = trials_.first(TrialState::paused);
  }
  if (!trial || is_finished(trials_.state(*trial))) return;
  own(*trial).group = 0;
  fail(*trial, "resources", fmt::format("trial {}: resources_per_trial: {}", *trial, event.why),
       false);
}

void ExperimentCore::on(const GroupReleased& event) {
  TrialGroup* group = groups_.find(event.group);
  if (group == nullptr) return;
  if (group->stage != TrialGroup::Stage::draining) return;
  if (!settings_.shape || stopping_ || group->lost) return remove_group(event.group);
  group->stage = TrialGroup::Stage::ready;
  group->trial.reset();
}

void ExperimentCore::on(const TrialReported& event) {
  if (!is_current(event.trial, event.attempt)) return;
  TrialRecord& record = own(event.trial);
  TrialRow& row = trials_.row(event.trial);
  set_last(event.trial, event.metrics);
  ++record.calls;
  row.iteration =
      static_cast<std::int64_t>(number_of(event.metrics, "training_iteration").value_or(0));
  if (!event.checkpoint.empty()) row.checkpoint = add_checkpoint(event.trial, event.checkpoint);
  if (const auto fault = fault_of_report(event.trial))
    return fail(event.trial, "report", *fault, false);
  if (record.attempt == 1 && record.calls == 1) warn_of_missing_metrics(event.trial);
  decide(event.trial);
  prune_checkpoints(event.trial);
  if (!stopping_ && parts_.stopper->stops_all(now_s_)) stop_all(stopper_reason);
}

void ExperimentCore::on(const TrialSaved& event) {
  if (!is_current(event.trial, event.attempt)) return;
  own(event.trial).saving = false;
  CheckpointNumber number = 0;
  if (!event.checkpoint.empty()) {
    number = add_checkpoint(event.trial, event.checkpoint);
    trials_.row(event.trial).checkpoint = number;
  }
  finish_save(event.trial, number);
  prune_checkpoints(event.trial);
}

void ExperimentCore::on(const TrialExited& event) {
  if (!is_current(event.trial, event.attempt)) return;
  TrialRecord& record = own(event.trial);
  if (std::exchange(record.saving, false)) {
    finish_save(event.trial, 0);
    if (!is_current(event.trial, event.attempt)) return;
  }
  if (event.kind == TrialExitKind::returned || event.kind == TrialExitKind::stopped) {
    if (record.last.empty())
      return fail(event.trial, "report",
                  fmt::format("trial {}: the function returned without a report; call "
                              "tune::report, or return tune::Metrics",
                              event.trial),
                  false);
    // Ray passes the last report to the stoppers once more.
    static_cast<void>(parts_.stopper->stops(event.trial, record.last));
    return complete(event.trial);
  }
  if (event.kind == TrialExitKind::node_lost)
    if (TrialGroup* group = groups_.find(record.group)) group->lost = true;
  fail(event.trial, name_of(event.kind), fmt::format("trial {}: {}", event.trial, event.why), true);
}

void ExperimentCore::on(const StopRequested& event) {
  if (event.trial < 0) return stop_all("the user stopped the experiment");
  if (event.trial >= static_cast<TrialNumber>(trials_.size())) return;
  switch (trials_.state(event.trial)) {
    case TrialState::pausing:
    case TrialState::running:
      note(event.trial, DecisionNote::Rule::request, "the user stopped the trial");
      return complete(event.trial);
    case TrialState::pending:
    case TrialState::paused:
      note(event.trial, DecisionNote::Rule::request, "the user stopped the trial");
      return remove(event.trial);
    default: return;
  }
}

void ExperimentCore::on(const ClockTicked& /*event*/) {
  if (started_ && !stopping_ && parts_.stopper->stops_all(now_s_)) stop_all(stopper_reason);
}

// ---- reports and decisions

std::optional<std::string> ExperimentCore::fault_of_report(TrialNumber trial) {
  std::optional<std::string> fault;
  if (!settings_.metric.empty()) fault = fault_of_metric(trial, settings_.metric);
  for (const auto* names : {&settings_.objectives, &settings_.constraints})
    for (const std::string& name : *names)
      if (!fault) fault = fault_of_metric(trial, name);
  return fault;
}

std::optional<std::string> ExperimentCore::fault_of_metric(TrialNumber trial,
                                                           const std::string& name) {
  TrialRecord& record = own(trial);
  const Value* value = record.last.find(name);
  if (value == nullptr)
    return fmt::format("trial {}: report {}: metric '{}' is missing; the report has: {}", trial,
                       record.calls, name, names_of(record.last));
  if (value->is_text())
    return fmt::format("trial {}: report {}: metric '{}' is the text {}; report a number", trial,
                       record.calls, name, to_string(*value));
  if (std::isnan(value->number()) && !std::exchange(record.has_nan, true))
    warn(trial, fmt::format("trial {}: report {}: metric '{}' is NaN; the searcher ignores the "
                            "trial, and best() skips it",
                            trial, record.calls, name));
  return std::nullopt;
}

// Metrics that a rule uses, and without which it decides nothing.
void ExperimentCore::warn_of_missing_metrics(TrialNumber trial) {
  const Config& last = record(trial).last;
  if (last.find(settings_.time_attr) == nullptr)
    warn(trial, fmt::format("trial {}: report 1: time_attr '{}' is missing, so the scheduler does "
                            "not decide; the report has: {}",
                            trial, settings_.time_attr, names_of(last)));
  const std::string& score = settings_.checkpoints.score_attribute;
  if (!score.empty() && last.find(score) == nullptr)
    warn(trial, fmt::format("trial {}: report 1: score_attribute '{}' is missing, so checkpoints "
                            "have no score; the report has: {}",
                            trial, score, names_of(last)));
}

void ExperimentCore::warn(TrialNumber trial, std::string text) {
  own(trial).warnings.push_back(text);
  out_->push_back(TrialWarning{trial, std::move(text)});
}

// A class ends with this report; its scheduler must not pause it.
bool ExperimentCore::is_done(TrialNumber trial) const {
  const Value* done = record(trial).last.find("done");
  return settings_.saves_on_request && done != nullptr && *done == Value(true);
}

Report ExperimentCore::report_of(TrialNumber trial) const {
  const Config& last = record(trial).last;
  return {.trial = trial,
          .time = number_of(last, settings_.time_attr),
          .value = number_of(last, settings_.metric)};
}

TrialEnd ExperimentCore::end_of(TrialNumber trial) const {
  const Config& last = record(trial).last;
  TrialEnd end;
  bool valid = true;
  const auto take = [&](const std::string& name) {
    const auto number = number_of(last, name);
    valid = valid && number && !std::isnan(*number);
    return number.value_or(0);
  };
  if (settings_.objectives.empty()) {
    end.value = number_of(last, settings_.metric);
    valid = !end.value || !std::isnan(*end.value);
  }
  for (const std::string& name : settings_.objectives) end.values.push_back(take(name));
  for (const std::string& name : settings_.constraints) end.constraints.push_back(take(name));
  if (!valid) end = {.state = EndState::failed};
  return end;
}

void ExperimentCore::decide(TrialNumber trial) {
  const Result<bool> stops = parts_.stopper->stops(trial, own(trial).last);
  if (!stops) return fail(trial, "report", stops.error().text, false);
  if (*stops || is_done(trial)) {
    note(trial, DecisionNote::Rule::stopper,
         *stops ? parts_.stopper->reason() : "the class reported the metric done");
    return complete(trial);
  }
  const Report report = report_of(trial);
  const Result<Decision> decision = parts_.scheduler->reported(report, scheduler_step());
  if (!decision) {
    carry_out_commands();
    return fail(trial, "report", decision.error().text, false);
  }
  // The searcher learns the last report of a stopped trial with its end.
  if (*decision != Decision::stop && report.value && !std::isnan(*report.value)) {
    parts_.searcher->report(trial, static_cast<double>(trials_.row(trial).iteration),
                            *report.value);
    if (parts_.budgets != nullptr)
      if (const auto budget = parts_.budgets->budget_of_report(trial))
        parts_.searcher->budget_reached(trial, *budget, *report.value);
  }
  carry_out_commands();
  apply(trial, *decision);
}

void ExperimentCore::apply(TrialNumber trial, Decision decision) {
  switch (decision) {
    case Decision::proceed: return out_->push_back(ContinueTrial{trial});
    case Decision::pause: return pause(trial);
    case Decision::stop: return complete(trial);
    case Decision::none:
      // A trial that saves first is detached with its answer.
      if (trials_.state(trial) != TrialState::pausing) detach(trial);
      return changed(trial);
    case Decision::wait: return;
  }
}

void ExperimentCore::pause(TrialNumber trial) {
  trials_.set_state(trial, TrialState::pausing);
  if (!settings_.saves_on_request) return finish_save(trial, trials_.row(trial).checkpoint);
  own(trial).saving = true;
  out_->push_back(SaveCheckpoint{trial});
}

void ExperimentCore::finish_save(TrialNumber trial, CheckpointNumber checkpoint) {
  const Result<std::optional<TrialDecision>> decided =
      parts_.scheduler->saved(trial, checkpoint, scheduler_step());
  if (trials_.state(trial) == TrialState::pausing) {
    trials_.set_state(trial, TrialState::paused);
    if (trials_.row(trial).checkpoint == 0)
      out_->push_back(TrialWarning{
          trial, fmt::format("trial {}: paused without a checkpoint; it restarts from the "
                             "beginning. Pass .checkpoint to tune::report",
                             trial)});
    detach(trial);
    changed(trial);
    if (parts_.scheduler->pauses_for_good()) parts_.searcher->paused(trial);
  }
  carry_out_commands();
  if (!decided) return;
  if (const auto& decision = *decided) apply(decision->trial, decision->decision);
}

void ExperimentCore::note(TrialNumber trial, DecisionNote::Rule rule, std::string words) {
  const Report last = report_of(trial);
  DecisionNote note{.trial = trial,
                    .rule = rule,
                    .outcome = DecisionNote::Outcome::stopped,
                    .milestone = last.time,
                    .value = last.value};
  note.set_words(std::move(words));
  trials_.note(std::move(note));
}

void ExperimentCore::carry_out_commands() {
  for (DecisionNote& note : trials_.take_notes()) {
    const TrialNumber trial = note.trial;
    if (note.outcome == DecisionNote::Outcome::exploited) {
      // The command that replaces the configuration of the record follows.
      for (const auto& [name, value] : trials_.row(trial).config) {
        const Value* before = own(trial).config.find(name);
        if (before != nullptr && *before == value) continue;
        if (before != nullptr) note.before.set(name, *before);
        note.after.set(name, value);
      }
    }
    out_->push_back(
        TrialDecided{own(trial).attempt, trials_.row(trial).iteration, std::move(note)});
  }
  for (const TrialCommand& command : trials_.take_commands())
    std::visit([this](const auto& each) { carry_out(TrialCommand(each)); }, command);
}

void ExperimentCore::carry_out(const TrialCommand& command) {
  if (const auto* stop = std::get_if<StopTrial>(&command)) {
    // The scheduler has removed the trial itself.
    detach(stop->trial);
    parts_.searcher->tell(stop->trial, {});
    finish(stop->trial);
    changed(stop->trial);
  } else if (const auto* save = std::get_if<SaveTrial>(&command)) {
    if (!settings_.saves_on_request)
      return finish_save(save->trial, trials_.row(save->trial).checkpoint);
    own(save->trial).saving = true;
    out_->push_back(SaveCheckpoint{save->trial});
  } else if (const auto* exploit = std::get_if<ExploitTrial>(&command)) {
    TrialRecord& record = own(exploit->trial);
    record.config = exploit->config;
    record.donor = exploit->donor;
    detach(exploit->trial);
    changed(exploit->trial);
    out_->push_back(TrialExploited{.trial = exploit->trial,
                                   .donor = exploit->donor,
                                   .iteration = exploit->iteration,
                                   .donor_iteration = exploit->donor_iteration,
                                   .donor_config = exploit->donor_config,
                                   .config = exploit->config});
  } else if (const auto* reconfigure = std::get_if<ReconfigureTrial>(&command)) {
    own(reconfigure->trial).config = reconfigure->config;
    if (settings_.saves_on_request) return pause(reconfigure->trial);
    detach(reconfigure->trial);
    changed(reconfigure->trial);
  } else if (const auto* paused = std::get_if<NotifyPaused>(&command)) {
    parts_.searcher->paused(paused->trial);
  } else if (const auto* resumed = std::get_if<NotifyResumed>(&command)) {
    parts_.searcher->resumed(resumed->trial);
  } else if (const auto* change = std::get_if<ChangeResources>(&command)) {
    trials_.row(change->trial).resources = change->resources;
  }
}

CheckpointNumber ExperimentCore::add_checkpoint(TrialNumber trial, const std::string& directory) {
  TrialRecord& record = own(trial);
  CheckpointRow row{.trial = trial,
                    .attempt = record.attempt,
                    .iteration = trials_.row(trial).iteration,
                    .time_total_s = number_of(record.last, "time_total_s").value_or(0),
                    .directory = directory};
  if (!checkpoints_.score_attribute().empty())
    row.score = number_of(record.last, checkpoints_.score_attribute());
  record.checkpoint = directory;
  const CheckpointNumber number = checkpoints_.add(std::move(row));
  out_->push_back(CheckpointAdded{number});
  return number;
}

void ExperimentCore::prune_checkpoints(TrialNumber trial) {
  if (!settings_.checkpoints.num_to_keep) return;
  std::vector<CheckpointNumber> held;
  parts_.scheduler->checkpoints_in_use(held);
  std::set<CheckpointNumber> in_use(held.begin(), held.end());
  for (const TrialNumber each : trials_.list()) in_use.insert(trials_.row(each).checkpoint);
  for (const auto& [number, directory] : checkpoints_.prune(trial, in_use))
    out_->push_back(DeleteCheckpoint{number, directory});
}

}  // namespace mobula::internal::tune
