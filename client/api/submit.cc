#include <mobula/detail/submit.h>

#include <algorithm>
#include <utility>

#include <mobula/detail/describe.h>
#include <mobula/errors.h>
#include <mobula/get.h>

#include "client/api/completion/asynchronous.h"
#include "client/api/untyped/call_signature.h"

namespace mobula::detail {

std::shared_ptr<Runtime> runtime_for(const Entry& entry, int num_returns) {
  check_returns(num_returns, entry.results());
  return runtime();
}

TaskSubmission task_of(const Entry& entry, const std::shared_ptr<const TaskRequest>& request,
                       std::span<const Argument> arguments, std::span<RawId> results) {
  return {.function = Registry::instance().key_of(entry),
          .function_name = entry.name(),
          .request = request,
          .arguments = arguments,
          .results = results,
          .streaming = entry.is_streaming()};
}

ActorCall actor_call_of(const Entry& entry, RawId actor,
                        const std::shared_ptr<const CallRequest>& request,
                        std::span<const Argument> arguments, std::span<RawId> results) {
  return {.actor = actor,
          .method = Registry::instance().key_of(entry),
          .entry = &entry,
          .method_name = entry.name(),
          .request = request,
          .arguments = arguments,
          .results = results};
}

namespace {

void rethrow_failure(std::span<const Argument> arguments) {
  for (const Argument& each : arguments) {
    if (each.value != nullptr) each.value->rethrow_failure();
  }
}

}  // namespace

void require_submitted(const Done& done, std::span<const Argument> arguments) {
  if (!done) return;
  rethrow_failure(arguments);
  require(done);
}

namespace {

// As in Ray.
constexpr int asynchronous_max_concurrency = 1000;

// A class is asynchronous if this program names a method of it that returns a deferred result.
bool is_asynchronous(const void* class_tag) {
  return std::ranges::any_of(Registry::instance().entries(), [&](const Entry* each) {
    return each->class_tag() == class_tag && each->description() != nullptr &&
           each->description()->deferred;
  });
}

}  // namespace

std::shared_ptr<const ActorRequest> on_one_thread(std::shared_ptr<const ActorRequest> request) {
  if (request->threads != 0) return request;
  auto changed = std::make_shared<ActorRequest>(*request);
  changed->threads = 1;
  if (!changed->max_concurrency.is_chosen())
    changed->max_concurrency = asynchronous_max_concurrency;
  return changed;
}

std::shared_ptr<const Anchor> create_actor(const Entry& entry,
                                           const std::shared_ptr<const ActorRequest>& request,
                                           const std::shared_ptr<Runtime>& runtime,
                                           std::span<const Argument> arguments) {
  const bool asynchronous = is_asynchronous(entry.class_tag());
  auto answer = runtime->create_actor({.constructor = Registry::instance().key_of(entry),
                                       .class_name = entry.class_name(),
                                       .request = asynchronous ? on_one_thread(request) : request,
                                       .arguments = arguments});
  if (!answer.ok()) rethrow_failure(arguments);
  return Anchor::adopt(runtime, {RefKind::actor, std::move(answer).take()});
}

std::string call_by_json(const std::string& name, const std::string& name_space,
                         std::string_view method, const std::string& arguments,
                         const GetOptions& options) {
  const auto target = runtime();
  const NamedActor found = target->get_actor(name, name_space).take();
  const auto actor = Anchor::adopt(target, {RefKind::actor, found.actor});
  const OutgoingValue<std::string> value(arguments);
  const Argument argument{.value = &value};
  RawId result;
  // The key distinguishes the calls of this process by method.
  require(target->call_actor({.actor = found.actor,
                              .method = {{}, mix(mix_start, method)},
                              .method_name = method,
                              .request = default_call_request(),
                              .arguments = {&argument, 1},
                              .results = {&result, 1}}));
  return get(ObjectRef<std::string>(Anchor::adopt(target, {RefKind::object, result})), options);
}

std::shared_ptr<const Anchor> find_actor(const std::string& name, const std::string& name_space,
                                         std::string_view class_name) {
  const auto target = runtime();
  if (name.empty()) throw InvalidRequestError("get_actor: the name is empty");
  check_name("name", name);
  check_name("name_space", name_space);
  NamedActor found = target->get_actor(name, name_space).take();
  auto anchor = Anchor::adopt(target, {RefKind::actor, found.actor});
  if (internal::common_name(found.class_name) != internal::common_name(class_name)) {
    throw InvalidRequestError("get_actor: \"" + name + "\" is a " + found.class_name + ", not a " +
                              std::string(class_name) + "; ask for it by its own class");
  }
  return anchor;
}

std::shared_ptr<const Anchor> find_current_actor(std::string_view class_name) {
  const auto target = runtime();
  const NamedActor found = target->current_actor().take();
  auto anchor = Anchor::adopt(target, {RefKind::actor, found.actor});
  if (internal::common_name(found.class_name) != internal::common_name(class_name)) {
    throw InvalidRequestError("current_actor: this actor is a " + found.class_name + ", not a " +
                              std::string(class_name));
  }
  return anchor;
}

void kill_actor(const std::shared_ptr<const Anchor>& actor, bool no_restart) {
  const auto target = runtime();
  require(target->kill(require_id(actor.get(), target), no_restart));
}

}  // namespace mobula::detail

namespace mobula {

std::vector<std::string> list_named_actors() {
  return detail::runtime()->list_named_actors().take();
}

}  // namespace mobula
