// A violated rule of a request: the member, the rule, and the given value. Becomes an error of the
// public interface or text.
// Thread: owner (plain values).
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace mobula::internal {

struct FieldError {
  std::string field;
  std::string rule;
  std::string given;
};

// Empty if all rules are met.
using Breach = std::optional<FieldError>;

// "num_gpus: an amount of devices is below 1 or whole; given: 1.5".
inline std::string to_string(const FieldError& broken) {
  return broken.field + ": " + broken.rule + "; given: " + broken.given;
}
inline Failure failure_of(const FieldError& broken) {
  return failure(ErrorCode::invalid_argument, to_string(broken));
}

}  // namespace mobula::internal
