// Formats the line with which an executor labels the task whose output follows. The agent removes
// the line from the output. A line with the key of another process is ordinary output.
// Thread: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/id.h"

namespace mobula::internal {

// Label for tasks that alternate too quickly for single labels.
inline constexpr std::string_view several_tasks = "several tasks";

inline constexpr std::string_view output_label_begin = "\x1e\x02mobula-task:";
inline constexpr std::string_view output_label_end = "\x03";
inline constexpr std::size_t max_output_label_bytes = 256;

// The name of a task or of an actor's class, and the task if all following lines are of this task.
struct OutputLabelText {
  std::string name;
  TaskId task{};
  friend bool operator==(const OutputLabelText&, const OutputLabelText&) = default;
};

// Digits by which the lines of a log name a task.
inline std::string log_digits(TaskId task) { return task.empty() ? "" : task.hex().substr(16); }

// Completes a line without a newline. One write: the line is shorter than PIPE_BUF.
inline std::string output_label_line(ProcessId printer, const OutputLabelText& label) {
  std::string line(output_label_begin);
  line += printer.hex() + ":" + label.task.hex() + ":";
  for (const char each : std::string_view(label.name).substr(0, max_output_label_bytes)) {
    line += static_cast<unsigned char>(each) < ' ' ? '?' : each;
  }
  line += output_label_end;
  return line += '\n';
}

// A line of output without its newline: the text before a label, and the label.
struct LabeledLine {
  std::string_view text;
  std::optional<OutputLabelText> label{};
};
inline LabeledLine split_label(ProcessId printer, std::string_view line) {
  const std::string begin = std::string(output_label_begin) + printer.hex() + ":";
  const auto at = line.find(begin);
  if (at == std::string_view::npos || !line.ends_with(output_label_end)) return {line};
  auto rest = line.substr(at + begin.size());
  rest.remove_suffix(output_label_end.size());
  const auto colon = rest.find(':');
  if (colon == std::string_view::npos) return {line};
  const auto task = TaskId::from_hex(rest.substr(0, colon));
  if (!task) return {line};
  return {line.substr(0, at), OutputLabelText{std::string(rest.substr(colon + 1)), *task}};
}

}  // namespace mobula::internal
