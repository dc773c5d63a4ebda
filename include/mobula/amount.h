// Units of options: resource amounts, node labels, and durations.
// Thread: owner (plain values).
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <type_traits>

namespace mobula {

// An amount of a resource such as CPUs or GPUs. It converts from every arithmetic type, so that an
// int variable in an options struct is not a narrowing error.
class Amount {
 public:
  // Creates the amount 0.
  constexpr Amount() = default;
  // Converts a number to an amount.
  template <class Number>
  requires std::is_arithmetic_v<Number>
  constexpr Amount(Number number) : value_(static_cast<double>(number)) {}  // NOLINT: implicit

  // Returns the amount as a number.
  constexpr double value() const { return value_; }
  // Converts the amount to a number.
  constexpr operator double() const { return value_; }  // NOLINT: implicit

 private:
  double value_ = 0;
};

// Amounts by resource name, for example `{{"CPU", 2}, {"license", 0.5}}`.
using Resources = std::map<std::string, Amount>;
// Node labels or label conditions by name.
using Labels = std::map<std::string, std::string>;
// A duration in seconds. Every std::chrono duration converts to it.
using Duration = std::chrono::duration<double>;

}  // namespace mobula
