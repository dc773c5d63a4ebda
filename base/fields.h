// The one field list of a plain struct: encode, decode, print, compare, and hash walk it. A list of
// a message is append-only: readers skip unknown fields and default missing ones.
// Thread: any (compile time only).
#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>

namespace mobula::internal {

// A struct takes part with this member. It is a template, so only code that walks a list compiles
// it.
//
//   template <class Visit>
//   static constexpr auto fields(Visit visit) {
//     return visit(field("slot", &Grant::slot), ...);
//   }

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
