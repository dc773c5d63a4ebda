// Node labels and conditions on them in public options. The rules are those of the model.
#include <string>

#include "base/model/labels/label_syntax.h"
#include "client/api/rules.h"

namespace mobula::internal::client {

namespace {

using detail::LabelRule;

LabelRule::Operator operator_of(const LabelCondition& condition) {
  if (condition.listed)
    return condition.negated ? LabelRule::Operator::not_in : LabelRule::Operator::in;
  return condition.negated ? LabelRule::Operator::not_equals : LabelRule::Operator::equals;
}

}  // namespace

void check_labels(const Labels& labels) {
  for (const auto& [key, value] : labels) {
    keep(check_label_key("labels", key));
    keep(check_label_value("labels", value));
  }
}

std::vector<LabelRule> label_rules(const std::string& field, const Labels& selector) {
  std::vector<LabelRule> rules;
  for (const auto& [key, value] : selector) {
    LabelCondition condition;
    keep(read_label_condition(field, key, value, condition));
    rules.push_back(
        {.key = key, .op = operator_of(condition), .values = std::move(condition.values)});
  }
  return rules;
}

std::vector<std::vector<LabelRule>> fallback_rules(const std::vector<Labels>& selectors) {
  keep(check_fallback_selectors(selectors));
  std::vector<std::vector<LabelRule>> fallbacks;
  fallbacks.reserve(selectors.size());
  for (const auto& selector : selectors)
    fallbacks.push_back(label_rules("fallback_selectors", selector));
  return fallbacks;
}

}  // namespace mobula::internal::client
