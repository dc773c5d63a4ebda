// The one list of fields of a plain struct: encode, decode, print, compare and hash all walk it, so
// a field is named in one place. A struct takes part by declaring
//
//   template <class Visit>
//   static constexpr auto fields(Visit visit) {
//     return visit(field("slot", &Grant::slot), ...);
//   }
//
// A template, so that only code that walks a list pays for compiling it. The list is append-only
// once a struct travels: readers skip what they do not know and default what is missing.
// Compile-time only.
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>

namespace mobula::internal {

template <class Owner, class Member>
struct Field {
  std::string_view name;
  Member Owner::*member;
};

template <class Owner, class Member>
constexpr Field<Owner, Member> field(std::string_view name, Member Owner::*member) {
  return {name, member};
}

struct CountFields {
  template <class... Fields>
  constexpr std::size_t operator()(const Fields&...) const {
    return sizeof...(Fields);
  }
};

template <class T>
concept HasFields = requires {
  T::fields(CountFields{});
};

template <HasFields T>
inline constexpr std::size_t field_count = T::fields(CountFields{});

// Calls visit(name, member) for each field of `object` in order.
template <HasFields T, class Visit>
constexpr void for_each_field(T& object, Visit&& visit) {
  std::remove_const_t<T>::fields(
      [&](const auto&... each) { (visit(each.name, object.*(each.member)), ...); });
}

}  // namespace mobula::internal
