#include "tune/core/space/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace mobula::internal::tune {

double Value::number() const {
  if (const auto* number = std::get_if<double>(&value_)) return *number;
  if (const auto* integer = std::get_if<std::int64_t>(&value_))
    return static_cast<double>(*integer);
  if (const auto* truth = std::get_if<bool>(&value_)) return *truth ? 1 : 0;
  return 0;
}

std::int64_t Value::integer() const {
  if (const auto* integer = std::get_if<std::int64_t>(&value_)) return *integer;
  const double value = number();
  if (!(value > -9.2e18 && value < 9.2e18)) return 0;
  return static_cast<std::int64_t>(value);
}

const std::string& Value::text() const {
  static const std::string empty;
  const auto* text = std::get_if<std::string>(&value_);
  return text != nullptr ? *text : empty;
}

bool operator==(const Value& a, const Value& b) {
  if (a.is_text() || b.is_text()) return a.is_text() && b.is_text() && a.text() == b.text();
  if (!a.is_number() && !b.is_number()) return a.integer() == b.integer();
  return a.number() == b.number();
}

Value::Parts Value::parts() const {
  Parts parts{.kind = static_cast<unsigned char>(value_.index())};
  if (is_number())
    parts.bits = std::bit_cast<std::uint64_t>(number());
  else if (is_text())
    parts.text = text();
  else
    parts.bits = static_cast<std::uint64_t>(integer());
  return parts;
}

Value Value::of_parts(const Parts& parts) {
  switch (parts.kind) {
    case 0: return parts.bits != 0;
    case 1: return static_cast<std::int64_t>(parts.bits);
    case 2: return std::bit_cast<double>(parts.bits);
    default: return parts.text;
  }
}

std::string to_string(const Value& value) {
  if (value.is_text()) return "'" + value.text() + "'";
  if (value.is_truth()) return value.truth() ? "true" : "false";
  if (value.is_integer()) return fmt::format("{}", value.integer());
  return fmt::format("{}", value.number());
}

const Value* Config::find(std::string_view name) const {
  const auto at = std::find_if(values_.begin(), values_.end(),
                               [&](const auto& entry) { return entry.first == name; });
  return at == values_.end() ? nullptr : &at->second;
}

const Value& Config::get(std::string_view name) const {
  const Value* value = find(name);
  if (value == nullptr) throw MissingParameter{std::string(name)};
  return *value;
}

void Config::set(std::string_view name, Value value) {
  for (auto& entry : values_) {
    if (entry.first != name) continue;
    entry.second = std::move(value);
    return;
  }
  values_.emplace_back(std::string(name), std::move(value));
}

std::string to_string(const Config& config) {
  std::string text = "{";
  for (const auto& [name, value] : config) {
    if (text.size() > 1) text += ", ";
    text += name + ": " + to_string(value);
  }
  return text + "}";
}

}  // namespace mobula::internal::tune
