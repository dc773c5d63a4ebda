// Reports of a program: one JSON object per line. Nested objects become names with slashes; NaN and
// Infinity, as Python writes them, are numbers.
// Thread: any (function of its arguments). Errors: invalid_argument names the member or shows the
// beginning of the line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <mobula/tune/config.h>

#include "base/result.h"

namespace mobula::internal::tune {

inline constexpr std::size_t max_report_line = std::size_t{1} << 20;  // bytes

struct ReportLine {
  mobula::tune::Metrics metrics = {};
  std::string checkpoint = {};  // member "checkpoint"; empty: none
};
Result<ReportLine> parse_report_line(std::string_view line);
// The beginning of a text of the program, with other bytes than printable ones escaped.
std::string printable(std::string_view text, std::size_t most = 200);

}  // namespace mobula::internal::tune
