#include "model/label_selector.h"

#include <fmt/format.h>

#include <algorithm>

namespace mobula::internal {
namespace {

constexpr std::size_t max_part = 63;
constexpr std::size_t max_prefix = 253;

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_part(std::string_view text, std::size_t limit) {
  if (text.empty() || text.size() > limit) return false;
  if (!is_alphanumeric(text.front()) || !is_alphanumeric(text.back())) return false;
  return std::ranges::all_of(
      text, [](char c) { return is_alphanumeric(c) || c == '-' || c == '_' || c == '.'; });
}

bool is_key(std::string_view key) {
  const auto slash = key.find('/');
  if (slash == std::string_view::npos) return is_part(key, max_part);
  return is_part(key.substr(0, slash), max_prefix) && is_part(key.substr(slash + 1), max_part);
}

bool is_value(std::string_view value) { return value.empty() || is_part(value, max_part); }

Failure bad_label(std::string_view what, std::string_view text) {
  return failure(ErrorCode::invalid_argument,
                 fmt::format("label {} '{}': use up to 63 letters, digits, '-', '_' and '.', with "
                             "a letter or digit at both ends",
                             what, text));
}

}  // namespace

Result<LabelMatch> LabelMatch::parse(const std::string& key, std::string_view expression) {
  if (!is_key(key)) return bad_label("key", key);
  LabelMatch match;
  match.key_ = key;
  match.expression_ = expression;
  auto rest = expression;
  if (rest.starts_with('!')) {
    match.negated_ = true;
    rest.remove_prefix(1);
    if (rest.empty()) return bad_label("selector", expression);
  }
  if (!rest.starts_with("in(")) {
    if (!is_value(rest)) return bad_label("selector", expression);
    match.values_.emplace_back(rest);
    return match;
  }
  if (!rest.ends_with(')')) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("label selector '{}' of '{}': the list is not closed; write in(a,b)",
                               expression, key));
  }
  rest.remove_prefix(3);
  rest.remove_suffix(1);
  while (true) {
    const auto comma = rest.find(',');
    auto value = rest.substr(0, comma);
    while (value.starts_with(' ')) value.remove_prefix(1);
    while (value.ends_with(' ')) value.remove_suffix(1);
    if (!is_part(value, max_part)) return bad_label("selector", expression);
    match.values_.emplace_back(value);
    if (comma == std::string_view::npos) return match;
    rest.remove_prefix(comma + 1);
  }
}

bool LabelMatch::matches(const Labels& labels) const {
  const auto at = labels.find(key_);
  const bool listed =
      at != labels.end() && std::ranges::find(values_, at->second) != values_.end();
  return listed != negated_;
}

Result<std::vector<LabelMatch>> parse_label_selector(const Labels& selector) {
  std::vector<LabelMatch> matches;
  matches.reserve(selector.size());
  for (const auto& [key, expression] : selector) {
    auto match = LabelMatch::parse(key, expression);
    if (!match) return match.error();
    matches.push_back(std::move(*match));
  }
  return matches;
}

LabelChoices::LabelChoices(const Request& request) {
  const auto add = [this](const Labels& selector) {
    auto parsed = parse_label_selector(selector);
    if (!parsed) {
      if (error_.empty()) error_ = parsed.error().text;
      return;
    }
    choices_.push_back(std::move(*parsed));
  };
  if (request.label_selector.empty() && request.fallback_selectors.empty()) return;
  add(request.label_selector);
  for (const auto& selector : request.fallback_selectors) add(selector);
}

bool LabelChoices::meets(const Labels& labels) const {
  if (!error_.empty()) return false;
  if (choices_.empty()) return true;
  return std::ranges::any_of(choices_, [&](const auto& choice) {
    return std::ranges::all_of(choice, [&](const auto& each) { return each.matches(labels); });
  });
}

const LabelMatch* LabelChoices::missed(const Labels& labels) const {
  if (choices_.empty() || meets(labels)) return nullptr;
  const auto& first = choices_.front();
  const auto at = std::ranges::find_if(first, [&](const auto& each) { return !each.matches(labels); });
  return at == first.end() ? nullptr : &*at;
}

std::vector<LabelChoices> LabelChoices::each() const {
  std::vector<LabelChoices> single;
  for (const auto& choice : choices_) {
    single.emplace_back();
    single.back().choices_.push_back(choice);
    single.back().error_ = error_;
  }
  return single;
}

Result<void> check_labels(const Labels& labels) {
  for (const auto& [key, value] : labels) {
    if (!is_key(key)) return bad_label("key", key);
    if (!is_value(value)) return bad_label("value", value);
  }
  return {};
}

}  // namespace mobula::internal
