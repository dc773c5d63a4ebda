// A value that several holders have in common: copying one counts, and who changes it first gets a copy
// of its own unless nobody else has it. Empty, it is a default value. What is reached through it may be
// read on any thread; `edit` is for a value whose other holders, if it has any, are on the same thread.
#pragma once

#include <memory>
#include <utility>

namespace mobula::internal {

template <class T>
class CopyOnWrite {
 public:
  CopyOnWrite() = default;
  CopyOnWrite(T value) : value_(std::make_shared<T>(std::move(value))) {}  // NOLINT: a value is one, held alone

  const T& operator*() const { return value_ ? *value_ : standard(); }
  const T* operator->() const { return &**this; }
  T& edit() {
    if (!value_ || value_.use_count() > 1) value_ = std::make_shared<T>(**this);
    return *value_;
  }
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
