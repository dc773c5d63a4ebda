// Conditions on node labels: "v", "!v", "in(a,b)", "!in(a,b)". A node without the label meets the
// negated forms. Also the syntax of labels themselves (that of Kubernetes). Plain values.
#pragma once

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

 private:
  std::string key_;
  std::string expression_;
  bool negated_ = false;
  std::vector<std::string> values_;
};

// Every pair of `selector` as a condition; all must hold.
Result<std::vector<LabelMatch>> parse_label_selector(const Labels& selector);

// Keys: an optional DNS prefix with '/', then up to 63 of [A-Za-z0-9_.-], alphanumeric at both
// ends.
// Values: the same without prefix, or empty.
Result<void> check_labels(const Labels& labels);

}  // namespace mobula::internal
