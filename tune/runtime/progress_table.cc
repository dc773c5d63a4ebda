#include "tune/runtime/progress_table.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <vector>

#include "base/logging/stderr_queue.h"
#include "base/text/utf8.h"

namespace mobula::internal::tune {
namespace {

constexpr std::size_t most_rows = 20, most_reason_lines = 4;
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

// One line for a terminal: control characters and invalid bytes are replaced, and a text that is
// wider than `columns` ends with "~".
std::string line_of(std::string_view text, std::size_t columns) {
  constexpr char32_t first_wide = 0x1100;
  std::string line;
  std::size_t used = 0, kept = 0;  // bytes that leave a column for the mark
  while (!text.empty()) {
    const auto next = first_code_point(text);
    const bool shown = next && next->first >= 0x20 && (next->first < 0x7f || next->first > 0x9f);
    const std::size_t width = shown && next->first >= first_wide ? 2 : 1;
    if (used + width > columns) return line.substr(0, kept) + "~";
    line += shown ? text.substr(0, next->second) : std::string_view(" ");
    used += width;
    if (used < columns) kept = line.size();
    text.remove_prefix(next ? next->second : 1);
  }
  return line;
}

// The text in at most `most` lines.
std::vector<std::string> wrapped(std::string_view text, std::size_t columns, std::size_t most) {
  std::vector<std::string> lines;
  while (lines.size() + 1 < most && text.size() > columns) {
    std::size_t end = text.rfind(' ', columns);
    if (end == std::string_view::npos || end == 0) break;
    lines.push_back(line_of(text.substr(0, end), columns));
    text.remove_prefix(end + 1);
  }
  lines.push_back(line_of(text, columns));
  return lines;
}

std::string brief(const std::string& node) { return node.empty() ? "-" : node.substr(0, 8); }

// The size of the terminal; that of the first terminals, if it is unknown.
winsize terminal_size() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) {
    size.ws_col = 80;
    size.ws_row = 24;
  }
  return size;
}

}  // namespace

std::string ProgressTable::counts(const ExperimentCore& core, double elapsed_s) const {
  const StateCounts counts = count_states(core);
  return fmt::format("{}: {:.0f} s: {} pending, {} running, {} paused, {} terminated, {} failed",
                     options_.name, elapsed_s, counts.pending, counts.running, counts.paused,
                     counts.terminated, counts.failed);
}

// Empty without a trial that reported the metric.
std::string ProgressTable::best(const ExperimentCore& core) const {
  std::optional<std::pair<double, TrialNumber>> best;
  const double sign = sign_of(options_.mode);
  for (std::size_t i = 0; i < core.trials().size(); ++i) {
    const auto trial = static_cast<TrialNumber>(i);
    const double value = core.last_value(trial);
    if (std::isnan(value) || core.trials().state(trial) == TrialState::failed) continue;
    if (!best || sign * value > sign * best->first) best.emplace(value, trial);
  }
  if (!best) return {};
  return fmt::format("best {} {:.6g}: trial {} {}", options_.metric, best->first, best->second,
                     to_string(core.record(best->second).config));
}

std::string ProgressTable::summary(const ExperimentCore& core, double elapsed_s) const {
  const std::string best_trial = best(core);
  return line_of(counts(core, elapsed_s) + (best_trial.empty() ? "" : "; " + best_trial), 250);
}

std::string ProgressTable::row(const ExperimentCore& core, const ProgressView& view,
                               TrialNumber trial) const {
  const auto value = value_of(core, trial, options_.metric);
  const auto seconds = value_of(core, trial, "time_total_s");
  const TrialRecord& record = core.record(trial);
  std::string node;
  if (view.nodes != nullptr)
    if (const auto found = view.nodes->find(trial); found != view.nodes->end())
      node = found->second;
  return fmt::format(
      "{:>6} {:<10} {:>5} {:>12} {:>8} {:<8}  {}", trial, state_label(core.shown_state(trial)),
      core.trials().row(trial).iteration, value ? fmt::format("{:.6g}", *value) : "-",
      seconds ? fmt::format("{:.1f}", *seconds) : "-", brief(node),
      core.trials().state(trial) == TrialState::failed ? record.error : to_string(record.config));
}

std::string ProgressTable::render(const ExperimentCore& core, const ProgressView& view) const {
  std::vector<std::string> head = {counts(core, view.elapsed_s)};
  if (const std::string best_trial = best(core); !best_trial.empty()) head.push_back(best_trial);
  if (!view.resources.empty()) head.push_back("in use: " + view.resources);
  head.push_back(fmt::format("{:>6} {:<10} {:>5} {:>12} {:>8} {:<8}  {}", "TRIAL", "STATE", "ITER",
                             line_of(options_.metric.empty() ? "-" : options_.metric, 12),
                             "SECONDS", "NODE", "PARAMETERS"));
  std::vector<std::string> tail;
  if (!view.waiting.empty())
    tail = wrapped("Next trial waits: " + view.waiting, view.columns, most_reason_lines);
  // The cursor is below the table, and the number of further trials has a line.
  const std::size_t others = head.size() + tail.size() + 2;
  const std::size_t space = view.lines > others ? view.lines - others : 1;
  const TrialTable& trials = core.trials();
  std::vector<TrialNumber> rows;
  for (const TrialState state : {TrialState::running, TrialState::pausing, TrialState::failed,
                                 TrialState::paused, TrialState::terminated, TrialState::pending})
    for (std::size_t i = trials.size(); i-- > 0 && rows.size() < std::min(most_rows, space);)
      if (core.shown_state(static_cast<TrialNumber>(i)) == state &&
          core.has_record(static_cast<TrialNumber>(i)))
        rows.push_back(static_cast<TrialNumber>(i));
  std::sort(rows.begin(), rows.end());
  if (rows.empty()) head.pop_back();
  std::vector<std::string> lines = std::move(head);
  for (const TrialNumber trial : rows) lines.push_back(row(core, view, trial));
  if (trials.size() > rows.size())
    lines.push_back(fmt::format("       {} more trials", trials.size() - rows.size()));
  lines.insert(lines.end(), tail.begin(), tail.end());
  lines.resize(std::min(lines.size(), std::max<std::size_t>(view.lines, 2) - 1));
  std::string text;
  for (const std::string& line : lines) text += line_of(line, view.columns) + "\n";
  return text;
}

bool ProgressTable::is_due(double elapsed_s) const {
  const double interval_s = options_.terminal ? terminal_interval_s : line_interval_s;
  return options_.verbose >= 1 && elapsed_s - shown_at_s_ >= interval_s;
}

void ProgressTable::show(const ExperimentCore& core, ProgressView view, bool last) {
  if (options_.verbose < 1) return;
  shown_at_s_ = view.elapsed_s;
  if (last) {
    std::string text = render(core, view);
    text.pop_back();
    return stderr_queue().print(text);
  }
  if (options_.terminal) {
    const winsize size = terminal_size();
    view.columns = size.ws_col;
    view.lines = size.ws_row;
    return stderr_queue().print_block(render(core, view));
  }
  std::string text = summary(core, view.elapsed_s);
  if (!view.waiting.empty()) text += "\nNext trial waits: " + view.waiting;
  if (text == shown_) return;
  shown_ = text;
  stderr_queue().print(text);
}

}  // namespace mobula::internal::tune
