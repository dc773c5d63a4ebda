// The field list of a plain struct. Encode, decode, print, and scrub walk it. The list of a message
// is append-only: readers skip unknown fields and default missing ones.
// Thread: any (compile time only).
#pragma once

#include <array>
#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <type_traits>
#include <utility>

namespace mobula::internal {

// Lists all members of a struct in wire order. A list that omits a member does not compile if any
// code walks it.
//
//   struct Grant {
//     SlotId slot;
//     std::uint64_t number = 0;
//     MOBULA_FIELDS(slot, number);
//   };
#define MOBULA_FIELDS(...)                                     \
  template <class Visit>                                       \
  constexpr decltype(auto) visit_fields(Visit&& visit) {       \
    return visit(__VA_ARGS__);                                 \
  }                                                            \
  template <class Visit>                                       \
  constexpr decltype(auto) visit_fields(Visit&& visit) const { \
    return visit(__VA_ARGS__);                                 \
  }                                                            \
  static constexpr std::string_view field_list = #__VA_ARGS__

template <class T>
concept HasFields = requires {
  T::field_list;
};

constexpr std::size_t count_names(std::string_view list) {
  std::size_t count = list.empty() ? 0 : 1;
  for (const char each : list) count += each == ',' ? 1 : 0;
  return count;
}

template <HasFields T>
inline constexpr std::size_t field_count = count_names(T::field_list);

template <std::size_t Count>
constexpr std::array<std::string_view, Count> split_names(std::string_view list) {
  std::array<std::string_view, Count> names{};
  for (std::string_view& name : names) {
    const std::size_t comma = list.find(',');
    name = list.substr(0, comma);
    if (comma != list.npos) list.remove_prefix(list.find_first_not_of(' ', comma + 1));
  }
  return names;
}

// Names of the fields in the order of the list.
template <HasFields T>
inline constexpr auto field_names = split_names<field_count<T>>(T::field_list);

// Converts to a member of any type, to count the members of an aggregate. No code runs it.
struct AnyMember {
  explicit AnyMember(std::size_t) {}
  template <class Member>
  operator Member() const noexcept {
    std::abort();
  }
};

template <class T, std::size_t... Index>
constexpr bool has_members(std::index_sequence<Index...>) {
  return requires { T{AnyMember(Index)...}; };
}

template <std::size_t Count>
constexpr bool are_distinct(const std::array<std::string_view, Count>& names) {
  for (std::size_t i = 1; i < Count; ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (names[i] == names[k]) return false;
    }
  }
  return true;
}

// Fails to compile unless T is an aggregate and its list names each member once.
template <HasFields T>
constexpr bool check_fields() {
  static_assert(std::is_aggregate_v<T>, "a struct with MOBULA_FIELDS is an aggregate");
  static_assert(has_members<T>(std::make_index_sequence<field_count<T>>()),
                "MOBULA_FIELDS names more members than the struct has");
  static_assert(!has_members<T>(std::make_index_sequence<field_count<T> + 1>()),
                "MOBULA_FIELDS omits a member of the struct");
  static_assert(are_distinct(field_names<T>), "MOBULA_FIELDS names a member twice");
  return true;
}

// Returns visit(members...) with all fields of `object` in order.
template <HasFields T, class Visit>
constexpr decltype(auto) visit_fields(T& object, Visit&& visit) {
  static_assert(check_fields<std::remove_const_t<T>>());
  return object.visit_fields(std::forward<Visit>(visit));
}

// Calls visit(name, member) for each field of `object` in order.
template <HasFields T, class Visit>
constexpr void for_each_field(T& object, Visit&& visit) {
  visit_fields(object, [&](auto&... member) {
    [[maybe_unused]] std::size_t at = 0;
    (visit(field_names<std::remove_const_t<T>>[at++], member), ...);
  });
}

// Calls visit(name, left member, right member) for each field in order.
template <HasFields T, class Visit>
constexpr void for_each_field_pair(const T& left, const T& right, Visit&& visit) {
  visit_fields(left, [&](const auto&... left_member) {
    visit_fields(right, [&](const auto&... right_member) {
      [[maybe_unused]] std::size_t at = 0;
      (visit(field_names<T>[at++], left_member, right_member), ...);
    });
  });
}

}  // namespace mobula::internal
