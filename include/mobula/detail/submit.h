// The parts of remote(): arguments in the form of the runtime, and the refs to results. The
// templates that make a call pass these to the runtime.
// Thread: any.
// Errors: throws the failure of an argument's serializer first, then the failure of the submission.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <mobula/detail/call.h>
#include <mobula/detail/registry.h>
#include <mobula/detail/request.h>
#include <mobula/object_ref.h>

namespace mobula::detail {

// The runtime of this process, for a call of the entry. InvalidRequestError if `num_returns` does
// not fit it.
MOBULA_API std::shared_ptr<Runtime> runtime_for(const Entry& entry, int num_returns);
// The parts of a call. `results` has one element per result of the entry.
MOBULA_API TaskSubmission task_of(const Entry& entry,
                                  const std::shared_ptr<const TaskRequest>& request,
                                  std::span<const Argument> arguments, std::span<RawId> results);
MOBULA_API ActorCall actor_call_of(const Entry& entry, RawId actor,
                                   const std::shared_ptr<const CallRequest>& request,
                                   std::span<const Argument> arguments, std::span<RawId> results);
// Throws the failure of a call, but first that of an argument's serializer.
MOBULA_API void require_submitted(const Done& done, std::span<const Argument> arguments);
MOBULA_API std::shared_ptr<const Anchor> create_actor(
    const Entry& entry, const std::shared_ptr<const ActorRequest>& request,
    const std::shared_ptr<Runtime>& runtime, std::span<const Argument> arguments);
// Calls a method of a named actor with a JSON array of arguments. Returns the JSON of the result.
// Throws as find_actor and get do, and NotFoundError with the actor's methods.
MOBULA_API std::string call_by_json(const std::string& name, const std::string& name_space,
                                    std::string_view method, const std::string& arguments,
                                    const GetOptions& options = {});
// Throws NotFoundError, and InvalidRequestError if the name belongs to another class.
MOBULA_API std::shared_ptr<const Anchor> find_actor(const std::string& name,
                                                    const std::string& name_space,
                                                    std::string_view class_name);
// Throws InvalidRequestError outside an actor of the class.
MOBULA_API std::shared_ptr<const Anchor> find_current_actor(std::string_view class_name);
MOBULA_API void kill_actor(const std::shared_ptr<const Anchor>& actor, bool no_restart);

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

// An argument in the form of the runtime. It lives for one full expression, as the argument does.
template <class Stored, class Arg, Passing = passing_of<Stored, Arg>()>
class OutgoingArgument {
 public:
  explicit OutgoingArgument(const std::remove_reference_t<Arg>& argument) : value_(argument) {}
  Argument passed_to(const std::shared_ptr<Runtime>& /*runtime*/) const {
    return {.value = &value_};
  }

 private:
  OutgoingValue<std::remove_cvref_t<Arg>> value_;
};

template <class Stored, class Arg>
class OutgoingArgument<Stored, Arg, Passing::by_ref> {
 public:
  explicit OutgoingArgument(const ObjectRef<Stored>& ref) : ref_(ref) {}
  Argument passed_to(const std::shared_ptr<Runtime>& runtime) const {
    return {.object = require_id(ref_.anchor().get(), runtime)};
  }

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
  Argument passed_to(const std::shared_ptr<Runtime>& /*runtime*/) const {
    return {.value = &value_};
  }

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

// The arguments of one call, converted to the parameter types.
template <class Parameters, class... Given>
class OutgoingArguments;

template <class... Parameter, class... Given>
class OutgoingArguments<TypeList<Parameter...>, Given...> {
 public:
  explicit OutgoingArguments(Given&&... given) : each_(std::forward<Given>(given)...) {}
  OutgoingArguments(const OutgoingArguments&) = delete;
  OutgoingArguments& operator=(const OutgoingArguments&) = delete;

  // Throws InvalidRequestError for a ref of another runtime.
  std::span<const Argument> passed_to(const std::shared_ptr<Runtime>& runtime) {
    std::apply(
        [&](const auto&... each) {
          passed_ = {each.passed_to(runtime)..., Argument{}};
        },
        each_);
    return {passed_.data(), sizeof...(Given)};
  }

 private:
  const std::tuple<OutgoingArgument<StoredAs<Parameter>, Given>...> each_;
  std::array<Argument, sizeof...(Given) + 1> passed_ = {};
};

// The ids of the results of one call, and then the refs to them.
template <class Refs, std::size_t count>
class ResultIds {
 public:
  std::span<RawId> span() { return ids_; }
  Refs adopt(const std::shared_ptr<Runtime>& runtime) const {
    Anchors<count> anchors;
    for (std::size_t i = 0; i < count; ++i)
      anchors[i] = Anchor::adopt(runtime, {RefKind::object, ids_[i]});
    return refs_from<Refs>(std::move(anchors));
  }

 private:
  std::array<RawId, count> ids_ = {};
};

}  // namespace mobula::detail
