// Names of types and functions as the compiler spells them, known at compile time, and one spelling
// for all compilers.
// Thread: any.
// Not: unique (two lambdas, two anonymous namespaces).
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

// A spelling of g++ or clang++, and the one that stands for both.
struct Spelling {
  std::string_view compiler;
  std::string_view common;
};
inline constexpr Spelling spellings[] = {
    {"{anonymous}", "(anonymous namespace)"},
    {"std::__cxx11::basic_string<char>", "std::string"},
    {"std::basic_string<char>", "std::string"},
    {"std::__cxx11::", "std::"},
    {"long long unsigned int", "unsigned long long"},
    {"long long int", "long long"},
    {"long unsigned int", "unsigned long"},
    {"long int", "long"},
    {"short unsigned int", "unsigned short"},
    {"short int", "short"},
    {" >", ">"},
};
// Default arguments of standard templates, which only some compilers spell.
inline constexpr std::string_view default_arguments[] = {
    ", std::allocator<", ", std::less<",        ", std::hash<",
    ", std::equal_to<",  ", std::char_traits<", ", std::default_delete<"};

// Removes the next piece from `rest` and returns its common spelling.
constexpr std::string_view take_common_spelling(std::string_view& rest) {
  const char first = rest.front();
  if (first == ',') {
    for (const std::string_view each : default_arguments) {
      if (!rest.starts_with(each)) continue;
      std::size_t end = each.size();
      for (int open = 1; open > 0 && end < rest.size(); ++end)
        open += rest[end] == '<' ? 1 : rest[end] == '>' ? -1 : 0;
      rest.remove_prefix(end);
      return {};
    }
  }
  if (first == '{' || first == 's' || first == 'l' || first == ' ') {
    for (const Spelling& each : spellings) {
      if (!rest.starts_with(each.compiler)) continue;
      rest.remove_prefix(each.compiler.size());
      return each.common;
    }
  }
  const std::string_view piece = rest.substr(0, 1);
  rest.remove_prefix(1);
  return piece;
}

// Continues `state` by a compiler's spelling of a name, alike for all compilers.
constexpr std::uint64_t mix_name(std::uint64_t state, std::string_view spelled) {
  while (!spelled.empty()) state = mix(state, take_common_spelling(spelled));
  return state;
}

}  // namespace mobula::detail
