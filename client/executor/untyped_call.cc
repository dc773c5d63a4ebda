#include "client/executor/untyped_call.h"

#include <fmt/format.h>

#include <utility>

#include "base/logging/log.h"
#include "client/api/untyped/host_call.h"
#include "client/api/untyped/language_host.h"
#include "client/engine/caller/completions.h"
#include "client/engine/conversion.h"

namespace mobula::internal::executor {

using client::TaskContext;

detail::Outcome run_untyped_call(const RunCall& run, const DeferredCall::Host& executor,
                                 const std::shared_ptr<TaskContext>& context,
                                 const detail::Invocation& call,
                                 std::span<detail::StoredValue> arguments) {
  const CallForm& form = *run.call.form;
  const dynamic::Host* const host = client::language_host();
  if (host == nullptr) {
    const auto caller = client::untyped_caller(form.types);
    const std::string_view language = caller ? caller->language : std::string_view();
    return {.error = client::make_error(
                detail::ErrorKind::task,
                fmt::format("running {}, a function of {}: this process has no host for it; call "
                            "mobula::dynamic::set_host before init",
                            form.name, language.empty() ? "another language" : language)),
            .no_retry = true};
  }
  // The thread that cancels sets `cancelled` and then reads `host_call`, so that one of both sees
  // the other.
  context->host_call.store(TaskContext::HostCallState::running);
  if (context->cancelled.load()) {
    context->host_call.store(TaskContext::HostCallState::complete);
    return {.error = client::cancelled_error(form.name), .no_retry = true};
  }
  auto hosted = make_pooled<client::HostCall>(
      run.call.form, form.kind == CallKind::task ? "" : std::string_view(executor.class_name),
      context, call.results, call.self, arguments);
  // guarded() takes no state, so that the invocation carries the call.
  detail::Outcome ran = detail::guarded({.self = &hosted}, [](const detail::Invocation& of) {
    auto shared = *static_cast<std::shared_ptr<client::HostCall>*>(of.self);
    client::language_host()->run(dynamic::Call(std::move(shared)));
  });
  if (ran.error || ran.exit_actor) hosted->end_by_exception(std::move(ran));
  auto completion = hosted->complete_or_defer();
  if (!completion) return {};
  if (call.created != nullptr) *call.created = std::move(completion->actor);
  return std::move(completion->outcome);
}

bool begin_cancel(TaskContext& context) {
  const dynamic::Host* const host = client::language_host();
  if (host == nullptr || !host->cancel) return false;
  auto running = TaskContext::HostCallState::running;
  return context.host_call.compare_exchange_strong(running, TaskContext::HostCallState::cancelling);
}

void cancel_untyped_call(const TaskContext& context) {
  const dynamic::Host* const host = client::language_host();
  if (context.host_call.load() != TaskContext::HostCallState::cancelling) return;
  const client::CallbackScope scope;
  try {
    host->cancel(context.token);
  } catch (const std::exception& thrown) {
    log_warn("host: an exception left the cancel hook and was dropped text={}", thrown.what());
  }
}

}  // namespace mobula::internal::executor
