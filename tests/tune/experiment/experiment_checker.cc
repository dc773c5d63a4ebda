#include "tune/experiment/experiment_checker.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

namespace mobula::internal::tune {

void ExperimentChecker::stepped(const ExperimentCore& core,
                                const std::vector<ExperimentCommand>& commands) {
  std::set<TrialNumber> warned;
  for (const ExperimentCommand& command : commands) {
    follow_checkpoints(core, command);
    if (const auto* warning = std::get_if<TrialWarning>(&command))
      if (warning->text.find("paused without a checkpoint") != std::string::npos)
        warned.insert(warning->trial);
    if (const auto* started = std::get_if<StartTrial>(&command)) check_start(*started);
    if (const auto* decided = std::get_if<TrialDecided>(&command))
      outcomes_[decided->note.trial] = decided->note.outcome;
  }
  check_states(core, warned);
}

void ExperimentChecker::follow_checkpoints(const ExperimentCore& core,
                                           const ExperimentCommand& command) {
  if (const auto* added = std::get_if<CheckpointAdded>(&command)) {
    const CheckpointRow* row = core.checkpoint(added->checkpoint);
    if (row == nullptr) return;
    newest_[row->trial] = row->directory;
    owners_[row->directory] = row->trial;
    exploited_.erase(row->trial);
  } else if (const auto* exploit = std::get_if<TrialExploited>(&command)) {
    const auto state = static_cast<std::size_t>(exploit->donor);
    if (state < states_.size() && is_finished(states_[state]))
      add(fmt::format("trial {} exploits the finished trial {}", exploit->trial, exploit->donor));
    exploited_[exploit->trial] = exploit->donor;
    // The donor may itself continue from a checkpoint of its donor.
    std::set<TrialNumber> sources = sources_[exploit->donor];
    sources.insert(exploit->donor);
    sources_[exploit->trial] = std::move(sources);
  }
}

void ExperimentChecker::check_start(const StartTrial& started) {
  const TrialNumber trial = started.trial;
  if (static_cast<std::size_t>(trial) < states_.size() &&
      is_finished(states_[static_cast<std::size_t>(trial)]))
    add(fmt::format("trial {} starts after its end", trial));
  if (started.attempt != ++attempts_[trial])
    add(fmt::format("trial {}: attempt {} follows attempt {}", trial, started.attempt,
                    attempts_[trial] - 1));
  const auto exploit = exploited_.find(trial);
  if (exploit == exploited_.end()) {
    if (started.checkpoint != newest_[trial])
      add(fmt::format("trial {} continues from '{}' instead of '{}'", trial, started.checkpoint,
                      newest_[trial]));
    return;
  }
  const auto owner = owners_.find(started.checkpoint);
  if (owner == owners_.end() || !sources_[trial].contains(owner->second))
    add(fmt::format("trial {} exploits trial {}, and continues from '{}'", trial, exploit->second,
                    started.checkpoint));
}

void ExperimentChecker::check_states(const ExperimentCore& core,
                                     const std::set<TrialNumber>& warned) {
  states_.resize(core.trials().size(), TrialState::pending);
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const auto trial = static_cast<TrialNumber>(i);
    const TrialState before = std::exchange(states_[i], core.trials().state(trial));
    if (before == states_[i]) continue;
    if (is_finished(before)) add(fmt::format("trial {} ends twice", trial));
    if (states_[i] == TrialState::paused && core.trials().row(trial).checkpoint == 0 &&
        !warned.contains(trial))
      add(fmt::format("trial {} is paused without a checkpoint and without a warning", trial));
  }
}

void ExperimentChecker::ended(const ExperimentCore& core) {
  for (TrialNumber trial = 0; trial < static_cast<TrialNumber>(core.trials().size()); ++trial) {
    if (tells_[trial] != 1)
      add(fmt::format("the searcher learned {} ends of trial {}", tells_[trial], trial));
    // A trial of the world ends by itself with its ninth report.
    if (core.trials().state(trial) != TrialState::terminated ||
        core.trials().row(trial).iteration >= 9)
      continue;
    const DecisionNote::Outcome last = outcomes_[trial];
    if (last != DecisionNote::Outcome::stopped && last != DecisionNote::Outcome::paused)
      add(fmt::format("trial {} is stopped without a reason", trial));
  }
}

}  // namespace mobula::internal::tune
