// Conditions on node labels: "v", "!v", "in(a,b)", "!in(a,b)". A node without the label meets the
// negated forms. Labels have the syntax of Kubernetes.
// Thread: owner (plain values).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/model/request.h"
#include "base/result.h"

namespace mobula::internal {

class LabelMatch {
 public:
  // Errors: invalid_argument with the rule, for an invalid key or expression.
  static Result<LabelMatch> parse(const std::string& key, std::string_view expression);

  bool matches(const Labels& labels) const;
  const std::string& key() const { return key_; }
  // The original text, for messages.
  const std::string& expression() const { return expression_; }
  // Values that meet the condition. Null for a negated condition: all other values, or no label.
  const std::vector<std::string>* allowed() const { return negated_ ? nullptr : &values_; }

 private:
  std::string key_;
  std::string expression_;
  bool negated_ = false;
  std::vector<std::string> values_;
};

// Parses every pair of `selector`. All conditions must hold.
Result<std::vector<LabelMatch>> parse_label_selector(const Labels& selector);

// Returns true if one node can meet all conditions, which concern the same label.
bool can_all_be_met(const std::vector<LabelMatch>& conditions);

// The selector of a request and its fallbacks, in order of preference. Without a selector, all
// labels match; with a syntax error, none match.
class LabelChoices {
 public:
  LabelChoices() = default;
  explicit LabelChoices(const Request& request);

  bool meets(const Labels& labels) const;
  // The first unmet condition of the first selector; null if any selector is met.
  const LabelMatch* missed(const Labels& labels) const;
  bool has_fallbacks() const { return choices_.size() > 1; }
  // Returns true if no selector exists, so that all nodes are equivalent.
  bool empty() const { return choices_.empty(); }
  // The selectors as separate choices.
  std::vector<LabelChoices> each() const;
  const std::string& error() const { return error_; }

 private:
  std::vector<std::vector<LabelMatch>> choices_;  // empty: all labels match
  std::string error_;
};

// Keys: an optional DNS prefix with '/', then up to 63 of [A-Za-z0-9_.-], alphanumeric at both
// ends. Values: the same without prefix, or empty.
Result<void> check_labels(const Labels& labels);

}  // namespace mobula::internal
