// The trials of one experiment as schedulers see them, and the commands that schedulers give for
// trials other than the one that reported. The driver applies states and results; it carries out
// the commands in order.
// Thread: owner (the core of one experiment).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tune/core/space/config.h"

namespace mobula::internal::tune {

// Trials of an experiment are numbered from 0.
using TrialNumber = std::int64_t;
// Checkpoints of an experiment are numbered from 1; 0 is no checkpoint.
using CheckpointNumber = std::int64_t;

enum class TrialState : unsigned char {
  pending,
  running,
  pausing,  // the scheduler paused the trial, and its checkpoint is not saved yet
  paused,
  terminated,
  failed,
};

inline bool is_finished(TrialState state) { return state >= TrialState::terminated; }

// Bundles of resource amounts in 1/10000, by name: the placement group of a trial.
using ResourceBundle = std::vector<std::pair<std::string, std::int64_t>>;
using ResourceBundles = std::vector<ResourceBundle>;

struct TrialRow {
  TrialState state = TrialState::pending;
  std::int64_t position = 0;   // in the list of trials; a retry moves to the end
  std::int64_t iteration = 0;  // iteration of the last applied report
  CheckpointNumber checkpoint = 0;
  Config config = {};  // empty after the end of the trial
  ResourceBundles resources = {};

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.state, self.iteration, self.checkpoint);
    if (!is_finished(self.state)) archive(self.position, self.config, self.resources);
  }
};

// Stops a paused trial.
struct StopTrial {
  TrialNumber trial;
};
// Saves a checkpoint of a running trial. The driver answers with TrialScheduler::saved.
struct SaveTrial {
  TrialNumber trial;
};
// Pauses `trial` without saving it, and gives it the checkpoint and configuration.
struct ExploitTrial {
  TrialNumber trial, donor;
  CheckpointNumber checkpoint;
  std::int64_t iteration, donor_iteration;  // for the policy log
  Config donor_config, config;
};
// Pauses `trial` without saving it, and replaces its configuration (replay of a policy).
struct ReconfigureTrial {
  TrialNumber trial;
  Config config;
};
// Notifies the searcher: paused trials do not count against its limit.
struct NotifyPaused {
  TrialNumber trial;
};
struct NotifyResumed {
  TrialNumber trial;
};
// Replaces the placement group of a trial that is not running.
struct ChangeResources {
  TrialNumber trial;
  ResourceBundles resources;
};
using TrialCommand = std::variant<StopTrial, SaveTrial, ExploitTrial, ReconfigureTrial,
                                  NotifyPaused, NotifyResumed, ChangeResources>;

// A decision about one trial, and the numbers that it compared. No further decision depends on it.
struct DecisionNote {
  enum class Rule : unsigned char {
    rung,        // successive halving without waiting
    halving,     // HyperBand
    median,      // median stopping
    population,  // population based training
    policy,      // replay of a policy
    resources,   // a scheduler that changes the groups of trials
    stopper,     // RunOptions::stop, or the metric "done" of a class
    request,     // a request about this trial
    experiment,  // the end of the whole experiment
    duplicate,   // a configuration that an earlier trial had
  };
  enum class Outcome : unsigned char { continued, paused, promoted, stopped, exploited };

  TrialNumber trial = 0;
  Rule rule = Rule::rung;
  Outcome outcome = Outcome::continued;
  std::optional<std::int64_t> bracket = {};
  std::optional<double> milestone = {};    // the time at which the rule decides; a rung
  std::optional<double> value = {};        // value of the trial, as reported
  std::optional<double> cutoff = {};       // absent: nothing was compared
  std::int64_t compared = 0;               // values behind the cutoff
  std::optional<TrialNumber> donor = {};   // donor of an exploit
  std::optional<double> donor_value = {};  // its value
  // The parameters that an exploit replaced.
  Config before = {}, after = {};

  // The reason in words, from `resources` on; those rules compare no numbers. A text under the
  // name "reason" of `after`.
  std::string words() const {
    const Value* text = after.find("reason");
    return text != nullptr && text->is_text() ? text->text() : std::string();
  }
  void set_words(std::string text) { after.set("reason", Value(std::move(text))); }
};

class TrialTable {
 public:
  // Appends trial number size() as pending.
  TrialNumber add(Config config, ResourceBundles resources = {});
  void set_state(TrialNumber trial, TrialState state);
  // A failed trial is pending again, at the end of the list.
  void retry(TrialNumber trial);
  // The row, to set its iteration, checkpoint, configuration, or resources.
  TrialRow& row(TrialNumber trial) { return rows_[static_cast<std::size_t>(trial)]; }
  const TrialRow& row(TrialNumber trial) const { return rows_[static_cast<std::size_t>(trial)]; }

  TrialState state(TrialNumber trial) const { return row(trial).state; }
  std::size_t size() const { return rows_.size(); }
  // The lists contain live trials alone. A finished trial costs the memory of its row.
  bool has(TrialState state) const { return !by_state_[index(state)].empty(); }
  std::size_t count(TrialState state) const { return by_state_[index(state)].size(); }
  std::size_t live() const {
    std::size_t count = 0;
    for (const auto& positions : by_state_) count += positions.size();
    return count;
  }
  // The first trial with `state` in the order of the list.
  std::optional<TrialNumber> first(TrialState state) const;
  // All trials with `state`, in the order of the list.
  std::vector<TrialNumber> all(TrialState state) const;
  // All live trials in the order of the list.
  std::vector<TrialNumber> list() const;

  void command(TrialCommand command) { commands_.push_back(std::move(command)); }
  // The commands since the last call.
  std::vector<TrialCommand> take_commands() { return std::exchange(commands_, {}); }

  // Notes are dropped unless the driver keeps them; a state contains none.
  void keep_notes() { keeps_notes_ = true; }
  void note(DecisionNote note) {
    if (keeps_notes_) notes_.push_back(std::move(note));
  }
  // The notes since the last call.
  std::vector<DecisionNote> take_notes() { return std::exchange(notes_, {}); }

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.rows_, self.next_position_);
    if constexpr (!std::is_const_v<Self>) self.index_rows();
  }

 private:
  static constexpr std::size_t live_states = 4;
  static std::size_t index(TrialState state) { return static_cast<std::size_t>(state); }
  void enlist(TrialNumber trial);
  void delist(TrialNumber trial);
  void index_rows();

  using Position = std::pair<std::int64_t, TrialNumber>;  // position, trial
  std::deque<TrialRow> rows_;                             // a deque, because it never moves
  std::array<std::set<Position>, live_states> by_state_;
  std::int64_t next_position_ = 0;
  std::vector<TrialCommand> commands_;
  bool keeps_notes_ = false;
  std::vector<DecisionNote> notes_;
};

}  // namespace mobula::internal::tune
