// The compiled half of remote(): passes calls to the runtime and takes ownership of the refs.
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
#include <utility>

#include <mobula/detail/call.h>
#include <mobula/detail/registry.h>
#include <mobula/detail/request.h>

namespace mobula::detail {

// `results` has one element per result of the entry.
MOBULA_API void submit_task(const Entry& entry, const std::shared_ptr<const TaskRequest>& request,
                            std::span<const ArgumentSource> arguments,
                            std::span<std::shared_ptr<const Anchor>> results);
MOBULA_API std::shared_ptr<const Anchor> create_actor(
    const Entry& entry, const std::shared_ptr<const ActorRequest>& request,
    std::span<const ArgumentSource> arguments);
MOBULA_API void call_actor(const Entry& entry, const std::shared_ptr<const Anchor>& actor,
                           const std::shared_ptr<const CallRequest>& request,
                           std::span<const ArgumentSource> arguments,
                           std::span<std::shared_ptr<const Anchor>> results);
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

// The encoded arguments of one call, converted to the parameter types.
template <class Parameters, class... Argument>
class OutgoingArguments;

template <class... Parameter, class... Argument>
class OutgoingArguments<TypeList<Parameter...>, Argument...> {
 public:
  explicit OutgoingArguments(Argument&&... argument)
      : encoded_(std::forward<Argument>(argument)...) {}
  OutgoingArguments(const OutgoingArguments&) = delete;
  OutgoingArguments& operator=(const OutgoingArguments&) = delete;

  std::span<const ArgumentSource> sources() const { return {sources_.data(), sizeof...(Argument)}; }

 private:
  using Sources = std::array<ArgumentSource, sizeof...(Argument) + 1>;

  const std::tuple<OutgoingArgument<StoredAs<Parameter>, Argument>...> encoded_;
  const Sources sources_ = std::apply(
      [](const auto&... each) {
        return Sources{each.source()..., ArgumentSource{}};
      },
      encoded_);
};

}  // namespace mobula::detail
