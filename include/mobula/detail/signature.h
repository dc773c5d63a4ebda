// The signature of a callee at compile time: its result, its class, and its parameters.
// Thread: any; no state.
#pragma once

#include <cstddef>

namespace mobula::detail {

template <class... T>
struct TypeList {
  static constexpr std::size_t size = sizeof...(T);
};

// The result and parameter types of a function, and the class of a method.
template <class F>
struct Signature {
  static constexpr bool known = false;
};

template <class R, class C, class... A>
struct SignatureOf {
  static constexpr bool known = true;
  using Result = R;
  using Class = C;
  using Parameters = TypeList<A...>;
};

template <class R, class... A, bool N>
struct Signature<R (*)(A...) noexcept(N)> : SignatureOf<R, void, A...> {};
template <class R, class C, class... A, bool N>
struct Signature<R (C::*)(A...) noexcept(N)> : SignatureOf<R, C, A...> {};
template <class R, class C, class... A, bool N>
struct Signature<R (C::*)(A...) const noexcept(N)> : SignatureOf<R, C, A...> {};
template <class R, class C, class... A, bool N>
struct Signature<R (C::*)(A...)& noexcept(N)> : SignatureOf<R, C, A...> {};
template <class R, class C, class... A, bool N>
struct Signature<R (C::*)(A...) const& noexcept(N)> : SignatureOf<R, C, A...> {};

// A captureless lambda has the signature of its operator().
template <class Lambda>
requires requires { &Lambda::operator(); }
struct Signature<Lambda> : Signature<decltype(&Lambda::operator())> {};

}  // namespace mobula::detail
