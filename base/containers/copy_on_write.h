// A reference-counted value: copies share it, and `edit` first makes a private copy unless it has a
// single holder. An empty one equals a default value.
// Thread: any for reads; owner for `edit` (all holders on one thread).
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "base/containers/block_pool.h"

namespace mobula::internal {

template <class T>
class CopyOnWrite {
 public:
  CopyOnWrite() = default;
  template <class U = T>
  requires(std::is_convertible_v<U&&, T> && !std::is_same_v<std::remove_cvref_t<U>, CopyOnWrite>)
      CopyOnWrite(U&& value)  // NOLINT: implicit, and `requires` excludes copies
      : value_(make_pooled<T>(std::forward<U>(value))) {}

  const T& operator*() const { return value_ ? *value_ : standard(); }
  const T* operator->() const { return &**this; }
  T& edit() {
    if (!value_ || value_.use_count() > 1) value_ = make_pooled<T>(**this);
    return *value_;
  }
  // Moves the value out; copies it only if it has other holders.
  T take() && { return std::move(edit()); }
  bool is_empty() const { return value_ == nullptr; }
  bool is_same(const CopyOnWrite& other) const { return value_ == other.value_; }
  friend bool operator==(const CopyOnWrite& a, const CopyOnWrite& b) {
    return a.is_same(b) || *a == *b;
  }

 private:
  static const T& standard() {
    static const T value{};
    return value;
  }

  std::shared_ptr<T> value_;
};

}  // namespace mobula::internal
