// Decisions as records: a fingerprint of the commands of one step for the stored log, and the
// replay of a log that compares them. Numbers count with the precision of `float`, because the last
// bits of mathematical functions differ between machines.
// Thread: owner (the core of one experiment).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tune/core/experiment/experiment_core.h"

namespace mobula::internal::tune {

// Fingerprint of the commands and of the states of the trials that they name; never 0.
std::uint64_t decision_digest(const ExperimentCore& core,
                              const std::vector<ExperimentCommand>& commands);
// "start trial 3, attempt 1, in group 2; continue trial 1", or "none".
std::string decision_text(const std::vector<ExperimentCommand>& commands);

// Steps the events of a log, and compares the decisions with the recorded ones.
class DecisionReplay {
 public:
  struct Difference {
    std::int64_t event = 0;  // from 1
    TrialNumber trial = -1;
    std::string decisions = {};  // decisions of the replay
  };

  // `after`: number of the event before the first step.
  explicit DecisionReplay(ExperimentCore& core, std::int64_t after = 0)
      : core_(core), events_(after) {}

  void step(const TimedEvent& event);

  // The decisions of the latest step.
  const std::vector<ExperimentCommand>& commands() const { return commands_; }
  // Number of the last event.
  std::int64_t events() const { return events_; }
  // Events whose decisions were recorded.
  std::int64_t compared() const { return compared_; }
  std::int64_t differing() const { return differing_; }
  // The first of them, at most 10.
  const std::vector<Difference>& differences() const { return differences_; }

 private:
  ExperimentCore& core_;
  std::int64_t events_;
  std::vector<ExperimentCommand> commands_;
  std::int64_t compared_ = 0, differing_ = 0;
  std::vector<Difference> differences_;
};

}  // namespace mobula::internal::tune
