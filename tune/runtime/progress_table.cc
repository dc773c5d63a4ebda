#include "tune/runtime/progress_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <vector>

namespace mobula::internal::tune {
namespace {

constexpr std::size_t most_rows = 20;
constexpr double terminal_interval_s = 0.25, line_interval_s = 5;

struct StateCounts {
  std::int64_t pending = 0, running = 0, paused = 0, terminated = 0, failed = 0;
};

StateCounts count_states(const ExperimentCore& core) {
  StateCounts counts;
  const TrialTable& trials = core.trials();
  for (std::size_t i = 0; i < trials.size(); ++i) {
    switch (core.shown_state(static_cast<TrialNumber>(i))) {
      case TrialState::pending: ++counts.pending; break;
      case TrialState::pausing:
      case TrialState::running: ++counts.running; break;
      case TrialState::paused: ++counts.paused; break;
      case TrialState::terminated: ++counts.terminated; break;
      case TrialState::failed: ++counts.failed; break;
    }
  }
  return counts;
}

const char* state_label(TrialState state) {
  switch (state) {
    case TrialState::pending: return "PENDING";
    case TrialState::running: return "RUNNING";
    case TrialState::pausing: return "PAUSING";
    case TrialState::paused: return "PAUSED";
    case TrialState::terminated: return "TERMINATED";
    case TrialState::failed: return "FAILED";
  }
  return "";
}

std::optional<double> value_of(const ExperimentCore& core, TrialNumber trial,
                               const std::string& metric) {
  const Value* value = core.record(trial).last.find(metric);
  if (value == nullptr || value->is_text() || std::isnan(value->number())) return std::nullopt;
  return value->number();
}

std::string cut(const std::string& text, std::size_t length) {
  return text.size() <= length ? text : text.substr(0, length - 1) + "~";
}

}  // namespace

std::string ProgressTable::summary(const ExperimentCore& core, double elapsed_s) const {
  const StateCounts counts = count_states(core);
  std::string line = fmt::format(
      "{}: {:.0f} s: {} pending, {} running, {} paused, {} terminated, {} failed", options_.name,
      elapsed_s, counts.pending, counts.running, counts.paused, counts.terminated, counts.failed);
  std::optional<std::pair<double, TrialNumber>> best;
  const double sign = sign_of(options_.mode);
  for (std::size_t i = 0; i < core.trials().size(); ++i) {
    const auto trial = static_cast<TrialNumber>(i);
    const double value = core.last_value(trial);
    if (std::isnan(value) || core.trials().state(trial) == TrialState::failed) continue;
    if (!best || sign * value > sign * best->first) best.emplace(value, trial);
  }
  if (best)
    line += fmt::format("; best {} {:.6g}: trial {} {}", options_.metric, best->first, best->second,
                        cut(to_string(core.record(best->second).config), 80));
  return line;
}

std::string ProgressTable::render(const ExperimentCore& core, double elapsed_s,
                                  const std::string& waiting) const {
  std::string text = summary(core, elapsed_s) + "\n";
  const TrialTable& trials = core.trials();
  std::vector<TrialNumber> rows;
  for (const TrialState state : {TrialState::running, TrialState::pausing, TrialState::failed,
                                 TrialState::paused, TrialState::terminated, TrialState::pending})
    for (std::size_t i = trials.size(); i-- > 0 && rows.size() < most_rows;)
      if (core.shown_state(static_cast<TrialNumber>(i)) == state &&
          core.has_record(static_cast<TrialNumber>(i)))
        rows.push_back(static_cast<TrialNumber>(i));
  std::sort(rows.begin(), rows.end());
  if (!rows.empty())
    text += fmt::format("{:>6} {:<10} {:>5} {:>12} {:>8}  {}\n", "TRIAL", "STATE", "ITER",
                        cut(options_.metric.empty() ? "-" : options_.metric, 12), "SECONDS",
                        "PARAMETERS");
  for (const TrialNumber trial : rows) {
    const auto value = value_of(core, trial, options_.metric);
    const auto seconds = value_of(core, trial, "time_total_s");
    const TrialRecord& record = core.record(trial);
    text += fmt::format(
        "{:>6} {:<10} {:>5} {:>12} {:>8}  {}\n", trial, state_label(core.shown_state(trial)),
        trials.row(trial).iteration, value ? fmt::format("{:.6g}", *value) : "-",
        seconds ? fmt::format("{:.1f}", *seconds) : "-",
        cut(trials.state(trial) == TrialState::failed ? record.error : to_string(record.config),
            80));
  }
  if (trials.size() > rows.size())
    text += fmt::format("       {} more trials\n", trials.size() - rows.size());
  if (!waiting.empty()) text += "Next trial waits: " + waiting + "\n";
  return text;
}

void ProgressTable::show(const ExperimentCore& core, double elapsed_s, const std::string& waiting,
                         bool last) {
  if (options_.verbose < 1) return;
  const double interval_s = options_.terminal ? terminal_interval_s : line_interval_s;
  if (!last && elapsed_s - shown_at_s_ < interval_s) return;
  shown_at_s_ = elapsed_s;
  std::string text = options_.terminal || last ? render(core, elapsed_s, waiting)
                                               : summary(core, elapsed_s) + "\n";
  if (!options_.terminal && !last && !waiting.empty())
    text += "Next trial waits: " + waiting + "\n";
  if (text == shown_) return;
  shown_ = text;
  std::string output;
  if (options_.terminal && shown_lines_ > 0) output = fmt::format("\x1b[{}A\x1b[J", shown_lines_);
  output += text;
  shown_lines_ = static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  std::fputs(output.c_str(), stderr);
}

}  // namespace mobula::internal::tune
