#include "base/model/labels/label_syntax.h"

#include <algorithm>
#include <string>

namespace mobula::internal {
namespace {

constexpr std::size_t max_name = 63;
constexpr std::size_t max_prefix = 253;

// Independent of the locale.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_alphanumeric(char c) { return is_digit(c) || is_lower(c) || (c >= 'A' && c <= 'Z'); }

// Letters and digits, with '-', '_' and '.' inside.
bool is_word(std::string_view word) {
  if (word.empty() || word.size() > max_name) return false;
  if (!is_alphanumeric(word.front()) || !is_alphanumeric(word.back())) return false;
  return std::ranges::all_of(
      word, [](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

// Lower-case words of a domain name, joined by dots.
bool is_domain(std::string_view prefix) {
  if (prefix.empty() || prefix.size() > max_prefix) return false;
  bool inside = false;
  char before = '.';
  for (const char c : prefix) {
    const bool plain = is_digit(c) || is_lower(c);
    if (!plain && c != '-' && c != '.') return false;
    if (!plain && before == '.') return false;
    if (c == '.' && before == '-') return false;
    inside = plain;
    before = c;
  }
  return inside;
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

Breach check_label_key(const std::string& field, std::string_view key) {
  const auto slash = key.find('/');
  const bool has_prefix = slash != std::string_view::npos;
  if (has_prefix && !is_domain(key.substr(0, slash))) {
    return FieldError{field, "the part of a label's key before '/' is a domain name in lower case",
                      std::string(key)};
  }
  if (is_word(has_prefix ? key.substr(slash + 1) : key)) return std::nullopt;
  return FieldError{
      field,
      "a label's key has 1 to 63 letters, digits, '-', '_' or '.', and begins and ends with a "
      "letter or digit",
      "\"" + std::string(key) + "\""};
}

Breach check_label_value(const std::string& field, std::string_view value) {
  if (value.empty() || is_word(value)) return std::nullopt;
  return FieldError{
      field,
      "a label's value has at most 63 letters, digits, '-', '_' or '.', and begins and ends with "
      "a letter or digit",
      "\"" + std::string(value) + "\""};
}

Breach read_label_condition(const std::string& field, const std::string& key, std::string_view text,
                            LabelCondition& condition) {
  if (auto broken = check_label_key(field, key)) return broken;
  const auto refused = [&](const char* rule) {
    return FieldError{field, rule, key + "=" + std::string(text)};
  };
  condition = {.key = key, .negated = text.starts_with('!'), .listed = false, .values = {}};
  auto rest = text;
  if (condition.negated) rest.remove_prefix(1);
  if (condition.negated && trimmed(rest).empty())
    return refused("'!' is followed by a value or in(...)");
  condition.listed = rest.starts_with("in(");
  if (!condition.listed) {
    condition.values.emplace_back(rest);
    return check_label_value(field, rest);
  }
  if (!rest.ends_with(')')) return refused("in(...) ends with ')'");
  auto list = rest.substr(3, rest.size() - 4);
  if (trimmed(list).empty()) return refused("in(...) names at least one value");
  for (;;) {
    const auto comma = list.find(',');
    const auto value = trimmed(list.substr(0, comma));
    if (value.empty()) return refused("in(...) has no empty value");
    if (auto broken = check_label_value(field, value)) return broken;
    condition.values.emplace_back(value);
    if (comma == std::string_view::npos) return std::nullopt;
    list.remove_prefix(comma + 1);
  }
}

Breach check_label_selector(const std::string& field, const Labels& selector) {
  if (selector.size() > max_label_conditions) {
    return FieldError{field, "at most " + std::to_string(max_label_conditions) + " conditions",
                      std::to_string(selector.size())};
  }
  LabelCondition condition;
  for (const auto& [key, text] : selector) {
    if (auto broken = read_label_condition(field, key, text, condition)) return broken;
  }
  return std::nullopt;
}

Breach check_fallback_selectors(const std::vector<Labels>& selectors) {
  const std::string field = "fallback_selectors";
  if (selectors.size() > max_fallback_selectors) {
    return FieldError{field, "at most " + std::to_string(max_fallback_selectors) + " alternatives",
                      std::to_string(selectors.size())};
  }
  for (std::size_t i = 0; i < selectors.size(); ++i) {
    if (auto broken = check_label_selector(field + "[" + std::to_string(i) + "]", selectors[i]))
      return broken;
  }
  return std::nullopt;
}

}  // namespace mobula::internal
