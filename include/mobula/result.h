// A value, or why there is none: what try_get returns. Value type; `value()` throws what `get`
// would have thrown.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include <mobula/errors.h>

namespace mobula {

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT
  Result(const detail::ErrorRecord& why)                                 // NOLINT
      : state_(std::in_place_index<1>, detail::make_error(why)) {}

  bool has_value() const { return state_.index() == 0; }
  explicit operator bool() const { return has_value(); }

  T& value() & { return require(), *std::get_if<0>(&state_); }
  const T& value() const& { return require(), *std::get_if<0>(&state_); }
  T&& value() && { return require(), std::move(*std::get_if<0>(&state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  // Only without a value. Of the class that `get` would have thrown; for a registered exception of
  // a task, the TaskError.
  const Error& error() const { return **std::get_if<1>(&state_); }

 private:
  void require() const {
    if (!has_value()) detail::throw_error(error().record());
  }

  std::variant<T, std::shared_ptr<const Error>> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(const detail::ErrorRecord& why) : error_(detail::make_error(why)) {}  // NOLINT

  bool has_value() const { return error_ == nullptr; }
  explicit operator bool() const { return has_value(); }
  void value() const {
    if (error_) detail::throw_error(error_->record());
  }
  const Error& error() const { return *error_; }

 private:
  std::shared_ptr<const Error> error_;
};

}  // namespace mobula
