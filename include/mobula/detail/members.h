// The members of an aggregate: their number, their types, and a visit to each. For aggregates of up
// to 64 members without bases and C arrays.
// Thread: any; decided at compile time.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

namespace mobula::detail {

// Converts to any type; `AnyBaseOf<T>` converts to the bases of T. Never called, only tested for
// convertibility. They have bodies because compilers require one for types without linkage.
struct Anything {
  template <class T>
  operator T() const noexcept {
    __builtin_unreachable();
  }
};

template <class T>
struct AnyBaseOf {
  template <class U>
  requires(std::is_base_of_v<U, T> && !std::is_same_v<U, T>) operator U() const noexcept {
    __builtin_unreachable();
  }
};

template <std::size_t>
using AnythingAt = Anything;

template <class T, class... Initializers>
concept braces_accept = requires {
  T{Initializers{}...};
};

inline constexpr std::size_t max_members = 64;
inline constexpr std::size_t no_members = max_members + 1;

// The largest number of initializers that T accepts. Members without a default reject small
// numbers, so the search begins at a number that succeeds.
template <class T, class... So>
constexpr std::size_t count_initializers() {
  if constexpr (sizeof...(So) > max_members) {
    return no_members;
  } else if constexpr (braces_accept<T, So...> && !braces_accept<T, So..., Anything>) {
    return sizeof...(So);
  } else {
    return count_initializers<T, So..., Anything>();
  }
}

template <class T, std::size_t... Before, std::size_t... After>
constexpr bool accepts_empty_at(std::index_sequence<Before...>, std::index_sequence<After...>) {
  return requires { T{AnythingAt<Before>{}..., {}, AnythingAt<After>{}...}; };
}

// Whether initializer `index` of `count` is the first of several elements of one C array. A {} in
// its place initializes the whole array, so that the remaining initializers no longer fit.
template <class T, std::size_t count, std::size_t index>
constexpr bool starts_array() {
  using Before = std::make_index_sequence<index>;
  if constexpr (accepts_empty_at<T>(Before{}, std::make_index_sequence<count - index - 1>{})) {
    return false;
  } else {
    // A member without a default rejects {} for every number of following initializers.
    return []<std::size_t... Fewer>(std::index_sequence<Fewer...>) {
      return (accepts_empty_at<T>(Before{}, std::make_index_sequence<Fewer>{}) || ...);
    }
    (std::make_index_sequence<count - index - 1>{});
  }
}

template <class T, std::size_t count>
constexpr bool holds_array() {
  return []<std::size_t... I>(std::index_sequence<I...>) {
    return (starts_array<T, count, I>() || ...);
  }
  (std::make_index_sequence<count>{});
}

template <class T>
constexpr std::size_t count_members() {
  if constexpr (!std::is_aggregate_v<T> || std::is_array_v<T> || std::is_union_v<T>) {
    return no_members;
  } else if constexpr (braces_accept<T, AnyBaseOf<T>>) {
    return no_members;
  } else if constexpr (count_initializers<T>() == no_members) {
    return no_members;
  } else if constexpr (holds_array<T, count_initializers<T>()>()) {
    return no_members;
  } else {
    return count_initializers<T>();
  }
}

// `no_members` if T is not an aggregate whose members can be visited.
template <class T>
inline constexpr std::size_t member_count = count_members<T>();

// Structured bindings accept no pack, so each number of members has its own line.
#define MOBULA_MEMBERS(count, ...)                   \
  else if constexpr (member_count<Plain> == count) { \
    auto& [__VA_ARGS__] = object;                    \
    return visit(__VA_ARGS__);                       \
  }
#define MOBULA_OCTET_0 m0, m1, m2, m3, m4, m5, m6, m7
#define MOBULA_OCTET_1 m8, m9, m10, m11, m12, m13, m14, m15
#define MOBULA_OCTET_2 m16, m17, m18, m19, m20, m21, m22, m23
#define MOBULA_OCTET_3 m24, m25, m26, m27, m28, m29, m30, m31
#define MOBULA_OCTET_4 m32, m33, m34, m35, m36, m37, m38, m39
#define MOBULA_OCTET_5 m40, m41, m42, m43, m44, m45, m46, m47
#define MOBULA_OCTET_6 m48, m49, m50, m51, m52, m53, m54, m55
#define MOBULA_OCTET_7 m56, m57, m58, m59, m60, m61, m62, m63

// Calls visit(member...) with lvalues of all members.
template <class T, class Visit>
constexpr decltype(auto) visit_members(T& object, Visit&& visit) {
  using Plain = std::remove_const_t<T>;
  if constexpr (member_count<Plain> == 0) {
    return visit();
  }
  MOBULA_MEMBERS(1, m0)
  MOBULA_MEMBERS(2, m0, m1)
  MOBULA_MEMBERS(3, m0, m1, m2)
  MOBULA_MEMBERS(4, m0, m1, m2, m3)
  MOBULA_MEMBERS(5, m0, m1, m2, m3, m4)
  MOBULA_MEMBERS(6, m0, m1, m2, m3, m4, m5)
  MOBULA_MEMBERS(7, m0, m1, m2, m3, m4, m5, m6)
  MOBULA_MEMBERS(8, MOBULA_OCTET_0)
  MOBULA_MEMBERS(9, MOBULA_OCTET_0, m8)
  MOBULA_MEMBERS(10, MOBULA_OCTET_0, m8, m9)
  MOBULA_MEMBERS(11, MOBULA_OCTET_0, m8, m9, m10)
  MOBULA_MEMBERS(12, MOBULA_OCTET_0, m8, m9, m10, m11)
  MOBULA_MEMBERS(13, MOBULA_OCTET_0, m8, m9, m10, m11, m12)
  MOBULA_MEMBERS(14, MOBULA_OCTET_0, m8, m9, m10, m11, m12, m13)
  MOBULA_MEMBERS(15, MOBULA_OCTET_0, m8, m9, m10, m11, m12, m13, m14)
  MOBULA_MEMBERS(16, MOBULA_OCTET_0, MOBULA_OCTET_1)
  MOBULA_MEMBERS(17, MOBULA_OCTET_0, MOBULA_OCTET_1, m16)
  MOBULA_MEMBERS(18, MOBULA_OCTET_0, MOBULA_OCTET_1, m16, m17)
  MOBULA_MEMBERS(19, MOBULA_OCTET_0, MOBULA_OCTET_1, m16, m17, m18)
  MOBULA_MEMBERS(20, MOBULA_OCTET_0, MOBULA_OCTET_1, m16, m17, m18, m19)
  MOBULA_MEMBERS(21, MOBULA_OCTET_0, MOBULA_OCTET_1, m16, m17, m18, m19, m20)
  MOBULA_MEMBERS(22, MOBULA_OCTET_0, MOBULA_OCTET_1, m16, m17, m18, m19, m20, m21)
  MOBULA_MEMBERS(23, MOBULA_OCTET_0, MOBULA_OCTET_1, m16, m17, m18, m19, m20, m21, m22)
  MOBULA_MEMBERS(24, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2)
  MOBULA_MEMBERS(25, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, m24)
  MOBULA_MEMBERS(26, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, m24, m25)
  MOBULA_MEMBERS(27, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, m24, m25, m26)
  MOBULA_MEMBERS(28, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, m24, m25, m26, m27)
  MOBULA_MEMBERS(29, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, m24, m25, m26, m27, m28)
  MOBULA_MEMBERS(30, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, m24, m25, m26, m27, m28, m29)
  MOBULA_MEMBERS(31, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, m24, m25, m26, m27, m28, m29,
                 m30)
  MOBULA_MEMBERS(32, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3)
  MOBULA_MEMBERS(33, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, m32)
  MOBULA_MEMBERS(34, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, m32, m33)
  MOBULA_MEMBERS(35, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, m32, m33, m34)
  MOBULA_MEMBERS(36, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, m32, m33, m34,
                 m35)
  MOBULA_MEMBERS(37, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, m32, m33, m34,
                 m35, m36)
  MOBULA_MEMBERS(38, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, m32, m33, m34,
                 m35, m36, m37)
  MOBULA_MEMBERS(39, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, m32, m33, m34,
                 m35, m36, m37, m38)
  MOBULA_MEMBERS(40, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4)
  MOBULA_MEMBERS(41, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 m40)
  MOBULA_MEMBERS(42, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 m40, m41)
  MOBULA_MEMBERS(43, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 m40, m41, m42)
  MOBULA_MEMBERS(44, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 m40, m41, m42, m43)
  MOBULA_MEMBERS(45, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 m40, m41, m42, m43, m44)
  MOBULA_MEMBERS(46, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 m40, m41, m42, m43, m44, m45)
  MOBULA_MEMBERS(47, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 m40, m41, m42, m43, m44, m45, m46)
  MOBULA_MEMBERS(48, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 MOBULA_OCTET_5)
  MOBULA_MEMBERS(49, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 MOBULA_OCTET_5, m48)
  MOBULA_MEMBERS(50, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 MOBULA_OCTET_5, m48, m49)
  MOBULA_MEMBERS(51, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 MOBULA_OCTET_5, m48, m49, m50)
  MOBULA_MEMBERS(52, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 MOBULA_OCTET_5, m48, m49, m50, m51)
  MOBULA_MEMBERS(53, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 MOBULA_OCTET_5, m48, m49, m50, m51, m52)
  MOBULA_MEMBERS(54, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 MOBULA_OCTET_5, m48, m49, m50, m51, m52, m53)
  MOBULA_MEMBERS(55, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 MOBULA_OCTET_5, m48, m49, m50, m51, m52, m53, m54)
  MOBULA_MEMBERS(56, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 MOBULA_OCTET_5, MOBULA_OCTET_6)
  MOBULA_MEMBERS(57, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 MOBULA_OCTET_5, MOBULA_OCTET_6, m56)
  MOBULA_MEMBERS(58, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 MOBULA_OCTET_5, MOBULA_OCTET_6, m56, m57)
  MOBULA_MEMBERS(59, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 MOBULA_OCTET_5, MOBULA_OCTET_6, m56, m57, m58)
  MOBULA_MEMBERS(60, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 MOBULA_OCTET_5, MOBULA_OCTET_6, m56, m57, m58, m59)
  MOBULA_MEMBERS(61, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 MOBULA_OCTET_5, MOBULA_OCTET_6, m56, m57, m58, m59, m60)
  MOBULA_MEMBERS(62, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 MOBULA_OCTET_5, MOBULA_OCTET_6, m56, m57, m58, m59, m60, m61)
  MOBULA_MEMBERS(63, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 MOBULA_OCTET_5, MOBULA_OCTET_6, m56, m57, m58, m59, m60, m61, m62)
  MOBULA_MEMBERS(64, MOBULA_OCTET_0, MOBULA_OCTET_1, MOBULA_OCTET_2, MOBULA_OCTET_3, MOBULA_OCTET_4,
                 MOBULA_OCTET_5, MOBULA_OCTET_6, MOBULA_OCTET_7)
}

#undef MOBULA_MEMBERS
#undef MOBULA_OCTET_0
#undef MOBULA_OCTET_1
#undef MOBULA_OCTET_2
#undef MOBULA_OCTET_3
#undef MOBULA_OCTET_4
#undef MOBULA_OCTET_5
#undef MOBULA_OCTET_6
#undef MOBULA_OCTET_7

template <class... Members>
struct MemberList {};

struct ListMembers {
  template <class... Member>
  MemberList<Member...> operator()(const Member&...) const {
    return {};
  }
};

template <class T>
using members_of = decltype(visit_members(std::declval<const T&>(), ListMembers{}));

}  // namespace mobula::detail
