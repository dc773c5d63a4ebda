#include "base/model/labels/label_selector.h"

#include <algorithm>
#include <utility>

#include "base/model/labels/label_syntax.h"

namespace mobula::internal {

Result<LabelMatch> LabelMatch::parse(const std::string& key, std::string_view expression) {
  LabelCondition condition;
  if (auto broken = read_label_condition("label_selector", key, expression, condition))
    return failure_of(*broken);
  LabelMatch match;
  match.key_ = key;
  match.expression_ = expression;
  match.negated_ = condition.negated;
  match.values_ = std::move(condition.values);
  return match;
}

bool LabelMatch::matches(const Labels& labels) const {
  const auto at = labels.find(key_);
  const bool listed = at != labels.end() && std::ranges::find(values_, at->second) != values_.end();
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

bool can_all_be_met(const std::vector<LabelMatch>& conditions) {
  const auto positive =
      std::ranges::find_if(conditions, [](const auto& each) { return each.allowed() != nullptr; });
  if (positive == conditions.end()) return true;
  return std::ranges::any_of(*positive->allowed(), [&](const std::string& value) {
    const Labels labels{{positive->key(), value}};
    return std::ranges::all_of(conditions, [&](const auto& each) { return each.matches(labels); });
  });
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
  const auto at =
      std::ranges::find_if(first, [&](const auto& each) { return !each.matches(labels); });
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
    if (auto broken = check_label_key("labels", key)) return failure_of(*broken);
    if (auto broken = check_label_value("labels", value)) return failure_of(*broken);
  }
  return {};
}

}  // namespace mobula::internal
