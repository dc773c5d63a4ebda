// Checks the decisions of the core of an experiment: the invariants that need no cluster.
// Thread: owner. Not: groups and processes (ExperimentWorld).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tune/core/experiment/experiment_core.h"

namespace mobula::internal::tune {

class ExperimentChecker {
 public:
  explicit ExperimentChecker(std::vector<std::string>& faults) : faults_(faults) {}

  // After a step, before its commands are carried out.
  void stepped(const ExperimentCore& core, const std::vector<ExperimentCommand>& commands);
  // The searcher of the present core got the end of a trial.
  void trial_ended(TrialNumber trial) { ++tells_[trial]; }
  // A new core repeats the calls of the stored events.
  void resumes(std::map<TrialNumber, int> tells) { tells_ = std::move(tells); }
  const std::map<TrialNumber, int>& tells() const { return tells_; }
  void ended(const ExperimentCore& core);

 private:
  void follow_checkpoints(const ExperimentCore& core, const ExperimentCommand& command);
  void check_start(const StartTrial& started);
  void check_states(const ExperimentCore& core, const std::set<TrialNumber>& warned);
  void add(std::string text) { faults_.push_back(std::move(text)); }

  std::vector<std::string>& faults_;
  std::vector<TrialState> states_;
  std::map<TrialNumber, int> tells_;
  std::map<TrialNumber, std::int64_t> attempts_;
  std::map<TrialNumber, std::string> newest_;     // checkpoints by trial
  std::map<std::string, TrialNumber> owners_;     // trials by checkpoint
  std::map<TrialNumber, TrialNumber> exploited_;  // donors of trials without a later checkpoint
  std::map<TrialNumber, std::set<TrialNumber>> sources_;   // donors, and their donors
  std::map<TrialNumber, DecisionNote::Outcome> outcomes_;  // by trial
};

}  // namespace mobula::internal::tune
