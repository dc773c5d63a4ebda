// Values of parameters and metrics, and the configuration of one trial.
// Thread: any (values). Errors: InvalidRequestError for a value of another kind or an unknown name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <map>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <mobula/detail/export.h>
#include <mobula/serialize.h>

namespace mobula::tune {

// The direction of an objective.
enum class Mode : std::uint8_t {
  min,  // smaller values are better
  max   // larger values are better
};

// A number, an integer, a boolean, or a text.
class MOBULA_API Value {
 public:
  // The stored forms of a value.
  using Data = std::variant<bool, std::int64_t, double, std::string>;

  // Creates the integer 0.
  Value() : data_(std::int64_t{0}) {}
  // Converts a boolean, an integer, or a number.
  template <class Number>
  requires std::is_arithmetic_v<Number> Value(Number number) {  // NOLINT: implicit
    if constexpr (std::is_same_v<Number, bool>)
      data_ = number;
    else if constexpr (std::is_integral_v<Number>)
      data_ = static_cast<std::int64_t>(number);
    else
      data_ = static_cast<double>(number);
  }
  // Converts a text.
  Value(const char* text) : data_(std::string(text)) {}  // NOLINT: implicit
  // Converts a text.
  Value(std::string text) : data_(std::move(text)) {}  // NOLINT: implicit

  // Returns an integer or a number as a number.
  double number() const;
  // Returns an integer, or a number without a fraction.
  std::int64_t integer() const;
  // Returns a boolean.
  bool truth() const;
  // Returns a text.
  const std::string& text() const;
  // Returns the stored form.
  const Data& data() const { return data_; }

 private:
  Data data_;
};
// Compares values; an integer equals the same number.
MOBULA_API bool operator==(const Value& a, const Value& b);
// Writes the value without quotes; numbers with the digits that distinguish them.
MOBULA_API std::ostream& operator<<(std::ostream& out, const Value& value);

// The metrics of one report, by name.
using Metrics = std::map<std::string, Value>;

// One of several objectives.
struct Objective {
  std::string metric = {};  // name in the reports
  Mode mode = Mode::min;    // direction of the metric
};

// The parameters of one trial, by name. A nested name has slashes: "model/layers".
class MOBULA_API Config {
 public:
  // A name and its value.
  using Entry = std::pair<std::string, Value>;

  // Creates a configuration without parameters.
  Config() = default;
  // Creates a configuration with these parameters, in this order.
  Config(std::initializer_list<Entry> entries);

  // Returns a number.
  double number(const std::string& name) const;
  // Returns an integer.
  std::int64_t integer(const std::string& name) const;
  // Returns a boolean.
  bool truth(const std::string& name) const;
  // Returns a text.
  std::string text(const std::string& name) const;
  // Returns the value.
  const Value& at(const std::string& name) const;
  // Reports whether the parameter exists; false for an inactive conditional parameter.
  bool has(const std::string& name) const;
  // Replaces the value of a parameter, or appends the parameter.
  void set(const std::string& name, Value value);

  // Returns the number of parameters.
  std::size_t size() const { return entries_.size(); }
  // Returns the first parameter, in the order of the space.
  auto begin() const { return entries_.begin(); }
  // Returns the end of the parameters.
  auto end() const { return entries_.end(); }
  // Compares names, values, and their order.
  friend bool operator==(const Config&, const Config&) = default;

 private:
  std::vector<Entry> entries_;
};
// Writes `{lr: 0.01, opt: adam}`.
MOBULA_API std::ostream& operator<<(std::ostream& out, const Config& config);

}  // namespace mobula::tune

namespace mobula {

// Serializes values.
template <>
struct MOBULA_API Serializer<tune::Value> {
  // Writes the value.
  static void write(Writer& out, const tune::Value& value);
  // Reads a value.
  static tune::Value read(Reader& in);
};

// Serializes configurations.
template <>
struct MOBULA_API Serializer<tune::Config> {
  // Writes the parameters in their order.
  static void write(Writer& out, const tune::Config& config);
  // Reads a configuration.
  static tune::Config read(Reader& in);
};

}  // namespace mobula
