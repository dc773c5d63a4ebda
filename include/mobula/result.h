// A value or an error: the return type of `try_get`.
// Thread: owner (plain value).
// Errors: `value` throws the exception that `get` would have thrown.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include <mobula/errors.h>

namespace mobula {

// A value of type T or an error.
template <class T>
class [[nodiscard]] Result {
 public:
  // Holds a value.
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit
  // Holds an error.
  Result(const detail::ErrorRecord& why)  // NOLINT: implicit
      : state_(std::in_place_index<1>, detail::make_error(why)) {}

  // Reports whether a value is present.
  bool has_value() const { return state_.index() == 0; }
  // Reports whether a value is present.
  explicit operator bool() const { return has_value(); }

  // Returns the value, or throws the error.
  T& value() & { return require(), *std::get_if<0>(&state_); }
  // Returns the value, or throws the error.
  const T& value() const& { return require(), *std::get_if<0>(&state_); }
  // Returns the value, or throws the error. The loop `for (auto& row : try_get(ref).value())`
  // extends the lifetime of the value.
  T value() && { return require(), std::move(*std::get_if<0>(&state_)); }
  // Returns the value, or throws the error.
  T& operator*() & { return value(); }
  // Returns the value, or throws the error.
  const T& operator*() const& { return value(); }
  // Returns the value, or throws the error.
  T operator*() && { return std::move(*this).value(); }
  // Accesses a member of the value, or throws the error.
  T* operator->() { return &value(); }
  // Accesses a member of the value, or throws the error.
  const T* operator->() const { return &value(); }

  // Returns the error; only valid without a value. It has the class that `get` would have thrown;
  // for a registered exception it is the `TaskError`.
  const Error& error() const { return **std::get_if<1>(&state_); }

 private:
  void require() const {
    if (!has_value()) detail::throw_error(error().record());
  }

  std::variant<T, std::shared_ptr<const Error>> state_;
};

// Success or an error.
template <>
class [[nodiscard]] Result<void> {
 public:
  // Holds success.
  Result() = default;
  // Holds an error.
  Result(const detail::ErrorRecord& why) : error_(detail::make_error(why)) {}  // NOLINT: implicit

  // Reports success.
  bool has_value() const { return error_ == nullptr; }
  // Reports success.
  explicit operator bool() const { return has_value(); }
  // Returns on success, or throws the error.
  void value() const {
    if (error_) detail::throw_error(error_->record());
  }
  // Returns the error; only valid without success.
  const Error& error() const { return *error_; }

 private:
  std::shared_ptr<const Error> error_;
};

}  // namespace mobula
