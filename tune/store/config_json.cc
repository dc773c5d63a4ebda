#include "tune/store/config_json.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/text/json_writer.h"

namespace mobula::internal::tune {
namespace {

// The shortest text that reads as the same double, and never as an integer.
std::string json_number(double number) {
  if (std::isnan(number)) return "\"nan\"";
  if (std::isinf(number)) return number > 0 ? "\"inf\"" : "\"-inf\"";
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

std::string json_string(std::string_view text) { return json_text(nlohmann::json(text)); }

std::string to_json(const Value& value) {
  if (value.is_truth()) return value.truth() ? "true" : "false";
  if (value.is_integer()) return fmt::format("{}", value.integer());
  if (value.is_number()) return json_number(value.number());
  return json_string(value.text());
}

std::string to_json(const Config& config) {
  std::string json = "{";
  for (const auto& [name, value] : config) {
    if (json.size() > 1) json += ',';
    json += json_string(name);
    json += ':';
    json += to_json(value);
  }
  return json + "}";
}

Result<Config> config_of_json(std::string_view json) {
  const auto parsed = nlohmann::ordered_json::parse(json, nullptr, false);
  if (!parsed.is_object()) {
    return failure(ErrorCode::corrupt,
                   fmt::format("read configuration: {} bytes are not a JSON object", json.size()));
  }
  Config config;
  config.reserve(parsed.size());
  for (const auto& [name, value] : parsed.items()) {
    if (value.is_boolean())
      config.set(name, value.get<bool>());
    else if (value.is_number_integer())
      config.set(name, value.get<std::int64_t>());
    else if (value.is_number())
      config.set(name, value.get<double>());
    else if (value.is_string())
      config.set(name, value.get<std::string>());
  }
  return config;
}

}  // namespace mobula::internal::tune
