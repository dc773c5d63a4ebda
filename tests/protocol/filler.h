// Makes values of any type with a field list, with no field at its default, and equal in every
// build. Tests use them to detect a field that a codec omits.
// Thread: owner (test).
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/fields.h"
#include "protocol/codec/codec.h"

namespace mobula::internal::test {

class Filler {
 public:
  explicit Filler(std::uint64_t start = 1) : next_(start) {}

  void fill(bool& value) { value = !value; }
  void fill(std::string& value) { value = "text " + std::to_string(number()); }
  void fill(Bytes& value) { value = {std::byte{7}, static_cast<std::byte>(number() & 0xff)}; }
  void fill(Payload& value) {
    Bytes bytes;
    fill(bytes);
    value = Payload(std::move(bytes));
  }
  void fill(Quantity& value) { value = Quantity::from_units(wide()); }
  void fill(Duration& value) { value = Duration(wide()); }
  void fill(Hash128& value) { value = {number() << 40, number()}; }
  void fill(ResourceSet& value) {
    value.set("CPU", Quantity::from_units(wide()));
    // In this order for every compiler, because golden bytes contain both.
    const auto quantity = Quantity::from_units(wide());
    value.set("custom " + std::to_string(number()), quantity);
  }
  void fill(Failure& value) {
    value = {ErrorCode::timed_out, "failure " + std::to_string(number())};
  }
  template <class Tag>
  void fill(Id<Tag>& value) {
    value = Id<Tag>(Hash128{number(), number() << 8});
  }
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) void fill(T& value) {
    // Alternates between small values and values near the limit of the type.
    const T standard = value;
    const T small = static_cast<T>(number() % 100 + 3);
    value = next_ % 3 == 0 ? static_cast<T>(std::numeric_limits<T>::max() - small) : small;
    if constexpr (std::is_signed_v<T>) {
      if (next_ % 5 == 0) value = static_cast<T>(-value);
    }
    if (value == standard) value = static_cast<T>(value + 1);
  }
  template <class T>
  requires std::is_enum_v<T>
  void fill(T& value) {
    value = static_cast<T>(static_cast<std::underlying_type_t<T>>(value) == 1 ? 2 : 1);
  }
  template <class T, class Allocator>
  void fill(std::vector<T, Allocator>& values) {
    for (int i = 0; i < 2; ++i) {
      values.emplace_back();
      fill(values.back());
    }
  }
  template <class T>
  void fill(std::optional<T>& value) {
    fill(value.emplace());
  }
  template <class T>
  void fill(CopyOnWrite<T>& value) {
    fill(value.edit());
  }
  template <class K, class V>
  void fill(std::map<K, V>& values) {
    for (int i = 0; i < 2; ++i) {
      K key{};
      fill(key);
      fill(values[key]);
    }
  }
  template <class A, class B>
  void fill(std::pair<A, B>& value) {
    fill(value.first);
    fill(value.second);
  }
  // Any alternative but the first, which is the default; rotates through all of them.
  template <class... T>
  void fill(std::variant<T...>& value) {
    const std::size_t which = sizeof...(T) == 1 ? 0 : 1 + choices_++ % (sizeof...(T) - 1);
    emplace(value, which, std::index_sequence_for<T...>());
  }
  template <HasFields T>
  void fill(T& value) {
    for_each_field(value, [&](std::string_view, auto& member) { fill(member); });
  }

 private:
  template <class Variant, std::size_t... Index>
  void emplace(Variant& value, std::size_t which, std::index_sequence<Index...>) {
    ((which == Index ? fill(value.template emplace<Index>()) : void()), ...);
  }
  std::uint64_t number() { return next_++; }
  std::int64_t wide() { return static_cast<std::int64_t>(number()) * 1'000'003; }

  std::uint64_t next_;
  std::size_t choices_ = 0;
};

template <class T>
T filled(std::uint64_t start = 1) {
  T value{};
  Filler(start).fill(value);
  return value;
}

}  // namespace mobula::internal::test
