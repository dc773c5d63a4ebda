// `register_exception<E>()`: rethrows E as itself across processes. Call it at namespace scope, so
// that every process of the program registers E:
//
//   static const bool registered = mobula::register_exception<ParseError>();
//
// Thread: any.
#pragma once

#include <concepts>
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <mobula/detail/export.h>
#include <mobula/detail/value.h>
#include <mobula/errors.h>

namespace mobula {

namespace detail {

// Encodes and rethrows one type of exception.
struct ExceptionCodec {
  const std::type_info* type = nullptr;
  // The types of E with a nested exception: as std::throw_with_nested and Mobula make them.
  std::vector<const std::type_info*> with_nested = {};
  std::vector<std::byte> (*encode)(const std::exception& thrown) = nullptr;
  // Throws the exception with the handled exception nested in it. Returns if the bytes are not
  // valid.
  void (*rethrow)(std::span<const std::byte> bytes) = nullptr;
};

// Returns whether the codec is registered. A type that is already registered keeps its codec.
MOBULA_API bool add_exception(const ExceptionCodec& codec);

// Text of a rethrown exception: its own text, then the task, node, and process that threw it.
class MOBULA_API RemoteText {
 public:
  // `own` is the text of the exception. The task is that of the TaskError being handled, if there
  // is one.
  explicit RemoteText(const char* own);
  const std::string& own() const { return own_; }
  const std::string& full() const { return full_; }

 private:
  std::string own_;
  std::string full_;
};

// Returns the text of `thrown` without the task that `RemoteText` adds.
MOBULA_API std::string own_text(const std::exception& thrown);

template <class E>
struct WithNested final : E, std::nested_exception, RemoteText {
  explicit WithNested(E&& thrown) : E(std::move(thrown)), RemoteText(E::what()) {}
  const char* what() const noexcept override { return RemoteText::full().c_str(); }
};

// The types in which E may be wrapped when it is thrown with a nested exception.
template <class E>
std::vector<const std::type_info*> nested_types() {
  if constexpr (std::is_final_v<E> || std::is_base_of_v<std::nested_exception, E>) {
    return {};
  } else {
#ifdef __GLIBCXX__
    return {&typeid(WithNested<E>), &typeid(std::_Nested_exception<E>)};
#else
    return {&typeid(WithNested<E>)};
#endif
  }
}

template <class T>
std::vector<std::byte> to_bytes(const T& value) {
  const OutgoingValue<T> outgoing(value);
  std::vector<std::byte> bytes(outgoing.size_bytes());
  if (!outgoing.write(bytes)) outgoing.rethrow_failure();
  return bytes;
}

template <class E>
[[noreturn]] void throw_nested(E&& thrown) {
  if constexpr (std::is_final_v<E> || std::is_base_of_v<std::nested_exception, E>) {
    throw std::forward<E>(thrown);
  } else {
    throw WithNested<E>(std::forward<E>(thrown));
  }
}

// Encodes E with its `Serializer` if it has one, otherwise as its text.
template <class E>
std::vector<std::byte> encode_exception(const std::exception& thrown) {
  if constexpr (Custom<E>)
    return to_bytes<E>(dynamic_cast<const E&>(thrown));
  else
    return to_bytes<std::string>(own_text(thrown));
}

template <class E>
void rethrow_exception_from(std::span<const std::byte> bytes) {
  const StoredValue stored{.bytes = bytes};
  if constexpr (Custom<E>)
    throw_nested(decode<E>(stored));
  else
    throw_nested(E(decode<std::string>(stored)));
}

}  // namespace detail

// Registers a std::exception that has a constructor from a string, or a `Serializer`. It is
// rethrown as itself, with the `TaskError` nested. The standard exceptions are registered. Returns
// true.
template <class E>
bool register_exception() {
  constexpr bool derived = std::is_base_of_v<std::exception, E>;
  constexpr bool travels = detail::Custom<E> || std::is_constructible_v<E, std::string>;
  static_assert(derived, "mobula: register_exception<E> needs a class derived from std::exception");
  static_assert(!derived || travels,
                "mobula: register_exception<E> needs a constructor E(std::string) or a "
                "mobula::Serializer<E>");
  if constexpr (derived && travels) {
    detail::ExceptionCodec codec;
    codec.type = &typeid(E);
    codec.with_nested = detail::nested_types<E>();
    codec.encode = &detail::encode_exception<E>;
    codec.rethrow = &detail::rethrow_exception_from<E>;
    return detail::add_exception(codec);
  } else {
    return false;
  }
}

}  // namespace mobula
