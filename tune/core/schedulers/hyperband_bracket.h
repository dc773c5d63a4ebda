// One bracket of HyperBand: its live trials, their last reports, and the size and milestone of the
// present round.
// Thread: owner.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "tune/core/trial_table.h"

namespace mobula::internal::tune {

struct BracketShape {
  std::int64_t trials = 0;     // n0
  std::int64_t milestone = 0;  // r0
  std::int64_t halvings = 0;   // s
};

class HyperBandBracket {
 public:
  struct Live {
    TrialNumber trial = 0;
    bool reported = false;
    double time = 0, score = 0;

    template <class Self, class Archive>
    static void fields(Self& self, Archive& archive) {
      archive(self.trial, self.reported, self.time, self.score);
    }
  };
  struct Halves {
    std::vector<TrialNumber> good, bad;  // in ascending order of score
  };

  HyperBandBracket() = default;
  HyperBandBracket(const BracketShape& shape, double max_t, double reduction_factor,
                   bool stop_last_trials);

  bool filled() const { return static_cast<std::int64_t>(live_.size()) == size_; }
  // All live trials have reached the milestone.
  bool round_done() const;
  bool finished() const { return stop_last_trials_ && halvings_ == 0 && round_done(); }
  // False once the last report of the trial has reached the milestone.
  bool continues(TrialNumber trial) const;
  double completion() const;
  double milestone() const { return milestone_; }
  bool stop_last_trials() const { return stop_last_trials_; }
  const std::vector<Live>& live() const { return live_; }
  bool was_halved() const { return was_halved_; }
  bool may_resume(TrialNumber trial) const { return to_resume_.contains(trial); }
  // Returns nullptr for a trial that is not live.
  const Live* find(TrialNumber trial) const;

  void add(TrialNumber trial) { live_.push_back({.trial = trial}); }
  // False if the trial is not live.
  bool update(TrialNumber trial, double time, double score);
  void remove(TrialNumber trial);
  void resume_later(TrialNumber trial) { to_resume_.insert(trial); }
  Halves halve();

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.size_, self.milestone_, self.halvings_, self.max_t_, self.reduction_factor_,
            self.stop_last_trials_, self.was_halved_, self.work_, self.progress_, self.live_,
            self.to_resume_);
  }

 private:
  std::int64_t size_ = 0;  // n: trials of this round
  double milestone_ = 0;   // r
  std::int64_t halvings_ = 0;
  double max_t_ = 0, reduction_factor_ = 0;
  bool stop_last_trials_ = true;
  bool was_halved_ = false;
  double work_ = 0, progress_ = 0;
  std::vector<Live> live_;  // in the order of addition
  std::set<TrialNumber> to_resume_;
};

}  // namespace mobula::internal::tune
