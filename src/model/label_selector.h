// Conditions on node labels: "v", "!v", "in(a,b)", "!in(a,b)". A node without the label meets the
// negated forms. Also the syntax of labels themselves (that of Kubernetes). Plain values.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/request.h"

namespace mobula::internal {

class LabelMatch {
 public:
  // invalid_argument, with the rule, for a bad key or expression.
  static Result<LabelMatch> parse(const std::string& key, std::string_view expression);

  bool matches(const Labels& labels) const;
  const std::string& key() const { return key_; }
  // As it was written, for reasons.
  const std::string& expression() const { return expression_; }
  // Those that meet it; nothing: all but a few, and having no label at all.
  const std::vector<std::string>* allowed() const { return negated_ ? nullptr : &values_; }

 private:
  std::string key_;
  std::string expression_;
  bool negated_ = false;
  std::vector<std::string> values_;
};

// Every pair of `selector` as a condition; all must hold.
Result<std::vector<LabelMatch>> parse_label_selector(const Labels& selector);

// Whether one node can meet all of them; they are conditions on the same label.
bool can_all_be_met(const std::vector<LabelMatch>& conditions);

// The selector of a request and those that may stand in its place, in order of preference. What has none
// is met by all labels; one with a syntax error by none.
class LabelChoices {
 public:
  LabelChoices() = default;
  explicit LabelChoices(const Request& request);

  bool meets(const Labels& labels) const;
  // The first condition of the first selector that is not met; nothing if one of them is met.
  const LabelMatch* missed(const Labels& labels) const;
  bool has_fallbacks() const { return choices_.size() > 1; }
  // Asks for something, so that not all nodes are alike to it.
  bool empty() const { return choices_.empty(); }
  // The selectors one by one.
  std::vector<LabelChoices> each() const;
  const std::string& error() const { return error_; }

 private:
  std::vector<std::vector<LabelMatch>> choices_;  // none: all labels meet it
  std::string error_;
};

// Keys: an optional DNS prefix with '/', then up to 63 of [A-Za-z0-9_.-], alphanumeric at both
// ends.
// Values: the same without prefix, or empty.
Result<void> check_labels(const Labels& labels);

}  // namespace mobula::internal
