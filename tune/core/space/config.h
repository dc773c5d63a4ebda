// Values of parameters, and the configuration of one trial.
// Thread: owner (plain values). Errors: Config::get throws MissingParameter; the resolver of
// sample_from functions catches it.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace mobula::internal::tune {

// A number, an integer, a boolean, or a text. Numbers of different kinds compare as in Python.
class Value {
 public:
  Value() : value_(std::int64_t{0}) {}
  template <class Number>
  requires std::is_arithmetic_v<Number> Value(
      Number number) {  // NOLINT: implicit, as in the public API
    if constexpr (std::is_same_v<Number, bool>)
      value_ = number;
    else if constexpr (std::is_integral_v<Number>)
      value_ = static_cast<std::int64_t>(number);
    else
      value_ = static_cast<double>(number);
  }
  Value(const char* text) : value_(std::string(text)) {}  // NOLINT: implicit
  Value(std::string text) : value_(std::move(text)) {}    // NOLINT: implicit

  bool is_truth() const { return std::holds_alternative<bool>(value_); }
  bool is_integer() const { return std::holds_alternative<std::int64_t>(value_); }
  bool is_number() const { return std::holds_alternative<double>(value_); }
  bool is_text() const { return std::holds_alternative<std::string>(value_); }
  // The value as a number; 0 for a text.
  double number() const;
  // The value as an integer, cut towards zero; 0 for a text.
  std::int64_t integer() const;
  bool truth() const { return is_text() ? !text().empty() : number() != 0; }
  // Empty unless is_text().
  const std::string& text() const;

  friend bool operator==(const Value& a, const Value& b);

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    auto parts = self.parts();
    archive(parts.kind, parts.bits, parts.text);
    if constexpr (!std::is_const_v<Self>) self = of_parts(parts);
  }

 private:
  struct Parts {
    unsigned char kind = 0;
    std::uint64_t bits = 0;
    std::string text = {};
  };
  Parts parts() const;
  static Value of_parts(const Parts& parts);

  std::variant<bool, std::int64_t, double, std::string> value_;
};

// Readable form, as in error messages: `0.5`, `3`, `true`, `'adam'`.
std::string to_string(const Value& value);

struct MissingParameter {
  std::string name;
};

// The parameters of one trial, in the order of the space. A nested name has slashes.
class Config {
 public:
  Config() = default;
  Config(std::initializer_list<std::pair<std::string, Value>> values) : values_(values) {}

  bool has(std::string_view name) const { return find(name) != nullptr; }
  // nullptr if the configuration lacks the parameter.
  const Value* find(std::string_view name) const;
  // Throws MissingParameter.
  const Value& get(std::string_view name) const;
  // Replaces the value, or appends the parameter.
  void set(std::string_view name, Value value);
  void reserve(std::size_t count) { values_.reserve(count); }

  std::size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

  friend bool operator==(const Config&, const Config&) = default;

  template <class Self, class Archive>
  static void fields(Self& self, Archive& archive) {
    archive(self.values_);
  }

 private:
  std::vector<std::pair<std::string, Value>> values_;
};

std::string to_string(const Config& config);

}  // namespace mobula::internal::tune
