// A call where it runs: conversion of its arguments to parameters, the call of user code, and its
// results. Also the types of the refs of results, which the caller needs.
// Thread: any; no state.
// Not: arguments where a call is made (submit.h).
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <mobula/detail/registry.h>
#include <mobula/detail/signature.h>
#include <mobula/detail/streaming.h>
#include <mobula/object_ref.h>

namespace mobula::detail {

// Converts a stored value of type Stored to a parameter of type P.
template <class P, class Bare = std::remove_cvref_t<P>>
struct Incoming {
  using Stored = Bare;
  explicit Incoming(const StoredValue& from) : value(decode<Stored>(from)) {}
  P&& pass() { return static_cast<P&&>(value); }
  Stored value;
};

template <class P, class C>
struct Incoming<P, View<C>> {
  using Stored = C;
  explicit Incoming(const StoredValue& from) : value(decode_view<C>(from)) {}
  P&& pass() { return static_cast<P&&>(value); }
  View<C> value;
};

// Spans and string views read the stored elements in place for the duration of the call.
template <class P, class E>
struct Incoming<P, std::span<const E>> {
  using Stored = std::vector<E>;
  explicit Incoming(const StoredValue& from)
      : view(decode_view<Stored>(from)), value(view.data(), view.size()) {}
  P&& pass() { return static_cast<P&&>(value); }
  View<Stored> view;
  std::span<const E> value;
};

template <class P>
struct Incoming<P, std::string_view> {
  using Stored = std::string;
  explicit Incoming(const StoredValue& from)
      : view(decode_view<Stored>(from)), value(view.data(), view.size()) {}
  P&& pass() { return static_cast<P&&>(value); }
  View<Stored> view;
  std::string_view value;
};

template <class P>
using StoredAs = typename Incoming<P>::Stored;

// The refs of a result: one, or one per element.
template <class R>
struct ResultRefs {
  using Stored = std::conditional_t<std::is_void_v<R>, Nothing, std::remove_cvref_t<R>>;
  using One = ObjectRef<std::conditional_t<std::is_void_v<R>, void, std::remove_cvref_t<R>>>;
};

template <class T>
struct ResultRefs<generator<T>> {
  using Stored = T;
  using One = ObjectRefStream<T>;
};

template <class R>
struct SplitResult {
  static constexpr bool possible = false;
  static constexpr int count = 1;
  using Refs = ObjectRef<void>;
};

template <class... Part>
struct SplitResult<std::tuple<Part...>> {
  static constexpr bool possible = sizeof...(Part) != 0;
  static constexpr int count = static_cast<int>(sizeof...(Part));
  using Parts = std::tuple<std::remove_cvref_t<Part>...>;
  using Refs = std::tuple<ObjectRef<std::remove_cvref_t<Part>>...>;
};

template <class E, std::size_t size>
struct SplitResult<std::array<E, size>> {
  static constexpr bool possible = size != 0;
  static constexpr int count = static_cast<int>(size);
  using Parts = E;
  using Refs = std::array<ObjectRef<E>, size>;
};

template <class R, bool split>
struct CallResult {
  using Refs = typename ResultRefs<R>::One;
  static constexpr int count = 1;
  using Parts = typename ResultRefs<R>::Stored;
};
template <class R>
struct CallResult<R, true> : SplitResult<std::remove_cvref_t<R>> {};

template <class R, bool split>
constexpr bool check_result() {
  using Parts = typename CallResult<R, split>::Parts;
  if constexpr (!is_serializable<Parts>) refuse_result(fault_of<Parts, NoMember>());
  return is_serializable<Parts>;
}

// The anchors of the results of one call.
template <std::size_t count>
using Anchors = std::array<std::shared_ptr<const Anchor>, count>;

// Arrays may have thousands of elements, more than a parameter pack can hold.
template <class T>
inline constexpr bool is_array = false;
template <class E, std::size_t size>
inline constexpr bool is_array<std::array<E, size>> = true;

template <class Refs, std::size_t count>
Refs refs_from(Anchors<count> anchors) {
  if constexpr (is_ref_stream<Refs> || (requires { typename Refs::value_type; } && is_ref<Refs>)) {
    return Refs(std::move(anchors.front()));
  } else if constexpr (is_array<Refs>) {
    Refs refs;
    for (std::size_t i = 0; i < refs.size(); ++i)
      refs[i] = typename Refs::value_type(std::move(anchors[i]));
    return refs;
  } else {
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return Refs{std::tuple_element_t<I, Refs>(std::move(anchors[I]))...};
    }
    (std::make_index_sequence<std::tuple_size_v<Refs>>{});
  }
}

// Passes each argument to `function`. No nested lambda: nvcc does not expand an outer pack in it.
template <class R, class Function, class... Arguments>
R pass_all(Function& function, Arguments... arguments) {
  return function(arguments.pass()...);
}

// Results that are answered after their function has returned. The header of such a type R
// specializes both. AnswerLater<R>::run<split>(call, TypeList<P...>, function) calls the function.
template <class R>
inline constexpr bool is_deferred = false;
template <class R>
struct AnswerLater;

// Calls `function` with the arguments of `call` and stores its result.
template <bool split, class R, class... P, class Function>
void run(const Invocation& call, TypeList<P...>, Function function) {
  const auto apply = [&]<std::size_t... I>(std::index_sequence<I...>)->R {
    return pass_all<R>(function, Incoming<P>(call.arguments[I])...);
  };
  using Indices = std::index_sequence_for<P...>;
  if constexpr (is_deferred<std::remove_cvref_t<R>>) {
    AnswerLater<std::remove_cvref_t<R>>::template run<split>(call, TypeList<P...>{}, function);
  } else if constexpr (is_generator<R>) {
    // The coroutine may refer to the arguments, which live as long as this call of `pass_all`.
    const auto give = [&](auto&&... argument) {
      give_items(call, function(std::forward<decltype(argument)>(argument)...));
    };
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      pass_all<void>(give, Incoming<P>(call.arguments[I])...);
    }
    (Indices{});
  } else if constexpr (std::is_void_v<R>) {
    apply(Indices{});
    give_result(call, 0, OutgoingValue<Nothing>(Nothing{}));
  } else if constexpr (split && is_array<std::remove_cvref_t<R>>) {
    const auto parts = apply(Indices{});
    using Part = typename std::remove_cvref_t<R>::value_type;
    for (std::size_t i = 0; i < parts.size(); ++i)
      give_result(call, i, OutgoingValue<Part>(parts[i]));
  } else if constexpr (split) {
    const auto parts = apply(Indices{});
    std::apply(
        [&call](const auto&... part) {
          std::size_t index = 0;
          (give_result(call, index++, OutgoingValue<std::remove_cvref_t<decltype(part)>>(part)),
           ...);
        },
        parts);
  } else {
    const std::remove_cvref_t<R> value = apply(Indices{});
    give_result(call, 0, OutgoingValue<std::remove_cvref_t<R>>(value));
  }
}

// Calls the function F.
template <class Result, auto F>
struct FunctionBody {
  explicit FunctionBody(const Invocation& /*call*/) {}
  template <class... Given>
  Result operator()(Given&&... argument) const {
    return F(std::forward<Given>(argument)...);
  }
};

// Calls the method M of the actor.
template <class Result, class C, auto M>
struct MethodBody {
  explicit MethodBody(const Invocation& call) : self(static_cast<C*>(call.self)) {}
  template <class... Given>
  Result operator()(Given&&... argument) const {
    return (self->*M)(std::forward<Given>(argument)...);
  }
  C* self;
};

// The invoker of an entry: runs `Body`, and converts its exceptions.
template <bool split, class Result, class Parameters, class Body>
Outcome invoke(const Invocation& call) {
  try {
    run<split, Result>(call, Parameters{}, Body(call));
    return {};
  } catch (...) {
    return outcome_of_exception();
  }
}

}  // namespace mobula::detail
