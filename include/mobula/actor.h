// Actors: `actor<C>.options({...}).remote(args...)` creates a C in its own process and returns a
// handle. Calls from one holder of a handle start in submission order.
// Thread: any.
// Owner: the handles of a counted actor; the actor ends with its last handle.
// Errors: `InvalidRequestError` at `remote` for options that break a rule.
#pragma once

#include <compare>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <mobula/detail/actor_entries.h>
#include <mobula/detail/submit.h>
#include <mobula/options.h>

namespace mobula {

// The concurrency group of the calls of method M, declared next to its class and before the first
// call, at global scope:
//
//   template <>
//   inline constexpr std::string_view mobula::concurrency_group<&Store::read> = "io";
//
// `CallOptions::concurrency_group` takes precedence. Actors of the class need the group in
// `ActorOptions::concurrency_groups`.
template <auto method>
inline constexpr std::string_view concurrency_group = {};

namespace detail {

// The request of a call of method M without options.
template <auto M>
Prepared<CallRequest> default_call_request_of() {
  if constexpr (concurrency_group<M>.empty()) {
    return default_call_request();
  } else {
    static const auto request = prepare(CallOptions(), concurrency_group<M>);
    return request;
  }
}

}  // namespace detail

// A method of one actor with its options. Copies share the options.
template <class C, auto M, bool is_split = false>
class PreparedCall {
 public:
  // For the library.
  PreparedCall(std::shared_ptr<const detail::Anchor> actor,
               detail::Prepared<detail::CallRequest> request)
      : actor_(std::move(actor)), request_(std::move(request)) {}

  // Returns the same method with `options`, which replace all earlier options.
  PreparedCall options(const CallOptions& options) const {
    return PreparedCall(actor_, detail::prepare(options, concurrency_group<M>));
  }

  // Returns a call that yields one ref per element of the std::tuple or std::array that the method
  // returns.
  auto split() const {
    using Result = typename detail::MethodEntry<C, M, false>::Result;
    return PreparedCall<C, M, detail::check_split<Result>()>(actor_, request_);
  }

  // Sends the call and returns a ref to its result. `PendingLimitError` if a limit on pending calls
  // is exceeded.
  template <class... Args>
  auto remote(Args&&... args) const {
    if constexpr (detail::check_method<C, M>()) {
      return send(std::forward<Args>(args)...);
    }
  }

 private:
  template <class... Args>
  auto send(Args&&... args) const {
    using Entry = detail::MethodEntry<C, M, is_split>;
    using Parameters = typename Entry::Parameters;
    if constexpr (detail::check_arguments(Parameters{}, detail::TypeList<Args...>{}) &&
                  detail::check_result<typename Entry::Result, is_split>()) {
      detail::OutgoingArguments<Parameters, Args...> arguments(std::forward<Args>(args)...);
      const auto& request = request_.value();
      const auto target = detail::runtime_for(Entry::entry, request->num_returns);
      const auto passed = arguments.passed_to(target);
      typename Entry::ResultIds results;
      detail::require_submitted(target->call_actor(detail::actor_call_of(
                                    Entry::entry, detail::require_id(actor_.get(), target), request,
                                    passed, results.span())),
                                passed);
      return results.adopt(target);
    } else {
      return typename Entry::Refs();
    }
  }

  std::shared_ptr<const detail::Anchor> actor_;
  detail::Prepared<detail::CallRequest> request_;
};

// A reference-counted handle of an actor of class C. Handles can be copied, passed, returned, and
// stored in structs. An actor that is not detached ends with its last handle in the cluster.
//
// A planned end runs the destructor of C and then the exit handlers of the process (`atexit`,
// static destructors). Planned ends are the last handle, `exit_actor`, the end of the job, and a
// drain of the node. The destructor has 30 s, also if it waits for a call, and the exit handlers
// have 5 s. At the end of the job and at the deadline of a drain, the running call and the
// destructor have 0.5 s. `kill` and crashes run neither. Calls and tasks that the actor submitted
// finish before its process exits.
template <class C>
class ActorHandle {
 public:
  // Creates a handle that refers to no actor.
  ActorHandle() = default;
  // For the library.
  explicit ActorHandle(std::shared_ptr<const detail::Anchor> anchor) : anchor_(std::move(anchor)) {}

  // Reports whether the handle refers to no actor.
  bool empty() const { return anchor_ == nullptr; }
  // Reports whether the handle refers to an actor.
  explicit operator bool() const { return !empty(); }
  // Returns the actor's id: 32 hexadecimal digits, or an empty string if the handle is empty.
  std::string id() const { return empty() ? std::string() : detail::hex(raw_id()); }

  // Calls a method: `h.call<&C::add>(5)` returns a ref to the future result. If the method is
  // overloaded, the compiler's message contains the name of the parameter, which suggests
  // `call_as`.
  template <auto method_or_if_overloaded_use_call_as, class... Args>
  auto call(Args&&... args) const {
    return method<method_or_if_overloaded_use_call_as>().remote(std::forward<Args>(args)...);
  }

  // Calls an overloaded method, selected by its signature: `h.call_as<int(int), &C::add>(5)`, or
  // `h.call_as<int() const, &C::value>()` for a const method.
  template <class Function, Function C::*M, class... Args>
  auto call_as(Args&&... args) const {
    return method<M>().remote(std::forward<Args>(args)...);
  }

  // Returns a method that accepts options: `h.method<&C::add>().options({...}).remote(5)`.
  template <auto method_or_if_overloaded_use_method_as>
  PreparedCall<C, method_or_if_overloaded_use_method_as> method() const {
    return PreparedCall<C, method_or_if_overloaded_use_method_as>(
        anchor_, detail::default_call_request_of<method_or_if_overloaded_use_method_as>());
  }
  // Returns an overloaded method, selected by its signature, that accepts options.
  template <class Function, Function C::*M>
  PreparedCall<C, M> method_as() const {
    return method<M>();
  }

  // For the library.
  const std::shared_ptr<const detail::Anchor>& anchor() const { return anchor_; }
  // For the library.
  detail::RawId raw_id() const { return empty() ? detail::RawId{} : anchor_->ref().id; }

  // Compares actor ids.
  friend bool operator==(const ActorHandle& a, const ActorHandle& b) {
    return a.raw_id() == b.raw_id();
  }
  // Orders handles by actor id.
  friend auto operator<=>(const ActorHandle& a, const ActorHandle& b) {
    return a.raw_id() <=> b.raw_id();
  }

 private:
  std::shared_ptr<const detail::Anchor> anchor_;
};

namespace detail {

template <class C>
struct OwnCodec<ActorHandle<C>> : AnchorCodec<ActorHandle<C>, RefKind::actor> {
  static constexpr bool supported() { return true; }
  static constexpr std::uint64_t fingerprint(std::uint64_t state) {
    return mix_name(mix(state, "actor"), type_name<C>);
  }
};

}  // namespace detail

// A class of actors with its options. Copies share the options.
template <class C>
class PreparedActor {
 public:
  // For the library.
  explicit PreparedActor(detail::Prepared<detail::ActorRequest> request)
      : request_(std::move(request)) {}

  // Returns the same class with `options`, which replace all earlier options.
  PreparedActor options(const ActorOptions& options) const {
    return PreparedActor(detail::prepare(options));
  }

  // Creates the actor and returns immediately. A ref argument is passed as a ref if C can be
  // constructed that way; otherwise its value is passed.
  template <class... Args>
  ActorHandle<C> remote(Args&&... args) const {
    using Parameters = detail::ConstructorParameters<C, Args...>;
    return create<Parameters>(std::forward<Args>(args)...);
  }

  // Creates the actor with explicit types of the constructor's parameters.
  template <class... Parameter, class... Args>
  ActorHandle<C> remote_as(Args&&... args) const {
    return create<detail::TypeList<Parameter...>>(std::forward<Args>(args)...);
  }

 private:
  template <class Parameters, class... Args>
  ActorHandle<C> create(Args&&... args) const {
    if constexpr (detail::check_constructor<C>(Parameters{}) &&
                  detail::check_arguments(Parameters{}, detail::TypeList<Args...>{})) {
      detail::OutgoingArguments<Parameters, Args...> arguments(std::forward<Args>(args)...);
      const auto& entry = detail::ConstructorEntry<C, Parameters>::entry;
      const auto target = detail::runtime();
      return ActorHandle<C>(
          detail::create_actor(entry, request_.value(), target, arguments.passed_to(target)));
    } else {
      return ActorHandle<C>();
    }
  }

  detail::Prepared<detail::ActorRequest> request_;
};

// The type of `actor<C>`: creates actors of class C.
template <class C>
class Actor {
 public:
  // Returns the class with `options`, to be followed by `remote`.
  PreparedActor<C> options(const ActorOptions& options) const {
    return PreparedActor<C>(detail::prepare(options));
  }

  // Creates an actor with default options; see `PreparedActor::remote`.
  template <class... Args>
  ActorHandle<C> remote(Args&&... args) const {
    return PreparedActor<C>(detail::default_actor_request()).remote(std::forward<Args>(args)...);
  }

  // Creates an actor with default options and explicit types of the constructor's parameters.
  template <class... Parameter, class... Args>
  ActorHandle<C> remote_as(Args&&... args) const {
    return PreparedActor<C>(detail::default_actor_request())
        .template remote_as<Parameter...>(std::forward<Args>(args)...);
  }
};

// Entry point for actors of class C: `actor<C>.remote(args...)`.
template <class C>
inline constexpr Actor<C> actor{};

// Returns a handle of a named actor. An empty `name_space` means the namespace of the job.
// `NotFoundError` if the name is unknown, `InvalidRequestError` if the actor has another class.
template <class C>
ActorHandle<C> get_actor(const std::string& name, const std::string& name_space = "") {
  return ActorHandle<C>(detail::find_actor(name, name_space, detail::type_name<C>));
}

// Returns a handle of the actor whose method the calling thread runs. `InvalidRequestError` outside
// the methods of actors, and if the actor has another class. An actor that keeps its own handle
// does not end.
template <class C>
ActorHandle<C> current_actor() {
  return ActorHandle<C>(detail::find_current_actor(detail::type_name<C>));
}

// Returns the names of the actors in the job's namespace.
MOBULA_API std::vector<std::string> list_named_actors();

// Terminates the actor's process. Pending calls fail with `ActorDiedError`. If `options.no_restart`
// is false and restarts are left, they wait for the restart instead.
template <class C>
void kill(const ActorHandle<C>& handle, const KillOptions& options = {}) {
  detail::kill_actor(handle.anchor(), options.no_restart);
}

}  // namespace mobula

// Hashes a handle by its actor id.
template <class C>
struct std::hash<mobula::ActorHandle<C>> {
  // Returns the hash of the actor id.
  std::size_t operator()(const mobula::ActorHandle<C>& handle) const {
    return static_cast<std::size_t>(handle.raw_id().high ^ handle.raw_id().low);
  }
};
