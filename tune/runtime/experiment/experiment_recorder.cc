#include "tune/runtime/experiment/experiment_recorder.h"

#include <utility>
#include <variant>

#include "tune/core/state_archive.h"

namespace mobula::internal::tune {
namespace {

// Snapshots take at most a twentieth of the time of the core.
constexpr int least_ratio = 20;
constexpr std::size_t most_nodes = 256;
// A slow or full disk gets no further snapshots.
constexpr std::size_t most_waiting_bytes = 32u << 20;

}  // namespace

Result<void> load_snapshot(const StoredSnapshot& snapshot, ExperimentCore& core) {
  const auto loaded = ExperimentRecorder::load(snapshot, core);
  if (!loaded) return loaded.error();
  return {};
}

Result<ExperimentRecorder::State> ExperimentRecorder::load(const StoredSnapshot& snapshot,
                                                           ExperimentCore& core) {
  State state;
  std::string bytes;
  StateReader reader(snapshot.core);
  reader(state, bytes);
  if (!reader.finished())
    return failure(ErrorCode::corrupt, "load snapshot " + std::to_string(snapshot.number) +
                                           ": malformed bytes; restore the file from a backup");
  if (Result<void> loaded = core.load(bytes, snapshot.searcher); !loaded) return loaded.error();
  return state;
}

ExperimentRecorder::ExperimentRecorder(ExperimentCore& core, ExperimentLog& log,
                                       std::int64_t created_ms, const SnapshotRule& rule,
                                       ExperimentClock clock)
    : core_(core), log_(log), created_ms_(created_ms), rule_(rule), clock_(std::move(clock)) {}

Result<DecisionReplay> ExperimentRecorder::restore(const std::vector<StoredSnapshot>& snapshots) {
  EventNumber after = 0;
  if (!snapshots.empty()) {
    Result<State> loaded = load(snapshots.front(), core_);
    if (!loaded) return loaded.error();
    state_ = std::move(*loaded);
    after = snapshots.front().number;
  }
  DecisionReplay replayed(core_, after);
  const auto done = log_.replay(after, [&](const TimedEvent& event) {
    replayed.step(event);
    note_exploits(replayed.commands());
    note_created(created_ms_ + static_cast<std::int64_t>(event.now_s * 1000));
    // The first release stored no outcomes.
    if (after == 0)
      for (const ExperimentCommand& command : replayed.commands())
        if (const auto* changed = std::get_if<TrialChanged>(&command)) add_outcome(changed->trial);
    state_.last_s = event.now_s;
    ++events_;
  });
  if (!done) return done.error();
  return replayed;
}

void ExperimentRecorder::decide(double now_s, const ExperimentEvent& event,
                                std::vector<ExperimentCommand>& commands) {
  const auto began = Clock::now();
  core_.step(now_s, event, commands);
  busy_ += Clock::now() - began;
}

void ExperimentRecorder::record(double now_s, const ExperimentEvent& event,
                                const std::vector<ExperimentCommand>& commands) {
  state_.last_s = now_s;
  log_.append(now_s, event, decision_digest(core_, commands));
  note_created(clock_.wall_ms());
  note_exploits(commands);
  if (const auto* report = std::get_if<TrialReported>(&event)) add_report(*report);
  for (const ExperimentCommand& command : commands) add_changes(command);
  add_decisions(commands);
  ++events_;
  if (events_ >= rule_.events || (busy_ >= rule_.busy && busy_ >= least_ratio * snapshot_cost_))
    add_snapshot();
}

// Records the time of trials that the last event created.
void ExperimentRecorder::note_created(std::int64_t at_ms) {
  for (; state_.next_trial < static_cast<TrialNumber>(core_.trials().size()); ++state_.next_trial)
    state_.created_ms[state_.next_trial] = at_ms;
}

void ExperimentRecorder::note_exploits(const std::vector<ExperimentCommand>& commands) {
  for (const ExperimentCommand& command : commands)
    if (const auto* exploited = std::get_if<TrialExploited>(&command))
      state_.exploits.push_back(*exploited);
}

void ExperimentRecorder::add_report(const TrialReported& report) {
  StoredReport row{
      .trial = report.trial, .attempt = report.attempt, .step = 0, .time_ms = clock_.wall_ms()};
  for (const auto& [name, value] : report.metrics) {
    if (name == "training_iteration") row.step = value.integer();
    row.metrics.emplace_back(name, value);
  }
  log_.add(std::move(row));
}

void ExperimentRecorder::add_changes(const ExperimentCommand& command) {
  if (const auto* changed = std::get_if<TrialChanged>(&command)) {
    add_trial(changed->trial);
  } else if (const auto* start = std::get_if<StartTrial>(&command)) {
    log_.add(StoredAttempt{
        .trial = start->trial, .number = start->attempt, .began_ms = clock_.wall_ms()});
  } else if (const auto* added = std::get_if<CheckpointAdded>(&command)) {
    if (const CheckpointRow* row = core_.checkpoint(added->checkpoint))
      log_.add(StoredCheckpoint{.number = added->checkpoint,
                                .trial = row->trial,
                                .attempt = row->attempt,
                                .step = row->iteration,
                                .directory = row->directory,
                                .score = row->score});
  } else if (const auto* deleted = std::get_if<DeleteCheckpoint>(&command)) {
    log_.add(EraseCheckpoint{deleted->checkpoint});
  }
}

void ExperimentRecorder::add_decisions(const std::vector<ExperimentCommand>& commands) {
  std::int64_t part = 0;
  for (const ExperimentCommand& command : commands)
    if (const auto* decided = std::get_if<TrialDecided>(&command))
      log_.add(StoredDecision{log_.last_event(), part++, decided->attempt, decided->iteration,
                              decided->note});
}

void ExperimentRecorder::add_trial(TrialNumber trial) {
  const TrialRecord& record = core_.record(trial);
  StoredTrial row{.trial = trial,
                  .state = core_.shown_state(trial),
                  .config = record.config,
                  .seed = core_.seed_of(trial),
                  .parent = record.donor,
                  .attempts = record.attempt};
  if (const auto created = state_.created_ms.find(trial); created != state_.created_ms.end())
    row.created_ms = created->second;
  if (const auto node = nodes_.find(trial); node != nodes_.end()) row.node = node->second;
  const bool finished = is_finished(row.state);
  if (finished) row.ended_ms = clock_.wall_ms();
  if (row.state == TrialState::failed) {
    row.error_kind = record.error_kind;
    row.error = record.error;
  }
  log_.add(std::move(row));
  if (!finished) return;
  add_outcome(trial);
  state_.created_ms.erase(trial);
  if (nodes_.size() > most_nodes + 2 * core_.live_trials())
    std::erase_if(nodes_, [&](const auto& each) { return !core_.has_record(each.first); });
}

void ExperimentRecorder::add_outcome(TrialNumber trial) {
  if (!is_finished(core_.trials().state(trial))) return;
  const TrialRecord& record = core_.record(trial);
  const TrialOutcome outcome{record.last, record.warnings, record.checkpoint};
  log_.add(StoredOutcome{trial, save_state(outcome)});
}

void ExperimentRecorder::add_snapshot() {
  events_ = 0;
  busy_ = Clock::duration(0);
  if (log_.waiting_bytes() > most_waiting_bytes) return;
  const auto began = Clock::now();
  auto saved = core_.save();
  if (!saved) return;
  StateWriter writer;
  writer(state_, saved->core);
  log_.add(StoredSnapshot{
      .number = log_.last_event(), .core = writer.take(), .searcher = std::move(saved->searcher)});
  snapshot_cost_ = Clock::now() - began;
}

}  // namespace mobula::internal::tune
