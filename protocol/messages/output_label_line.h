// Formats the line with which an executor labels the task whose output follows. The agent removes
// the line from the output.
// Thread: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mobula::internal {

// Label for tasks that alternate too quickly for single labels.
inline constexpr std::string_view several_tasks = "several tasks";

inline constexpr std::string_view output_label_begin = "\x1e\x02mobula-task:";
inline constexpr std::string_view output_label_end = "\x03";
inline constexpr std::size_t max_output_label_bytes = 256;

// Completes a line without a newline. One write: the line is shorter than PIPE_BUF.
inline std::string output_label_line(std::string_view label) {
  std::string line(output_label_begin);
  for (const char each : label.substr(0, max_output_label_bytes)) {
    line += static_cast<unsigned char>(each) < ' ' ? '?' : each;
  }
  line += output_label_end;
  return line += '\n';
}

// A line of output without its newline: the text before a label, and the label.
struct LabeledLine {
  std::string_view text;
  std::optional<std::string_view> label;
};
inline LabeledLine split_label(std::string_view line) {
  const auto begin = line.find(output_label_begin);
  if (begin == std::string_view::npos || !line.ends_with(output_label_end))
    return {line, std::nullopt};
  const auto label = line.substr(begin + output_label_begin.size());
  return {line.substr(0, begin), label.substr(0, label.size() - output_label_end.size())};
}

}  // namespace mobula::internal
