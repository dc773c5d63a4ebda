// Actors that other programs call, by the names and types of methods: the caller may be another
// build, or built by another compiler. See `docs/services.md`.
// Thread: any.
// Errors: `NotFoundError` with the existing methods for an unknown method, `InvalidRequestError`
// for other types.
#pragma once

#include <mobula/actor.h>
#include <mobula/task.h>

namespace mobula {

// Makes methods of C callable from other programs. Methods that this program calls need no entry
// here. Defined at namespace scope, because executors run constructors of static objects only.
template <class C, auto... methods>
class Service {
 public:
  // Registers the methods.
  Service() { (detail::MethodEntry<C, methods, false>::entry.keep(), ...); }
};

// Makes functions callable by untyped callers of other programs (<mobula/dynamic.h>). Functions
// that this program submits need no entry here. Defined at namespace scope, as a Service.
template <auto... functions>
class Functions {
 public:
  // Registers the functions.
  Functions() { (detail::TaskEntry<functions, false>::entry.keep(), ...); }
};

}  // namespace mobula

// States that this program has no definitions of the methods of class C. It can call actors of C
// but not create them. At global scope, before the first use of C in a call.
#define MOBULA_DECLARED_ONLY(C) \
  template <>                   \
  inline constexpr bool mobula::detail::declared_only<C> = true;
