// Names of types and functions as the compiler spells them, known at compile time.
// Thread: any.
// Not: unique (two lambdas, two anonymous namespaces). They serve messages, and fingerprints within
// one program.
#pragma once

#include <cstdint>
#include <string_view>

namespace mobula::detail {

template <class MobulaNamed>
constexpr std::string_view type_signature() {
  return __PRETTY_FUNCTION__;
}

template <auto MobulaNamed>
constexpr std::string_view value_signature() {
  return __PRETTY_FUNCTION__;
}

// Returns the part after the equals sign of "… [with auto MobulaNamed = f; …]" or
// "… [MobulaNamed = &f]".
constexpr std::string_view named_in(std::string_view signature) {
  constexpr std::string_view mark = "MobulaNamed = ";
  signature.remove_prefix(signature.find(mark) + mark.size());
  const auto alias = signature.rfind("; std::string_view = ");
  signature = signature.substr(0, alias == std::string_view::npos ? signature.rfind(']') : alias);
  if (!signature.empty() && signature.front() == '&') signature.remove_prefix(1);
  constexpr std::string_view closure = "<lambda closure object>";
  if (signature.starts_with(closure)) signature.remove_prefix(closure.size());
  return signature;
}

template <class T>
inline constexpr std::string_view type_name = named_in(type_signature<T>());

template <auto F>
inline constexpr std::string_view value_name = named_in(value_signature<F>());

// FNV-1a, continued from `state`.
constexpr std::uint64_t mix(std::uint64_t state, std::string_view text) {
  for (const char c : text) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return state;
}

constexpr std::uint64_t mix(std::uint64_t state, std::uint64_t number) {
  for (int byte = 0; byte < 8; ++byte) {
    state = (state ^ (number & 0xff)) * 0x100000001b3ULL;
    number >>= 8;
  }
  return state;
}

inline constexpr std::uint64_t mix_start = 0xcbf29ce484222325ULL;

}  // namespace mobula::detail
