// A value or a failure. A failure has a code, for callers that branch, and a text: operation,
// object, observation, remedy. A success allocates only the memory of T.
// Thread: owner (plain value).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "base/check.h"

namespace mobula::internal {

// Codes between which some caller distinguishes. Part of messages: append only.
enum class ErrorCode : unsigned char {
  not_found = 1,
  invalid_argument = 2,
  already_exists = 3,
  resource_exhausted = 4,
  unavailable = 5,
  timed_out = 6,
  corrupt = 7,
  cancelled = 8,
  permission_denied = 9,
};

std::string_view to_string(ErrorCode code);

struct Failure {
  ErrorCode code = ErrorCode::invalid_argument;
  std::string text;

  friend bool operator==(const Failure&, const Failure&) = default;
};

// Failure from an errno value: "open /x/y: Permission denied", with the nearest code.
Failure errno_failure(std::string what, int error_number);

inline Failure failure(ErrorCode code, std::string text) { return Failure{code, std::move(text)}; }

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}    // NOLINT: implicit
  Result(Failure why) : state_(std::in_place_index<1>, std::move(why)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  const T& value() const& {
    MOBULA_CHECK(ok(), error_text());
    return *std::get_if<0>(&state_);
  }
  T& value() & {
    MOBULA_CHECK(ok(), error_text());
    return *std::get_if<0>(&state_);
  }
  // By value, so that `for (auto& row : rows().value())` extends its lifetime.
  T value() && {
    MOBULA_CHECK(ok(), error_text());
    return std::move(*std::get_if<0>(&state_));
  }
  const T& operator*() const& { return value(); }
  T& operator*() & { return value(); }
  T operator*() && { return std::move(*this).value(); }
  const T* operator->() const { return &value(); }
  T* operator->() { return &value(); }

  const Failure& error() const {
    MOBULA_CHECK(!ok(), "error() of a success");
    return *std::get_if<1>(&state_);
  }

 private:
  std::string error_text() const { return ok() ? std::string() : std::get_if<1>(&state_)->text; }

  std::variant<T, Failure> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Failure why) : failure_(std::move(why)) {}  // NOLINT: implicit

  bool ok() const { return !failure_.has_value(); }
  explicit operator bool() const { return ok(); }
  void value() const { MOBULA_CHECK(ok(), failure_->text); }
  const Failure& error() const {
    MOBULA_CHECK(!ok(), "error() of a success");
    return *failure_;
  }

 private:
  std::optional<Failure> failure_;
};

}  // namespace mobula::internal
