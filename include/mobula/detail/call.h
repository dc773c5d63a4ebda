// Compile-time facts of a call: the passing of arguments, and the refs of results.
// Thread: any; no state.
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

// An argument for the compiled part: a value, or a ref that the runtime resolves.
struct ArgumentSource {
  const Outgoing* value = nullptr;
  const std::shared_ptr<const Anchor>* ref = nullptr;
};

enum class Passing { refused, as_it_is, by_ref, converted };

template <class Stored, class Arg>
constexpr Passing passing_of() {
  using Bare = std::remove_cvref_t<Arg>;
  if constexpr (std::is_same_v<Bare, Stored>)
    return Passing::as_it_is;
  else if constexpr (std::is_same_v<Bare, ObjectRef<Stored>>)
    return Passing::by_ref;
  else if constexpr (is_a<Bare, View>) {
    return std::is_same_v<Bare, View<Stored>> ? Passing::as_it_is : Passing::refused;
  } else if constexpr (is_ref<Bare>)
    return Passing::refused;
  else
    return std::is_convertible_v<Arg, Stored> ? Passing::converted : Passing::refused;
}

// An encoded argument. It lives for one full expression, as the argument does.
template <class Stored, class Arg, Passing = passing_of<Stored, Arg>()>
class OutgoingArgument {
 public:
  explicit OutgoingArgument(const std::remove_reference_t<Arg>& argument) : value_(argument) {}
  ArgumentSource source() const { return {.value = &value_, .ref = nullptr}; }

 private:
  OutgoingValue<std::remove_cvref_t<Arg>> value_;
};

template <class Stored, class Arg>
class OutgoingArgument<Stored, Arg, Passing::by_ref> {
 public:
  explicit OutgoingArgument(const ObjectRef<Stored>& ref) : ref_(ref) {}
  ArgumentSource source() const { return {.value = nullptr, .ref = &ref_.anchor()}; }

 private:
  const ObjectRef<Stored>& ref_;
};

template <class Stored, class Arg>
class OutgoingArgument<Stored, Arg, Passing::converted> {
 public:
  explicit OutgoingArgument(Arg&& argument)
      : converted_(static_cast<Stored>(std::forward<Arg>(argument))), value_(converted_) {}
  OutgoingArgument(const OutgoingArgument&) = delete;
  OutgoingArgument& operator=(const OutgoingArgument&) = delete;
  ArgumentSource source() const { return {.value = &value_, .ref = nullptr}; }

 private:
  const Stored converted_;
  OutgoingValue<Stored> value_;
};

// A function could modify such a parameter, and the caller would never see the change.
template <class Parameter>
inline constexpr bool is_mutable_reference =
    std::is_lvalue_reference_v<Parameter> && !std::is_const_v<std::remove_reference_t<Parameter>>;

template <class Parameter, class Argument>
constexpr bool check_argument() {
  using Stored = StoredAs<Parameter>;
  static_assert(
      !is_mutable_reference<Parameter>,
      "mobula: a parameter T& would refer to a copy in another process; take T or const T&, "
      "and return the changed value");
  if constexpr (is_mutable_reference<Parameter>) {
    return false;
  } else if constexpr (!is_serializable<Stored>) {
    refuse_parameter(fault_of<Stored, NoMember>());
    return false;
  } else {
    static_assert(passing_of<Stored, Argument>() != Passing::refused,
                  "mobula: an argument is neither convertible to its parameter's type nor an "
                  "ObjectRef of exactly that type");
    return passing_of<Stored, Argument>() != Passing::refused;
  }
}

// Reports errors of a call at compile time, each once. Returns false if the call must not be
// instantiated.
template <class... Parameter, class... Argument>
constexpr bool check_arguments(TypeList<Parameter...>, TypeList<Argument...>) {
  static_assert(sizeof...(Parameter) == sizeof...(Argument),
                "mobula: the number of arguments is not the number of parameters");
  if constexpr (sizeof...(Parameter) != sizeof...(Argument))
    return false;
  else
    return (check_argument<Parameter, Argument>() && ...);
}

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

}  // namespace mobula::detail
