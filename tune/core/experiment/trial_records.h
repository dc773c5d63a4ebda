// The records of the trials that an experiment still needs: live trials, failed ones, which may
// be repeated, and the finished ones that progress shows. All others cost their last value alone.
// Thread: owner (the core of one experiment).
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tune/core/experiment/experiment_events.h"
#include "tune/core/schedulers/trial_scheduler.h"

namespace mobula::internal::tune {

struct TrialRecord {
  Config config = {};
  Config last = {};  // metrics of the last report
  std::string error = {};
  std::string error_kind = {};
  std::vector<std::string> warnings = {};
  std::int64_t attempt = 0;
  std::int64_t failures = 0;
  std::int64_t additions = 0;  // to the scheduler
  std::int64_t calls = 0;      // reports of this attempt
  GroupNumber group = 0;       // group of the running attempt
  unsigned char strategy = 0;  // strategy of the placement group
  std::optional<TrialNumber> donor = {};
  bool saving = false;          // SaveCheckpoint has no answer yet
  bool has_nan = false;         // a metric of a report was NaN
  std::string checkpoint = {};  // directory of the last checkpoint

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.config, self.last, self.error, self.error_kind, self.warnings, self.attempt,
            self.failures, self.additions, self.calls, self.group, self.strategy, self.donor,
            self.saving, self.has_nan, self.checkpoint);
  }
};

class TrialRecords {
 public:
  // Finished trials that keep their records: the best, and the latest.
  static constexpr std::size_t most_best = 24, most_latest = 40;

  explicit TrialRecords(Mode mode) : sign_(sign_of(mode)) {}

  // Appends the record of trial number size().
  void add(TrialRecord record);
  std::size_t size() const { return values_.size(); }
  // Requires a record.
  TrialRecord& at(TrialNumber trial) { return kept_.at(trial); }
  // An empty record for a trial that has none any more.
  const TrialRecord& find(TrialNumber trial) const;
  bool has(TrialNumber trial) const { return kept_.contains(trial); }
  const std::map<TrialNumber, TrialRecord>& kept() const { return kept_; }

  // Sets the last value of the metric; NaN: none.
  void set_value(TrialNumber trial, double value) {
    values_[static_cast<std::size_t>(trial)] = value;
  }
  double value(TrialNumber trial) const { return values_[static_cast<std::size_t>(trial)]; }

  // The trial ended without an error; forget_ended() decides about its record.
  void ended(TrialNumber trial) { ended_.push_back(trial); }
  // Removes the records of ended trials that are neither among the best nor among the latest.
  void forget_ended();

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.values_, self.kept_, self.ended_, self.best_, self.latest_);
  }

 private:
  // Larger is better; equal scores: the earlier trial.
  using Score = std::pair<double, TrialNumber>;

  void release(TrialNumber trial);

  double sign_;
  std::deque<double> values_;  // by trial; a deque, because it never moves
  std::map<TrialNumber, TrialRecord> kept_;
  std::vector<TrialNumber> ended_;  // by the present step
  std::set<Score> best_;            // the best last, with negated trials
  std::deque<TrialNumber> latest_;
};

}  // namespace mobula::internal::tune
