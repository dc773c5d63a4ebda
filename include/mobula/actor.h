// actor<C>.options({...}).remote(args...): makes a C in a process of its own and gives a handle to
// call its methods with. Calls of one handle's holder start in the order in which they were made.
//
// The destructor of the C runs, and then the exit handlers of its process (atexit, static destructors), whenever the
// actor ends as planned: after the last handle, exit_actor, the end of its job, and a drain of its node. At the end of
// the job, and at the deadline of a drain, it has half a second for that, with the call that runs. kill() and crashes
// run neither.
// Calls and tasks that it has submitted are finished before its process exits.
// Any thread.
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

// A method of one actor with its options. Copies share them.
template <class C, auto M, bool is_split = false>
class PreparedCall {
 public:
  PreparedCall(std::shared_ptr<const detail::Anchor> actor,
               detail::Prepared<detail::CallRequest> request)
      : actor_(std::move(actor)), request_(std::move(request)) {}

  PreparedCall options(const CallOptions& options) const {
    return PreparedCall(actor_, detail::prepare(options));
  }

  // One ref for each part of the std::tuple or std::array that the method returns.
  auto split() const {
    using Result = typename detail::MethodEntry<C, M, false>::Result;
    return PreparedCall<C, M, detail::check_split<Result>()>(actor_, request_);
  }

  template <class... Args>
  auto remote(Args&&... args) const {
    if constexpr (detail::check_method<C, M>()) {
      return detail::call_method<C, M, is_split>(actor_, request_.value(),
                                                 std::forward<Args>(args)...);
    }
  }

 private:
  std::shared_ptr<const detail::Anchor> actor_;
  detail::Prepared<detail::CallRequest> request_;
};

// Copies share one count of the actor; when the last handle anywhere is gone, an actor that is not
// detached ends. May be passed, returned and stored inside other values.
template <class C>
class ActorHandle {
 public:
  // Of no actor.
  ActorHandle() = default;
  explicit ActorHandle(std::shared_ptr<const detail::Anchor> anchor) : anchor_(std::move(anchor)) {}

  bool empty() const { return anchor_ == nullptr; }
  explicit operator bool() const { return !empty(); }
  // 32 digits; empty for a handle of no actor.
  std::string id() const { return empty() ? std::string() : detail::hex(raw_id()); }

  // h.call<&C::add>(5): a ref to the future result of the method. Compilers print the parameter's name when
  // the method is overloaded.
  template <auto method_or_if_overloaded_use_call_as, class... Args>
  auto call(Args&&... args) const {
    return method<method_or_if_overloaded_use_call_as>().remote(std::forward<Args>(args)...);
  }

  // For overloaded methods, with the signature wanted: h.call_as<int(int), &C::add>(5), and
  // h.call_as<int() const, &C::value>() for const ones.
  template <class Function, Function C::*M, class... Args>
  auto call_as(Args&&... args) const {
    return method<M>().remote(std::forward<Args>(args)...);
  }

  // h.method<&C::add>().options({...}).remote(5).
  template <auto method_or_if_overloaded_use_method_as>
  PreparedCall<C, method_or_if_overloaded_use_method_as> method() const {
    return PreparedCall<C, method_or_if_overloaded_use_method_as>(anchor_, detail::default_call_request());
  }
  template <class Function, Function C::*M>
  PreparedCall<C, M> method_as() const {
    return method<M>();
  }

  // For the library.
  const std::shared_ptr<const detail::Anchor>& anchor() const { return anchor_; }
  detail::RawId raw_id() const { return empty() ? detail::RawId{} : anchor_->ref().id; }

  friend bool operator==(const ActorHandle& a, const ActorHandle& b) {
    return a.raw_id() == b.raw_id();
  }
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
    return mix(mix(state, "actor"), type_name<C>);
  }
};

}  // namespace detail

// A class of actors with its options. Copies share them.
template <class C>
class PreparedActor {
 public:
  explicit PreparedActor(detail::Prepared<detail::ActorRequest> request)
      : request_(std::move(request)) {}

  PreparedActor options(const ActorOptions& options) const {
    return PreparedActor(detail::prepare(options));
  }

  // A ref among the arguments is passed as it is where C can be constructed so, else its value is.
  // Throws InvalidRequestError where the options break a rule.
  template <class... Args>
  ActorHandle<C> remote(Args&&... args) const {
    using Parameters = detail::ConstructorParameters<C, Args...>;
    return create<Parameters>(std::forward<Args>(args)...);
  }

  // With the constructor's parameters said explicitly.
  template <class... Parameter, class... Args>
  ActorHandle<C> remote_as(Args&&... args) const {
    return create<detail::TypeList<Parameter...>>(std::forward<Args>(args)...);
  }

 private:
  template <class Parameters, class... Args>
  ActorHandle<C> create(Args&&... args) const {
    if constexpr (detail::check_constructor<C>(Parameters{}) &&
                  detail::check_arguments(Parameters{}, detail::TypeList<Args...>{})) {
      const auto send = [this](std::span<const detail::ArgumentSource> arguments) {
        return detail::create_actor(detail::ConstructorEntry<C, Parameters>::entry,
                                    request_.value(), arguments);
      };
      return ActorHandle<C>(
          detail::with_arguments(Parameters{}, send, std::forward<Args>(args)...));
    } else {
      return ActorHandle<C>();
    }
  }

  detail::Prepared<detail::ActorRequest> request_;
};

template <class C>
class Actor {
 public:
  PreparedActor<C> options(const ActorOptions& options) const {
    return PreparedActor<C>(detail::prepare(options));
  }

  template <class... Args>
  ActorHandle<C> remote(Args&&... args) const {
    return PreparedActor<C>(detail::default_actor_request()).remote(std::forward<Args>(args)...);
  }

  template <class... Parameter, class... Args>
  ActorHandle<C> remote_as(Args&&... args) const {
    return PreparedActor<C>(detail::default_actor_request())
        .template remote_as<Parameter...>(std::forward<Args>(args)...);
  }
};

template <class C>
inline constexpr Actor<C> actor{};

// A handle of a named actor. An empty name space is the job's.
template <class C>
ActorHandle<C> get_actor(const std::string& name, const std::string& name_space = "") {
  return ActorHandle<C>(detail::find_actor(name, name_space, detail::type_name<C>));
}

// Of the job's name space.
MOBULA_API std::vector<std::string> list_named_actors();

// Ends the actor; its pending calls fail with ActorDiedError, or wait for its restart.
template <class C>
void kill(const ActorHandle<C>& handle, const KillOptions& options = {}) {
  detail::kill_actor(handle.anchor(), options.no_restart);
}

}  // namespace mobula

template <class C>
struct std::hash<mobula::ActorHandle<C>> {
  std::size_t operator()(const mobula::ActorHandle<C>& handle) const {
    return static_cast<std::size_t>(handle.raw_id().high ^ handle.raw_id().low);
  }
};
