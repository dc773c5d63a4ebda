// Functions of other programs, called by name with the types of the caller. The other program may
// be written in another language, such as Python. See `docs/services.md`.
// Thread: any.
// Errors: at `remote`, those of a task, InvalidRequestError without a name or a program, and
// SerializationError for an argument without a neutral form (<mobula/neutral.h>). At `get`,
// NotFoundError for an unknown name, and SerializationError that names the member for values of
// other types.
// Not: split results.
#pragma once

#include <array>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include <mobula/detail/describe.h>
#include <mobula/detail/submit.h>
#include <mobula/dynamic.h>

namespace mobula {

namespace detail {

// Returns the value of `type` as a neutral value. SerializationError if it has no neutral form.
MOBULA_API dynamic::Payload neutral_from(const Outgoing& value, const TypeDescription& type);
// Calls the function. Returns the ref of its result, or the first position of its stream.
MOBULA_API AnyRef submit_function(const dynamic::Callable& function, const TaskOptions& options,
                                  std::span<const dynamic::Argument> arguments, bool streaming);
// Neutral values can be read as `type` from now on. Returns true.
MOBULA_API bool read_neutral_as(const TypeDescription& type);

// Every process of the program can read neutral values as T, because executors read arguments.
template <class T>
inline const bool neutral_is_read_as = read_neutral_as(describe<T>());

template <class Stored, class Arg, Passing = passing_of<Stored, Arg>()>
class NeutralArgument {
 public:
  explicit NeutralArgument(Arg&& argument)
      : value_(std::forward<Arg>(argument)),
        payload_(neutral_from(*value_.passed_to(nullptr).value, describe<Stored>())) {}
  dynamic::Argument get() const { return {.value = &payload_}; }

 private:
  const OutgoingArgument<Stored, Arg> value_;
  const dynamic::Payload payload_;
};

template <class Stored, class Arg>
class NeutralArgument<Stored, Arg, Passing::by_ref> {
 public:
  explicit NeutralArgument(const ObjectRef<Stored>& ref) : ref_(ref) {}
  dynamic::Argument get() const { return {.ref = &ref_}; }

 private:
  const AnyRef ref_;
};

}  // namespace detail

template <class Signature>
class Function;

// A function of another program. R and P are the caller's types of result and parameters. The
// function may have other types, if the values can be converted. A generator is a stream.
template <class R, class... P>
class Function<R(P...)> {
 public:
  // See `function`.
  Function(std::string name, std::string program)
      : name_(std::move(name)), program_(std::move(program)) {}

  // Returns the function with these options, to be followed by `remote`.
  Function options(TaskOptions options) const {
    Function changed = *this;
    changed.options_ = std::move(options);
    return changed;
  }

  // Calls the function and returns a ref to its result. A ref as an argument keeps the format of
  // its value, which the function must read.
  template <class... Args>
  auto remote(Args&&... args) const {
    using Result = detail::ResultRefs<R>;
    using Refs = typename Result::One;
    if constexpr (detail::check_arguments(detail::TypeList<P...>{}, detail::TypeList<Args...>{})) {
      static_cast<void>(detail::neutral_is_read_as<typename Result::Stored>);
      const std::tuple<detail::NeutralArgument<detail::StoredAs<P>, Args>...> values(
          std::forward<Args>(args)...);
      const auto passed = std::apply(
          [](const auto&... each) {
            return std::array<dynamic::Argument, sizeof...(Args)>{each.get()...};
          },
          values);
      return Refs(detail::submit_function({.name = name_, .program = program_}, options_, passed,
                                          detail::is_generator<R>)
                      .anchor());
    } else {
      return Refs();
    }
  }

 private:
  std::string name_;
  std::string program_;
  TaskOptions options_;
};

// Returns the function `name` of the program that the job `program` runs. The name is a whole one,
// or the part after the last "::" or "."; programs in C++ list their functions in
// `mobula::Functions`.
template <class Signature>
Function<Signature> function(std::string name, std::string program) {
  return Function<Signature>(std::move(name), std::move(program));
}

}  // namespace mobula
