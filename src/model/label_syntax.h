// The syntax of labels, which is that of Kubernetes, and of conditions on them: "v", "!v", "in(a,b)",
// "!in(a,b)". Keys: an optional domain name in lower case with '/', then up to 63 of [A-Za-z0-9_.-],
// alphanumeric at both ends. Values: the same without prefix, or empty. Plain functions. What a condition
// matches is said by label_selector.h.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "model/broken_rule.h"
#include "model/request.h"

namespace mobula::internal {

inline constexpr std::size_t max_fallback_selectors = 16;
inline constexpr std::size_t max_label_conditions = 64;  // per selector

struct LabelCondition {
  std::string key;
  bool negated = false;
  bool listed = false;  // written as in(...)
  std::vector<std::string> values;
};

// `field` is how the breach names what is checked.
Breach check_label_key(const std::string& field, std::string_view key);
Breach check_label_value(const std::string& field, std::string_view value);
Breach read_label_condition(const std::string& field, const std::string& key, std::string_view text,
                            LabelCondition& condition);
// All of a selector.
Breach check_label_selector(const std::string& field, const Labels& selector);
// That there are not too many, and each of them.
Breach check_fallback_selectors(const std::vector<Labels>& selectors);

}  // namespace mobula::internal
