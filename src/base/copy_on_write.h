// A value that several holders have in common: copying one counts, and who changes it first gets a copy
// of its own unless nobody else has it. Empty, it is a default value. What is reached through it may be
// read on any thread; `edit` is for a value whose other holders, if it has any, are on the same thread.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "base/recycled.h"

namespace mobula::internal {

template <class T>
class CopyOnWrite {
 public:
  CopyOnWrite() = default;
  template <class U = T>
    requires(std::is_convertible_v<U&&, T> && !std::is_same_v<std::remove_cvref_t<U>, CopyOnWrite>)
  CopyOnWrite(U&& value) : value_(make_recycled<T>(std::forward<U>(value))) {}  // NOLINT: a value is one, held alone

  const T& operator*() const { return value_ ? *value_ : standard(); }
  const T* operator->() const { return &**this; }
  T& edit() {
    if (!value_ || value_.use_count() > 1) value_ = make_recycled<T>(**this);
    return *value_;
  }
  // The value itself, copied only if others have it, too.
  T take() && { return std::move(edit()); }
  bool is_empty() const { return value_ == nullptr; }
  bool is_same(const CopyOnWrite& other) const { return value_ == other.value_; }
  friend bool operator==(const CopyOnWrite& a, const CopyOnWrite& b) { return a.is_same(b) || *a == *b; }

 private:
  static const T& standard() {
    static const T value{};
    return value;
  }

  std::shared_ptr<T> value_;
};

}  // namespace mobula::internal
