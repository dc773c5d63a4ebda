#include "cli/output/text_table.h"

#include <algorithm>
#include <string_view>

#include "cli/output/color.h"
#include "cli/output/log_lines.h"

namespace mobula::internal::cli {
namespace {

// Counts characters: continuation bytes of UTF-8 have no width.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

// Sizes such as "1.5 GiB" are numbers too.
bool is_number(const std::string& text) {
  std::string_view digits = text;
  for (const std::string_view unit : {" B", " KiB", " MiB", " GiB", " TiB"}) {
    if (digits.ends_with(unit)) digits.remove_suffix(unit.size());
  }
  return digits == "-" ||
         (!digits.empty() && digits.find_first_not_of("0123456789.-/") == std::string_view::npos);
}

bool has_states(const std::string& header) {
  return header == "STATE" || header == "RESULT" || header == "SEVERITY";
}

}  // namespace

void TextTable::add(std::vector<std::string> row) {
  for (std::string& cell : row) {
    for (char& c : cell) c = static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
    cell = printable(cell);  // replaces other controls
  }
  rows_.push_back(std::move(row));
}

std::string TextTable::text(bool colored) const {
  if (rows_.empty()) return {};
  const std::size_t columns = rows_.front().size();
  std::vector<std::size_t> widths(columns, 0);
  std::vector<bool> numbers(columns, rows_.size() > 1);
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    for (std::size_t at = 0; at < columns; ++at) {
      widths[at] = std::max(widths[at], width_of(rows_[row][at]));
      if (row > 0 && !is_number(rows_[row][at])) numbers[at] = false;
    }
  }
  std::string text;
  for (const auto& row : rows_) {
    const bool is_header = &row == &rows_.front();
    std::string line;
    for (std::size_t at = 0; at < columns; ++at) {
      const std::string padding(widths[at] - width_of(row[at]), ' ');
      const std::string shown = !colored                        ? row[at]
                                : is_header                     ? painted(row[at], Paint::bold)
                                : has_states(rows_.front()[at]) ? painted_state(row[at], true)
                                                                : row[at];
      line += (at == 0 ? "" : "  ") + (numbers[at] ? padding + shown : shown + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace mobula::internal::cli
