// Compile-time facts of `actor<C>`: the parameter types of the chosen constructor, and the entries
// of C's constructors and methods.
// Thread: any.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include <mobula/detail/submit.h>
#include <mobula/task.h>

namespace mobula::detail {

// One address per class. Not const, because linkers may fold equal constants.
template <class C>
inline char class_tag = 0;

// True for a class whose methods this program only declares; see MOBULA_DECLARED_ONLY.
template <class C>
inline constexpr bool declared_only = false;

template <class C, class... P>
inline constexpr bool constructs = std::is_constructible_v<C, P...> ||
                                   (std::is_aggregate_v<C> &&
                                    requires { C{std::declval<P>()...}; });

// The argument types of a ref: the ref itself, and its value.
template <class Arg>
struct AsGiven {
  using Type = typename Stored<Arg>::Type;
};
template <class Arg, class Bare = std::remove_cvref_t<Arg>>
struct AsValue : AsGiven<Arg> {};
template <class Arg, class T>
struct AsValue<Arg, ObjectRef<T>> {
  using Type = T;
};

// Chooses for each argument, from the left, the first form with which C can be constructed.
template <class C, class Decided, class... Rest>
struct ChooseParameters;

template <class C, class... Decided>
struct ChooseParameters<C, TypeList<Decided...>> {
  static constexpr bool found = constructs<C, Decided...>;
  using Type = TypeList<Decided...>;
};

template <class C, class... Decided, class Arg, class... Rest>
struct ChooseParameters<C, TypeList<Decided...>, Arg, Rest...> {
  using AsIs = ChooseParameters<C, TypeList<Decided..., typename AsGiven<Arg>::Type>, Rest...>;
  using Resolved = ChooseParameters<C, TypeList<Decided..., typename AsValue<Arg>::Type>, Rest...>;
  template <bool as_is, class A, class B>
  struct Pick : A {};
  template <class A, class B>
  struct Pick<false, A, B> : B {};
  using Chosen = Pick<AsIs::found, AsIs, Resolved>;

  static constexpr bool found = Chosen::found;
  using Type = typename Chosen::Type;
};

template <class C, class... Args>
using ConstructorParameters = typename ChooseParameters<C, TypeList<>, Args...>::Type;

template <class C, class... P>
constexpr bool check_constructor(TypeList<P...>) {
  static_assert(std::is_class_v<C> && !std::is_abstract_v<C>,
                "mobula: actor<C> needs a class that can be constructed");
  static_assert(!declared_only<C>,
                "mobula: actor<C> needs the definitions of C's methods, which MOBULA_DECLARED_ONLY "
                "denies");
  static_assert(constructs<C, P...>,
                "mobula: the actor's class has no constructor for these arguments, neither with "
                "refs as they are nor with their values");
  return constructs<C, P...>;
}

template <class C, class Parameters>
struct ConstructorEntry;

template <class C, class... P>
struct ConstructorEntry<C, TypeList<P...>> {
  // A template although `incoming` is always Incoming<P>...: nvcc loses the expansion in a call of
  // another function.
  template <class... Arguments>
  static std::shared_ptr<C> make(Arguments... incoming) {
    if constexpr (std::is_constructible_v<C, P...>)
      return std::make_shared<C>(incoming.pass()...);
    else
      return std::shared_ptr<C>(new C{incoming.pass()...});
  }
  template <std::size_t... I>
  static std::shared_ptr<C> make_from(const Invocation& call, std::index_sequence<I...>) {
    return make(Incoming<P>(call.arguments[I])...);
  }
  static void run_body(const Invocation& call) {
    *call.created = make_from(call, std::index_sequence_for<P...>{});
  }
  static Outcome invoke(const Invocation& call) { return guarded(call, &run_body); }

  static inline Entry entry{{EntryKind::constructor, type_name<C>, &invoke,
                             static_cast<int>(sizeof...(P)), 0, &class_tag<C>, type_name<C>,
                             &constructor_description<TypeList<P...>>}};
};

template <class C, auto M, bool split>
struct MethodEntry {
  using Callee = Signature<std::remove_cv_t<decltype(M)>>;
  using Result = typename Callee::Result;
  using Parameters = typename Callee::Parameters;
  using Refs = typename CallResult<Result, split>::Refs;
  using ResultIds = detail::ResultIds<Refs, CallResult<Result, split>::count>;

  static Outcome refuse(const Invocation& /*call*/) { return only_declared(value_name<M>); }
  static constexpr Invoker invoker() {
    if constexpr (declared_only<C>)
      return &refuse;
    else
      return &invoke<split, Result, Parameters, MethodBody<Result, C, M>>;
  }

  static inline Entry entry{{EntryKind::method, value_name<M>, invoker(),
                             static_cast<int>(Parameters::size), CallResult<Result, split>::count,
                             &class_tag<C>, type_name<C>,
                             &call_description<Result, split, Parameters>}};
};

template <class C, auto M>
constexpr bool check_method() {
  using Pointer = std::remove_cv_t<decltype(M)>;
  static_assert(std::is_member_function_pointer_v<Pointer> && Signature<Pointer>::known,
                "mobula: call<&C::method> needs a method of the actor's class");
  if constexpr (std::is_member_function_pointer_v<Pointer> && Signature<Pointer>::known) {
    constexpr bool belongs = std::is_base_of_v<typename Signature<Pointer>::Class, C>;
    static_assert(belongs, "mobula: the method belongs to another class than the actor");
    return belongs;
  } else {
    return false;
  }
}

}  // namespace mobula::detail
