// The checkpoints of an experiment, and the rule that selects the ones to delete: a checkpoint
// stays while a trial, a scheduler, or num_to_keep refers to it.
// Thread: owner (the core of one experiment).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tune/core/schedulers/trial_scheduler.h"

namespace mobula::internal::tune {

struct CheckpointRules {
  std::optional<int> num_to_keep = {};
  std::string score_attribute = {};
  Mode score_order = Mode::max;
};

struct CheckpointRow {
  TrialNumber trial = 0;
  std::int64_t attempt = 0;
  std::int64_t iteration = 0;
  double time_total_s = 0;
  std::string directory = {};
  std::optional<double> score = {};

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.trial, self.attempt, self.iteration, self.time_total_s, self.directory,
            self.score);
  }
};

class CheckpointTable {
 public:
  explicit CheckpointTable(CheckpointRules rules) : rules_(std::move(rules)) {}

  CheckpointNumber add(CheckpointRow row);
  // The row, or nullptr for a deleted checkpoint.
  const CheckpointRow* find(CheckpointNumber number) const;
  const std::map<CheckpointNumber, CheckpointRow>& rows() const { return rows_; }
  const std::string& score_attribute() const { return rules_.score_attribute; }
  // Removes and returns the checkpoints of `trial` that num_to_keep drops, except `in_use`.
  std::vector<std::pair<CheckpointNumber, std::string>> prune(
      TrialNumber trial, const std::set<CheckpointNumber>& in_use);

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.last_, self.rows_, self.by_trial_);
  }

 private:
  CheckpointRules rules_;
  CheckpointNumber last_ = 0;
  std::map<CheckpointNumber, CheckpointRow> rows_;
  std::map<TrialNumber, std::set<CheckpointNumber>> by_trial_;
};

}  // namespace mobula::internal::tune
