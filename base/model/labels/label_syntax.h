// Syntax of labels (that of Kubernetes) and of conditions on them: "v", "!v", "in(a,b)",
// "!in(a,b)". Keys: an optional lower-case domain name with '/', then up to 63 of [A-Za-z0-9_.-],
// alphanumeric at both ends. Values: the same without prefix, or empty.
// Thread: any.
// Not: matching, see label_selector.h.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/model/field_error.h"
#include "base/model/request.h"

namespace mobula::internal {

inline constexpr std::size_t max_fallback_selectors = 16;
inline constexpr std::size_t max_label_conditions = 64;  // per selector

struct LabelCondition {
  std::string key;
  bool negated = false;
  bool listed = false;  // written as in(...)
  std::vector<std::string> values;
};

// `field` is the name of the checked member in the error.
Breach check_label_key(const std::string& field, std::string_view key);
Breach check_label_value(const std::string& field, std::string_view value);
Breach read_label_condition(const std::string& field, const std::string& key, std::string_view text,
                            LabelCondition& condition);
// Checks every condition of a selector.
Breach check_label_selector(const std::string& field, const Labels& selector);
// Checks the number of selectors and each of them.
Breach check_fallback_selectors(const std::vector<Labels>& selectors);

}  // namespace mobula::internal
