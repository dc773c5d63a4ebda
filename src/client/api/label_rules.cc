// Labels in Kubernetes' syntax, and selectors: "v", "!v", "in(a,b)", "!in(a,b)".
#include <cctype>
#include <string>
#include <string_view>

#include "client/api/rules.h"

namespace mobula::internal::client {

namespace {

using detail::LabelRule;

constexpr std::size_t max_name = 63;
constexpr std::size_t max_prefix = 253;
constexpr std::size_t max_fallbacks = 16;

bool is_alphanumeric(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

// Letters and digits, with '-', '_' and '.' inside.
bool is_label_word(std::string_view word) {
  if (word.empty() || word.size() > max_name) return false;
  if (!is_alphanumeric(word.front()) || !is_alphanumeric(word.back())) return false;
  for (const char c : word) {
    if (!is_alphanumeric(c) && c != '-' && c != '_' && c != '.') return false;
  }
  return true;
}

// Lower-case words of a domain name, joined by dots.
bool is_domain(std::string_view prefix) {
  if (prefix.empty() || prefix.size() > max_prefix) return false;
  bool inside = false;
  char before = '.';
  for (const char c : prefix) {
    const bool plain = is_alphanumeric(c) && std::isupper(static_cast<unsigned char>(c)) == 0;
    if (!plain && c != '-' && c != '.') return false;
    if ((c == '.' || c == '-') && before == '.') return false;
    if (c == '.' && before == '-') return false;
    inside = plain;
    before = c;
  }
  return inside;
}

void check_key(const std::string& field, const std::string& key) {
  const auto slash = key.find('/');
  const std::string_view whole = key;
  const std::string_view name = slash == std::string::npos ? whole : whole.substr(slash + 1);
  if (slash != std::string::npos && !is_domain(whole.substr(0, slash))) {
    refuse(field, "the part of a label's key before '/' is a domain name in lower case", key);
  }
  if (!is_label_word(name)) {
    refuse(field,
           "a label's key has 1 to 63 letters, digits, '-', '_' or '.', and begins and ends with a "
           "letter or digit",
           "\"" + key + "\"");
  }
}

void check_value(const std::string& field, std::string_view value) {
  if (value.empty() || is_label_word(value)) return;
  refuse(
      field,
      "a label's value has at most 63 letters, digits, '-', '_' or '.', and begins and ends with "
      "a letter or digit",
      "\"" + std::string(value) + "\"");
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

LabelRule parse_rule(const std::string& field, const std::string& key, std::string_view text) {
  const std::string given = key + "=" + std::string(text);
  const bool negated = text.starts_with('!');
  if (negated) text.remove_prefix(1);
  if (negated && trimmed(text).empty()) refuse(field, "'!' is followed by a value or in(...)", given);
  LabelRule rule{.key = key};
  if (!text.starts_with("in(")) {
    check_value(field, text);
    rule.op = negated ? LabelRule::Operator::not_equals : LabelRule::Operator::equals;
    rule.values.emplace_back(text);
    return rule;
  }
  rule.op = negated ? LabelRule::Operator::not_in : LabelRule::Operator::in;
  if (!text.ends_with(')')) refuse(field, "in(...) ends with ')'", given);
  std::string_view list = text.substr(3, text.size() - 4);
  if (trimmed(list).empty()) refuse(field, "in(...) names at least one value", given);
  for (;;) {
    const auto comma = list.find(',');
    const std::string_view value = trimmed(list.substr(0, comma));
    if (value.empty()) refuse(field, "in(...) has no empty value", given);
    check_value(field, value);
    rule.values.emplace_back(value);
    if (comma == std::string_view::npos) return rule;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

void check_labels(const Labels& labels) {
  for (const auto& [key, value] : labels) {
    check_key("labels", key);
    check_value("labels", value);
  }
}

std::vector<LabelRule> label_rules(const std::string& field, const Labels& selector) {
  std::vector<LabelRule> rules;
  for (const auto& [key, value] : selector) {
    check_key(field, key);
    rules.push_back(parse_rule(field, key, value));
  }
  return rules;
}

std::vector<std::vector<LabelRule>> fallback_rules(const std::vector<Labels>& selectors) {
  if (selectors.size() > max_fallbacks) {
    refuse("fallback_selectors", "at most " + std::to_string(max_fallbacks) + " alternatives",
           std::to_string(selectors.size()));
  }
  std::vector<std::vector<LabelRule>> fallbacks;
  for (std::size_t i = 0; i < selectors.size(); ++i) {
    fallbacks.push_back(label_rules("fallback_selectors[" + std::to_string(i) + "]", selectors[i]));
  }
  return fallbacks;
}

}  // namespace mobula::internal::client
