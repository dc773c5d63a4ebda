// A value or none, as std::optional, whose copies share the value until one of them is changed: for
// what is large, kept in several places and seldom changed. Copying it costs a count. Reading
// through a const one never copies; writing through `*` or `->` of one that is not const copies the
// value first if others have it, too. Of one thread: copies in different threads must not be written.
#pragma once

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace mobula::internal {

template <class T>
class Shared {
 public:
  Shared() = default;
  Shared(std::nullopt_t) {}  // NOLINT: as std::optional
  template <class U>
    requires(std::is_constructible_v<T, U> && !std::is_same_v<std::remove_cvref_t<U>, Shared> &&
             !std::is_same_v<std::remove_cvref_t<U>, std::nullopt_t>)
  Shared(U&& value) : value_(std::make_shared<T>(std::forward<U>(value))) {}  // NOLINT: as std::optional

  bool has_value() const { return value_ != nullptr; }
  explicit operator bool() const { return has_value(); }
  const T& operator*() const { return *value_; }
  const T* operator->() const { return value_.get(); }
  T& operator*() { return own(); }
  T* operator->() { return &own(); }
  // The value to read, whether this is const or not.
  const T& read() const { return *value_; }

  void reset() { value_.reset(); }
  T& emplace() {
    value_ = std::make_shared<T>();
    return *value_;
  }
  // The value itself, copied only if others have it, too.
  std::optional<T> take() && {
    if (value_ == nullptr) return std::nullopt;
    std::optional<T> taken(std::in_place, std::move(own()));
    value_.reset();
    return taken;
  }

  friend bool operator==(const Shared& a, const Shared& b) {
    if (a.value_ == b.value_) return true;
    return a.value_ != nullptr && b.value_ != nullptr && *a.value_ == *b.value_;
  }

 private:
  T& own() {
    if (value_.use_count() > 1) value_ = std::make_shared<T>(std::as_const(*value_));
    return *value_;
  }

  std::shared_ptr<T> value_;  // shared is what this is for
};

}  // namespace mobula::internal
