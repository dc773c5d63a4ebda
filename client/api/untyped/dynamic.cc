// The compiled half of untyped calls: options become requests, and the runtime gets the names.
#include <mobula/dynamic.h>

#include <array>
#include <cstring>
#include <string>
#include <utility>

#include <mobula/errors.h>

#include "base/containers/block_pool.h"
#include "client/api/completion/asynchronous.h"
#include "client/api/rules.h"
#include "client/api/untyped/language_host.h"

namespace mobula::dynamic {
namespace {

using detail::Anchor;
using detail::RawId;
using detail::RefKind;

constexpr int most_results = 65'536;

// Arguments in the form of the runtime. Few calls have more than eight.
class RuntimeArguments {
 public:
  RuntimeArguments(const std::shared_ptr<detail::Runtime>& runtime,
                   std::span<const Argument> given) {
    if (given.size() > few_.size()) many_.resize(given.size());
    detail::Argument* const first = many_.empty() ? few_.data() : many_.data();
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (given[i].value != nullptr) {
        first[i].value = given[i].value;
      } else {
        const AnyRef* const ref = given[i].ref;
        first[i].object =
            detail::require_id(ref == nullptr ? nullptr : ref->anchor().get(), runtime);
      }
    }
    span_ = {first, given.size()};
  }
  RuntimeArguments(const RuntimeArguments&) = delete;
  RuntimeArguments& operator=(const RuntimeArguments&) = delete;

  std::span<const detail::Argument> span() const { return span_; }

 private:
  std::array<detail::Argument, 8> few_ = {};
  std::vector<detail::Argument> many_;
  std::span<const detail::Argument> span_;
};

// Space for the ids of a call's results. Few calls have more than four.
class ResultIds {
 public:
  explicit ResultIds(int count) : count_(static_cast<std::size_t>(count)) {
    if (count_ > few_.size()) many_.resize(count_);
  }
  std::span<RawId> span() { return {many_.empty() ? few_.data() : many_.data(), count_}; }

  std::vector<AnyRef> adopt(const std::shared_ptr<detail::Runtime>& runtime) {
    std::vector<AnyRef> refs;
    refs.reserve(count_);
    for (const RawId id : span()) refs.emplace_back(Anchor::adopt(runtime, {RefKind::object, id}));
    return refs;
  }

 private:
  std::size_t count_;
  std::array<RawId, 4> few_ = {};
  std::vector<RawId> many_;
};

void check_callable(const char* operation, const Callable& callable) {
  const std::string_view shown = callable.name.empty() ? callable.class_name : callable.name;
  if (shown.empty()) {
    throw InvalidRequestError(std::string(operation) + " an untyped call: it has no name");
  }
  internal::client::check_text("name", callable.name);
  internal::client::check_text("class_name", callable.class_name);
}

void refuse_program(const char* operation, const Callable& callable) {
  if (callable.program.empty()) return;
  throw InvalidRequestError(std::string(operation) + " " + std::string(callable.name) +
                            " of program " + std::string(callable.program) +
                            ": `program` is for functions; get_actor returns the actors that "
                            "another program has created");
}

void check_returns(const Callable& callable, const Returns& returns, int num_returns) {
  if (returns.streaming && returns.count != 1) {
    throw InvalidRequestError("calling " + std::string(callable.name) +
                              " with streaming results: " + "Returns::count is " +
                              std::to_string(returns.count) +
                              ", and a stream has one first position");
  }
  if (returns.count < 0 || returns.count > most_results) {
    throw InvalidRequestError("calling " + std::string(callable.name) + " with " +
                              std::to_string(returns.count) + " results: the number is from 0 to " +
                              std::to_string(most_results));
  }
  detail::check_returns(num_returns, returns.count);
}

// Equal options that follow each other on a thread share a request.
template <class Request, class Options>
std::shared_ptr<const Request> request_of(const Options& options) {
  thread_local Options latest;
  thread_local std::shared_ptr<const Request> request;
  if (!request || !(latest == options)) {
    request = detail::prepare(options).value();
    latest = options;
  }
  return request;
}

std::vector<std::shared_ptr<const Anchor>> anchors_of(std::span<const AnyRef> refs) {
  std::vector<std::shared_ptr<const Anchor>> anchors;
  anchors.reserve(refs.size());
  for (const AnyRef& each : refs) anchors.push_back(each.anchor());
  return anchors;
}

// In batches, as the typed API reads a vector: results that are awaited need no hold.
void fetch_all(std::span<const std::shared_ptr<const Anchor>> anchors,
               const detail::GetRequest& request, std::span<detail::StoredValue> values) {
  if (anchors.size() <= 1) return detail::require(detail::fetch(anchors, request, values));
  while (!anchors.empty()) {
    const std::size_t count = detail::fetch_some(anchors, request, values);
    anchors = anchors.subspan(count);
    values = values.subspan(count);
  }
}

}  // namespace

std::vector<AnyRef> submit(const Callable& task, const TaskOptions& options,
                           std::span<const Argument> arguments, Returns returns) {
  check_callable("submit", task);
  check_returns(task, returns, options.num_returns);
  if (!task.program.empty()) internal::client::check_text("program", task.program);
  const auto request = request_of<detail::TaskRequest>(options);
  const auto target = detail::runtime();
  const RuntimeArguments passed(target, arguments);
  ResultIds ids(returns.count);
  const auto& entry = internal::client::untyped_task();
  detail::require(
      target->submit_task({.function = detail::Registry::instance().key_of(entry),
                           .function_name = task.name,
                           .request = request,
                           .arguments = passed.span(),
                           .results = ids.span(),
                           .types = task.program.empty() ? internal::client::untyped_types()
                                                         : internal::client::neutral_types(),
                           .streaming = returns.streaming,
                           .program = task.program}));
  return ids.adopt(target);
}

AnyActor create(const Callable& constructor, const ActorOptions& options,
                std::span<const Argument> arguments) {
  check_callable("create", constructor);
  refuse_program("create", constructor);
  if (constructor.class_name.empty()) {
    throw InvalidRequestError("create an actor by " + std::string(constructor.name) +
                              ": the class has no name");
  }
  std::shared_ptr<const detail::ActorRequest> request = detail::prepare(options).take();
  if (constructor.asynchronous) request = detail::on_one_thread(std::move(request));
  const auto target = detail::runtime();
  const RuntimeArguments passed(target, arguments);
  const auto& entry = internal::client::untyped_constructor();
  auto answer = target->create_actor({.constructor = detail::Registry::instance().key_of(entry),
                                      .class_name = constructor.class_name,
                                      .request = request,
                                      .arguments = passed.span(),
                                      .constructor_name = constructor.name,
                                      .types = internal::client::untyped_types()});
  return AnyActor(Anchor::adopt(target, {RefKind::actor, std::move(answer).take()}));
}

std::vector<AnyRef> call(const AnyActor& actor, const Callable& method, const CallOptions& options,
                         std::span<const Argument> arguments, Returns returns) {
  check_callable("call", method);
  refuse_program("call", method);
  check_returns(method, returns, options.num_returns);
  const auto request = request_of<detail::CallRequest>(options);
  const auto target = detail::runtime();
  const RuntimeArguments passed(target, arguments);
  ResultIds ids(returns.count);
  const auto& entry = internal::client::untyped_method();
  detail::require(target->call_actor({.actor = detail::require_id(actor.anchor().get(), target),
                                      .method = detail::Registry::instance().key_of(entry),
                                      .method_name = method.name,
                                      .request = request,
                                      .arguments = passed.span(),
                                      .results = ids.span(),
                                      .types = internal::client::untyped_types(),
                                      .streaming = returns.streaming}));
  return ids.adopt(target);
}

Step next(const AnyRef& position, const NextOptions& options) {
  auto step = detail::try_take_step(position.anchor(), options);
  if (step) return StreamItem{AnyRef(step->item), AnyRef(step->next)};
  if (step.error().record().kind == detail::ErrorKind::get_timeout)
    detail::throw_error(step.error().record());
  return step.error().record();
}

AnyRef put(const Payload& value, const PutOptions& options) {
  return AnyRef(detail::put_value(value, options));
}

std::vector<Fetched> get(std::span<const AnyRef> refs, const GetOptions& options) {
  std::vector<detail::StoredValue> values(refs.size());
  fetch_all(anchors_of(refs), detail::get_request(options), values);
  std::vector<Fetched> fetched;
  fetched.reserve(refs.size());
  for (auto& each : values) {
    if (each.error) {
      fetched.emplace_back(*each.error);
    } else {
      fetched.emplace_back(
          StoredPayload(internal::make_pooled<detail::StoredValue>(std::move(each))));
    }
  }
  return fetched;
}

std::vector<std::size_t> wait(std::span<const AnyRef> refs, const WaitOptions& options) {
  std::vector<const Anchor*> anchors;
  anchors.reserve(refs.size());
  for (const AnyRef& each : refs) anchors.push_back(each.anchor().get());
  return detail::wait_for(anchors, options);
}

void cancel(const AnyRef& ref, const CancelOptions& options) {
  detail::cancel_object(ref.anchor(), options);
}

void kill(const AnyActor& actor, const KillOptions& options) {
  detail::kill_actor(actor.anchor(), options.no_restart);
}

AnyActor get_actor(const std::string& name, const std::string& name_space,
                   std::string_view class_name) {
  return AnyActor(detail::find_actor(name, name_space, class_name));
}

}  // namespace mobula::dynamic
