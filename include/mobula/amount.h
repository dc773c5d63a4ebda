// Amounts of resources, labels of nodes and lengths of time, as options and placement groups speak of
// them. Values.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <type_traits>

namespace mobula {

// A number of CPUs, GPUs or other resources, from any number: an int is no narrowing error.
class Amount {
 public:
  constexpr Amount() = default;
  template <class Number>
  requires std::is_arithmetic_v<Number>
  constexpr Amount(Number number) : value_(static_cast<double>(number)) {}  // NOLINT: implicit

  constexpr double value() const { return value_; }
  constexpr operator double() const { return value_; }  // NOLINT: implicit

 private:
  double value_ = 0;
};

using Resources = std::map<std::string, Amount>;
using Labels = std::map<std::string, std::string>;
// Seconds; every std::chrono duration converts to it.
using Duration = std::chrono::duration<double>;

}  // namespace mobula
