// Runs traces of Ray's schedulers and variant generator (tests/tune/oracle) on the cores of Tune,
// and compares every decision, command, and configuration. Periodically replaces the scheduler by
// a new one with its saved state.
// Thread: owner. Errors: differences() lists the first ones; an unreadable line is a difference.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tune/core/schedulers/population_training.h"
#include "tune/core/schedulers/trial_scheduler.h"
#include "tune/core/searchers/variant_generator.h"

namespace mobula::internal::tune {

using TraceWords = std::vector<std::string>;
using TraceOptions = std::map<std::string, std::string>;

TraceWords words_of(const std::string& line);
// "i3", "f3fe0000000000000", "bT", "sadam".
Value parse_value(const std::string& word);
// "a=i3,b=sx", or "-".
Config parse_config(const std::string& word);
// "uniform f… f…", from word `first` on.
Domain parse_domain(const TraceWords& words, std::size_t first);
// Compares kinds and values. Numbers may differ by two units in the last place, because the
// logarithm and the exponential of NumPy differ from those of the C library.
bool same_config(const Config& a, const Config& b);

class TraceRunner {
 public:
  // Every `snapshot_interval` lines, the scheduler is saved and loaded. 0: never.
  explicit TraceRunner(std::int64_t snapshot_interval = 1000) : interval_(snapshot_interval) {}

  void run(std::istream& trace);
  std::int64_t compared() const { return compared_; }
  // Decided reports, and choices of the next trial.
  std::int64_t decisions() const { return decisions_; }
  std::int64_t difference_count() const { return difference_count_; }
  // The first ten differences.
  const std::vector<std::string>& differences() const { return differences_; }

 private:
  void step(const TraceWords& words);
  void begin(const TraceWords& words);
  void scheduler_line(const TraceWords& words);
  void report_line(const TraceWords& words);
  void saved_line(const TraceWords& words);
  void variant_line(const TraceWords& words);
  void make_scheduler();
  void make_generator();
  void snapshot();
  Report report_of(const TraceWords& words) const;
  SchedulerStep calls() { return {trials_, random_}; }
  // Compares the commands since the last call with the words from `first` on.
  void compare_commands(const TraceWords& words, std::size_t first);
  void compare_decision(Decision decision);
  void check(bool same, const std::string& seen);

  std::int64_t interval_;
  std::int64_t line_ = 0, compared_ = 0, decisions_ = 0, difference_count_ = 0;
  std::string text_;  // the present line
  std::vector<std::string> differences_;
  TraceOptions options_;
  std::string kind_;
  Space space_;
  std::vector<Config> points_;
  std::vector<PolicyRow> policy_;
  TrialTable trials_;
  TuneRandom random_{NumpyRandom(0), PythonRandom(0)};
  TrialSchedulerPtr scheduler_;
  std::optional<VariantGenerator> generator_;
  std::int64_t variants_ = 0;
  TraceWords awaited_;  // a report whose decision waits for a checkpoint
};

}  // namespace mobula::internal::tune
