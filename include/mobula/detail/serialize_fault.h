// Finds the part of a type that cannot be serialized, so that the compile error names it:
// `can_be_serialized<std::mutex, Member<Job, "lock">>` is false for a `std::mutex` member.
// Thread: any; evaluated at compile time, and only for programs that do not compile.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>

#include <mobula/detail/shape.h>

namespace mobula::detail {

#if defined(__EDG__)

// For nvcc's front end, the position of the member replaces its name.
template <class T, std::size_t index>
struct Member {};
template <class T, std::size_t index>
using MemberAt = Member<T, index>;

#else

// Never defined: only addresses of its members are formed.
template <class T>
struct ProbeObject {
  T value;
};
template <class T>
extern ProbeObject<T> object;

template <class Pointer>
struct MemberAddress {
  Pointer pointer;
};

#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wundefined-var-template"
#endif
template <class T, std::size_t index>
constexpr auto address_of_member() {
  return visit_members(object<T>.value, [](auto&... members) {
    const auto pointer = std::get<index>(std::tuple(&members...));
    return MemberAddress<std::remove_const_t<decltype(pointer)>>{pointer};
  });
}
#if defined(__clang__)
#pragma clang diagnostic pop

// clang++ prints "{&object.value.lock}".
template <class T, MemberAddress address>
struct Member {};
template <class T, std::size_t index>
using MemberAt = Member<T, address_of_member<T, index>()>;

#else

template <MemberAddress MobulaMember>
constexpr std::string_view member_signature() {
  return __PRETTY_FUNCTION__;
}

// The signature ends with "(& object<Job>.ProbeObject<Job>::value.Job::lock)}; …]".
template <class T, std::size_t index>
constexpr std::string_view name_of_member() {
  std::string_view text = member_signature<address_of_member<T, index>()>();
  text = text.substr(0, text.find('}'));
  if (text.ends_with(')')) text.remove_suffix(1);
  return text.substr(text.find_last_of(".:") + 1);
}

template <std::size_t size>
struct Name {
  char text[size] = {};
};

template <class T, std::size_t index>
constexpr auto printable_name_of_member() {
  constexpr std::string_view text = name_of_member<T, index>();
  Name<text.size() + 1> name;
  std::copy(text.begin(), text.end(), name.text);
  return name;
}

// g++ prints "Name<5>{"lock"}".
template <class T, Name name>
struct Member {};
template <class T, std::size_t index>
using MemberAt = Member<T, printable_name_of_member<T, index>()>;
#endif
#endif

// The type is not a member: it is the type itself, or an element of a container.
struct NoMember {};

// Compilers print this name with its arguments: the type, and the member that has the type.
template <class Type, class Where>
inline constexpr bool can_be_serialized = false;

template <class Type, class Where>
struct SerializeFault {};

}  // namespace mobula::detail
