// Prints any value with a field list as JSON-like text, for traces and messages. Payloads appear
// only with their size.
// Thread: any.
#pragma once

#include <string>
#include <string_view>

#include "protocol/codec/codec.h"

namespace mobula::internal {

inline void describe(std::string& out, bool value) { out += value ? "true" : "false"; }
void describe(std::string& out, const std::string& value);
void describe(std::string& out, const Payload& value);
void describe(std::string& out, const Bytes& value);
void describe(std::string& out, const ResourceSet& value);
void describe(std::string& out, const Failure& value);
inline void describe(std::string& out, Quantity value) { out += value.to_string(); }
void describe(std::string& out, Duration value);
void describe(std::string& out, Time value);
void describe(std::string& out, Hash128 value);
template <class T>
requires(std::is_integral_v<T> || std::is_enum_v<T>) void describe(std::string& out, T value) {
  out += std::to_string(static_cast<std::int64_t>(value));
}
template <class Tag>
void describe(std::string& out, const Id<Tag>& value) {
  out += value.empty() ? "-" : value.brief();
}
template <class T, class Allocator>
void describe(std::string& out, const std::vector<T, Allocator>& values);
template <class T>
void describe(std::string& out, const std::optional<T>& value);
template <class K, class V>
void describe(std::string& out, const std::map<K, V>& values);
template <class A, class B>
void describe(std::string& out, const std::pair<A, B>& value);
template <class... T>
void describe(std::string& out, const std::variant<T...>& value);

template <class T>
void describe(std::string& out, const CopyOnWrite<T>& value) {
  describe(out, *value);
}

// Fields with their default value are omitted.
template <HasFields T>
void describe(std::string& out, const T& value) {
  const T standard{};
  bool first = true;
  out += '{';
  for_each_field_pair(value, standard,
                      [&](std::string_view name, const auto& member, const auto& standard_member) {
                        if (member == standard_member) return;
                        if (!first) out += ' ';
                        first = false;
                        out += name;
                        out += ':';
                        describe(out, member);
                      });
  out += '}';
}
template <class T, class Allocator>
void describe(std::string& out, const std::vector<T, Allocator>& values) {
  out += '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ' ';
    describe(out, values[i]);
  }
  out += ']';
}
template <class T>
void describe(std::string& out, const std::optional<T>& value) {
  if (value) {
    describe(out, *value);
  } else {
    out += '-';
  }
}
template <class K, class V>
void describe(std::string& out, const std::map<K, V>& values) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : values) {
    if (!first) out += ' ';
    first = false;
    describe(out, key);
    out += ':';
    describe(out, value);
  }
  out += '}';
}
template <class A, class B>
void describe(std::string& out, const std::pair<A, B>& value) {
  describe(out, value.first);
  out += '=';
  describe(out, value.second);
}
// The name of a struct without namespaces, parsed from the function name of gcc or clang.
template <class T>
constexpr std::string_view struct_name() {
  constexpr std::string_view begin = "T = ";
  std::string_view name = __PRETTY_FUNCTION__;
  name.remove_prefix(name.find(begin) + begin.size());
  name = name.substr(0, name.find_first_of(";]"));
  const auto colon = name.rfind(':');
  return colon == std::string_view::npos ? name : name.substr(colon + 1);
}

template <class... T>
void describe(std::string& out, const std::variant<T...>& value) {
  std::visit(
      [&](const auto& each) {
        out += struct_name<std::remove_cvref_t<decltype(each)>>();
        describe(out, each);
      },
      value);
}

template <class T>
std::string describe(const T& value) {
  std::string out;
  describe(out, value);
  return out;
}

}  // namespace mobula::internal
