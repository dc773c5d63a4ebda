// Reads and writes the state of schedulers and searchers as bytes, for snapshots. A class lists its
// members once, in `static void fields(Self&, Archive&)`. Doubles keep their bits, NaN included.
// Thread: owner. Errors: a reader at malformed bytes sets failed() and leaves values as they are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"

namespace mobula::internal::tune {

class StateWriter {
 public:
  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }
  std::string take() { return std::move(bytes_); }

 private:
  template <class T>
  void put(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      std::array<char, sizeof(T)> raw{};
      std::memcpy(raw.data(), &value, sizeof(T));
      bytes_.append(raw.data(), raw.size());
    } else {
      T::fields(value, *this);
    }
  }
  void put(const std::string& text) {
    put(static_cast<std::uint64_t>(text.size()));
    bytes_ += text;
  }
  template <class T>
  void put(const std::optional<T>& value) {
    put(value.has_value());
    if (value) put(*value);
  }
  template <class A, class B>
  void put(const std::pair<A, B>& value) {
    put(value.first);
    put(value.second);
  }
  template <class T, std::size_t N>
  void put(const std::array<T, N>& values) {
    for (const T& value : values) put(value);
  }
  template <class T>
  void put(const std::vector<T>& values) {
    put_all(values);
  }
  template <class T>
  void put(const std::deque<T>& values) {
    put_all(values);
  }
  template <class K, class V>
  void put(const std::map<K, V>& values) {
    put_all(values);
  }
  template <class T>
  void put(const std::set<T>& values) {
    put_all(values);
  }
  template <class Values>
  void put_all(const Values& values) {
    put(static_cast<std::uint64_t>(values.size()));
    for (const auto& value : values) put(value);
  }

  std::string bytes_;
};

class StateReader {
 public:
  explicit StateReader(std::string_view bytes) : bytes_(bytes) {}

  template <class... T>
  void operator()(T&... values) {
    (get(values), ...);
  }
  bool failed() const { return failed_; }
  // True if all bytes were read and none was malformed.
  bool finished() const { return !failed_ && bytes_.empty(); }

 private:
  template <class T>
  void get(T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
      if (bytes_.size() < sizeof(T)) {
        failed_ = true;
        return;
      }
      std::memcpy(&value, bytes_.data(), sizeof(T));
      bytes_.remove_prefix(sizeof(T));
    } else {
      T::fields(value, *this);
    }
  }
  // A count of elements; each takes at least one byte.
  std::uint64_t count() {
    std::uint64_t size = 0;
    get(size);
    if (size > bytes_.size()) failed_ = true;
    return failed_ ? 0 : size;
  }
  void get(std::string& text) {
    const auto size = static_cast<std::size_t>(count());
    text.assign(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
  }
  template <class T>
  void get(std::optional<T>& value) {
    bool present = false;
    get(present);
    value.reset();
    if (present && !failed_) get(value.emplace());
  }
  template <class A, class B>
  void get(std::pair<A, B>& value) {
    get(value.first);
    get(value.second);
  }
  template <class T, std::size_t N>
  void get(std::array<T, N>& values) {
    for (T& value : values) get(value);
  }
  template <class T>
  void get(std::vector<T>& values) {
    get_all(values);
  }
  template <class T>
  void get(std::deque<T>& values) {
    get_all(values);
  }
  template <class Values>
  void get_all(Values& values) {
    const std::uint64_t size = count();
    values.clear();
    for (std::uint64_t i = 0; i < size && !failed_; ++i) get(values.emplace_back());
  }
  template <class K, class V>
  void get(std::map<K, V>& values) {
    const std::uint64_t size = count();
    values.clear();
    for (std::uint64_t i = 0; i < size && !failed_; ++i) {
      K key{};
      get(key);
      get(values[key]);
    }
  }
  template <class T>
  void get(std::set<T>& values) {
    const std::uint64_t size = count();
    values.clear();
    for (std::uint64_t i = 0; i < size && !failed_; ++i) {
      T value{};
      get(value);
      values.insert(value);
    }
  }

  std::string_view bytes_;
  bool failed_ = false;
};

template <class T>
std::string save_state(const T& object) {
  StateWriter writer;
  T::fields(object, writer);
  return writer.take();
}

// On failure, parts of `object` have changed; discard it.
template <class T>
Result<void> load_state(T& object, std::string_view bytes, const char* kind) {
  StateReader reader(bytes);
  T::fields(object, reader);
  if (reader.finished()) return {};
  return failure(ErrorCode::corrupt, std::string("load ") + kind + ": malformed state of " +
                                         std::to_string(bytes.size()) +
                                         " bytes; resume from the previous snapshot");
}

}  // namespace mobula::internal::tune
