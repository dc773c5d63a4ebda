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

// Appends the 32 digits of hex() without an allocation beyond the growth of `to`.
inline void append_hex(std::string& to, Hash128 bits) {
  for (const std::uint64_t half : {bits.high, bits.low}) {
    for (int shift = 60; shift >= 0; shift -= 4) to += "0123456789abcdef"[(half >> shift) & 15];
  }
}

// Writes a label into `line`, whose memory is reused. A label completes a line without a newline.
// One write: the line is shorter than PIPE_BUF.
inline void write_output_label(std::string& line, ProcessId printer, const OutputLabelText& label) {
  line = output_label_begin;
  append_hex(line, printer.bits());
  line += ':';
  append_hex(line, label.task.bits());
  line += ':';
  for (const char each : std::string_view(label.name).substr(0, max_output_label_bytes)) {
    line += static_cast<unsigned char>(each) < ' ' ? '?' : each;
  }
  line += output_label_end;
  line += '\n';
}
inline std::string output_label_line(ProcessId printer, const OutputLabelText& label) {
  std::string line;
  write_output_label(line, printer, label);
  return line;
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
