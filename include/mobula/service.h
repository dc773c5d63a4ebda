// Actors that other programs call. A call of a method goes by the method's name and types, so the
// caller may be another build, or built by another compiler.
//
//   struct KV {                                     // in a header of both programs
//     void put(std::string key, int value);
//     std::optional<int> get(std::string key) const;
//   };
//   const mobula::Service<KV, &KV::put, &KV::get> kv_service;  // in the program of the actor
//   MOBULA_DECLARED_ONLY(KV)         // in a program without the definitions of the methods
//   mobula::get_actor<KV>("kv").call<&KV::get>("a")
//
// Thread: any.
// Errors: a call of a method that the actor's program does not have is a `NotFoundError` with its
// methods. A call with other types is an `InvalidRequestError` that names the part.
#pragma once

#include <mobula/actor.h>

namespace mobula {

// Makes methods of C callable from other programs. Methods that this program calls need no entry
// here. Defined at namespace scope, because executors run constructors of static objects only.
template <class C, auto... methods>
class Service {
 public:
  // Registers the methods.
  Service() { (detail::MethodEntry<C, methods, false>::entry.keep(), ...); }
};

}  // namespace mobula

// States that this program has no definitions of the methods of class C. It can call actors of C
// but not create them. At global scope, before the first use of C in a call.
#define MOBULA_DECLARED_ONLY(C) \
  template <>                   \
  inline constexpr bool mobula::detail::declared_only<C> = true;
