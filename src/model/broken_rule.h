// What is wrong with something that was asked for: which member, the rule it breaks, and what was given. For
// whoever asked, as an error of the public interface or as text. Plain values.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace mobula::internal {

struct BrokenRule {
  std::string field;
  std::string rule;
  std::string given;
};

// Nothing: the rules are kept.
using Breach = std::optional<BrokenRule>;

// "num_gpus: an amount of devices is below 1 or whole; given: 1.5".
inline std::string to_string(const BrokenRule& broken) {
  return broken.field + ": " + broken.rule + "; given: " + broken.given;
}
inline Failure failure_of(const BrokenRule& broken) {
  return failure(ErrorCode::invalid_argument, to_string(broken));
}

}  // namespace mobula::internal
