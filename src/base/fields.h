// The one list of fields of a plain struct: encode, decode, print, compare and hash all walk it, so
// a field is named in one place. A struct takes part by declaring
//
//   static constexpr auto fields() { return field_list(field("slot", &Grant::slot), ...); }
//
// The list is append-only once a struct travels: readers skip what they do not know and default
// what is missing. Compile-time only.
#pragma once

#include <string_view>
#include <tuple>
#include <utility>

namespace mobula::internal {

template <class Owner, class Member>
struct Field {
  std::string_view name;
  Member Owner::* member;
};

template <class Owner, class Member>
constexpr Field<Owner, Member> field(std::string_view name, Member Owner::* member) {
  return {name, member};
}

template <class... Fields>
constexpr std::tuple<Fields...> field_list(Fields... fields) {
  return {fields...};
}

template <class T>
concept HasFields = requires { T::fields(); };

template <class T>
inline constexpr std::size_t field_count = std::tuple_size_v<decltype(T::fields())>;

// Calls visit(name, member) for each field of `object` in order.
template <HasFields T, class Visit>
constexpr void for_each_field(T& object, Visit&& visit) {
  std::apply([&](const auto&... each) { (visit(each.name, object.*(each.member)), ...); },
             std::remove_const_t<T>::fields());
}

}  // namespace mobula::internal
