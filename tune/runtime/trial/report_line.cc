#include "tune/runtime/trial/report_line.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace mobula::internal::tune {
namespace {

// Text in place of numbers that JSON does not have; a report never has it.
constexpr std::string_view number_mark = "\x01";

// Puts NaN, Infinity, and -Infinity outside of strings into marked strings.
std::string with_marked_numbers(std::string_view line) {
  std::string made;
  bool in_text = false;
  for (std::size_t i = 0; i < line.size();) {
    std::size_t length = 0;
    if (!in_text)
      for (const std::string_view name : {"NaN", "Infinity", "-Infinity"})
        if (line.substr(i).starts_with(name)) length = name.size();
    if (length > 0) {
      made += fmt::format("\"\\u0001{}\"", line.substr(i, length));
      i += length;
      continue;
    }
    if (line[i] == '"') in_text = !in_text;
    if (in_text && line[i] == '\\' && i + 1 < line.size()) made += line[i++];
    made += line[i++];
  }
  return made;
}

double marked_number(std::string_view name) {
  if (name == "NaN") return std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  return name.starts_with('-') ? -infinity : infinity;
}

Result<void> add_members(const nlohmann::json& object, const std::string& prefix,
                         ReportLine& report) {
  for (const auto& [key, value] : object.items()) {
    const std::string name = prefix + key;
    if (value.is_object()) {
      if (Result<void> added = add_members(value, name + "/", report); !added) return added;
    } else if (value.is_array()) {
      return failure(ErrorCode::invalid_argument,
                     fmt::format("metric '{}' is an array; write a number, a boolean, or a text",
                                 printable(name)));
    } else if (value.is_string()) {
      const auto& text = value.get_ref<const std::string&>();
      if (text.starts_with(number_mark))
        report.metrics[name] = marked_number(std::string_view(text).substr(number_mark.size()));
      else if (name == "checkpoint")
        report.checkpoint = text;
      else
        report.metrics[name] = text;
    } else if (value.is_boolean()) {
      report.metrics[name] = value.get<bool>();
    } else if (value.is_number_unsigned() &&
               value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
      report.metrics[name] = value.get<double>();
    } else if (value.is_number_integer()) {
      report.metrics[name] = value.get<std::int64_t>();
    } else {
      report.metrics[name] =
          value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
    }
  }
  return {};
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  std::string made;
  for (const char each : text.substr(0, most)) {
    if (each >= ' ' && each <= '~')
      made += each;
    else
      made += fmt::format("\\x{:02x}", static_cast<unsigned char>(each));
  }
  return text.size() > most ? made + "…" : made;
}

Result<ReportLine> parse_report_line(std::string_view line) {
  const auto parsed = nlohmann::json::parse(with_marked_numbers(line), nullptr, false);
  if (!parsed.is_object())
    return failure(ErrorCode::invalid_argument,
                   fmt::format("expected a JSON object in one line, got '{}'", printable(line)));
  ReportLine report;
  if (Result<void> added = add_members(parsed, "", report); !added) return added.error();
  return report;
}

}  // namespace mobula::internal::tune
