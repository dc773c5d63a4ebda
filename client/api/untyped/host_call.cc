#include "client/api/untyped/host_call.h"

#include <mobula/errors.h>

#include <string>
#include <utility>

#include "base/logging/log.h"
#include "client/api/completion/callback_thread.h"
#include "client/api/untyped/language_host.h"

namespace mobula {
namespace internal::client {
namespace {

detail::ErrorRecord task_error(std::string message) {
  detail::ErrorRecord record;
  record.kind = detail::ErrorKind::task;
  record.message = std::move(message);
  return record;
}

dynamic::Callable callable_of(const CallForm& form, std::string_view class_name) {
  dynamic::Callable callable{.name = form.method, .class_name = class_name};
  if (form.kind == CallKind::construct_actor) callable.kind = dynamic::Kind::constructor;
  if (form.kind == CallKind::actor_call) callable.kind = dynamic::Kind::method;
  return callable;
}

PooledVector<dynamic::StoredPayload> payloads_of(std::span<detail::StoredValue> values) {
  PooledVector<dynamic::StoredPayload> payloads;
  payloads.reserve(values.size());
  for (auto& each : values)
    payloads.emplace_back(std::shared_ptr<const detail::StoredValue>(
        make_pooled<detail::StoredValue>(std::move(each))));
  return payloads;
}

}  // namespace

HostCall::HostCall(CopyOnWrite<CallForm> form, std::string_view class_name,
                   std::shared_ptr<TaskContext> context, detail::ResultSink* results, void* self,
                   std::span<detail::StoredValue> arguments)
    : form_(std::move(form)),
      context_(std::move(context)),
      callable_(callable_of(*form_, class_name)),
      self_(self),
      arguments_(payloads_of(arguments)),
      results_(results) {}

dynamic::Caller HostCall::caller() const {
  const auto caller = untyped_caller(form_->types);
  if (!caller) return {};
  return {.language = caller->language, .program = caller->program, .by_program = caller->neutral};
}

void HostCall::created(std::shared_ptr<void> actor) {
  const MutexLock lock(mutex_);
  actor_ = std::move(actor);
}

// Without the lock during the wait for consumers: another thread may complete the call.
bool HostCall::give_item(std::size_t index, const dynamic::Payload& value) {
  detail::refuse_callback("giving an item of a stream");
  detail::ResultSink* sink = nullptr;
  {
    const MutexLock lock(mutex_);
    if (is_complete_) return false;
    if (is_giving_ || index != items_) {
      throw InvalidRequestError("giving item " + std::to_string(index) + " of " + form_->name +
                                ": item " + std::to_string(items_) +
                                (is_giving_ ? " is being given by another thread" : " is next"));
    }
    is_giving_ = true;
    sink = results_;
  }
  detail::Outcome outcome;
  try {
    outcome.error = sink->accept(index, value);
  } catch (...) {
    const MutexLock lock(mutex_);
    is_giving_ = false;
    completed_.notify_all();
    throw;
  }
  const MutexLock lock(mutex_);
  is_giving_ = false;
  ++items_;
  completed_.notify_all();
  if (outcome.error && !is_complete_) (void)set_complete(outcome);
  return !is_complete_;
}

bool HostCall::give(std::size_t index, const dynamic::Payload& value) {
  if (is_stream()) return give_item(index, value);
  std::shared_ptr<detail::DeferredResults> ended;
  detail::Outcome outcome;
  {
    const MutexLock lock(mutex_);
    const bool blocks = deferred_ ? deferred_->must_post(value) : false;
    if (blocks) detail::refuse_callback("giving a large result or a tensor");
    if (form_->kind == CallKind::construct_actor || index >= form_->num_returns) {
      throw InvalidRequestError("giving result " + std::to_string(index) + " of " + form_->name +
                                ": the call has " + std::to_string(form_->num_returns) +
                                " results");
    }
    if (is_complete_) {
      log_warn("host: dropped a result of a complete call call={} result={}", form_->name, index);
      return false;
    }
    if (given_.size() <= index) given_.resize(form_->num_returns);
    if (given_[index]) {
      throw InvalidRequestError("giving result " + std::to_string(index) + " of " + form_->name +
                                ": it is given already");
    }
    // With the lock held: results are stored one at a time, and none after the completion.
    auto failed = deferred_ ? deferred_->accept(index, value) : results_->accept(index, value);
    given_[index] = true;
    if (!failed) return true;
    outcome.error = std::move(failed);
    ended = set_complete(outcome);
  }
  if (ended) (void)ended->complete(std::move(outcome));
  return false;
}

std::shared_ptr<detail::DeferredResults> HostCall::set_complete(detail::Outcome& outcome) {
  is_complete_ = true;
  context_->host_call.store(TaskContext::HostCallState::complete);
  if (deferred_) return std::exchange(deferred_, nullptr);
  completion_.outcome = std::move(outcome);
  completed_.notify_all();
  return nullptr;
}

void HostCall::complete(const char* operation, detail::Outcome outcome) {
  std::shared_ptr<detail::DeferredResults> ended;
  {
    const MutexLock lock(mutex_);
    if (is_complete_) {
      log_warn("host: ignored {} of a complete call call={}", operation, form_->name);
      return;
    }
    ended = set_complete(outcome);
  }
  if (ended) (void)ended->complete(std::move(outcome));
}

std::string HostCall::missing() const {
  if (form_->kind == CallKind::construct_actor) return actor_ ? "" : "the actor";
  for (std::size_t i = 0; i < form_->num_returns && !is_stream(); ++i) {
    if (i >= given_.size() || !given_[i]) return "result " + std::to_string(i);
  }
  return {};
}

void HostCall::done() {
  detail::Outcome outcome;
  {
    const MutexLock lock(mutex_);
    if (const std::string absent = missing(); !absent.empty() && !is_complete_)
      outcome.error = task_error("the host completed " + form_->name + " without " + absent);
  }
  complete("done", std::move(outcome));
}

void HostCall::drop() {
  std::shared_ptr<detail::DeferredResults> ended;
  detail::Outcome outcome;
  {
    const MutexLock lock(mutex_);
    if (is_complete_) return;
    is_dropped_ = true;
    outcome.error =
        task_error("the host dropped the call of " + form_->name + " before it was complete");
    ended = set_complete(outcome);
  }
  if (ended) (void)ended->complete(std::move(outcome));
}

void HostCall::end_by_exception(detail::Outcome outcome) {
  const MutexLock lock(mutex_);
  if (is_complete_ && !is_dropped_) return;
  (void)set_complete(outcome);
}

std::optional<HostCall::Completion> HostCall::complete_or_defer() {
  MutexLock lock(mutex_);
  if (!is_complete_ && results_ != nullptr) {
    deferred_ = results_->defer();
    if (deferred_) {
      results_ = nullptr;  // ends with the function of the runner
      return std::nullopt;
    }
  }
  while (!is_complete_ || is_giving_) completed_.wait(lock);
  if (!completion_.outcome.error) completion_.actor = std::move(actor_);
  return std::move(completion_);
}

}  // namespace internal::client

namespace dynamic {

using internal::client::HostCall;

Call::Call(std::shared_ptr<HostCall> call) noexcept : call_(std::move(call)) {}

Call::Call(Call&&) noexcept = default;

Call& Call::operator=(Call&& other) noexcept {
  if (this == &other) return *this;
  drop();
  call_ = std::move(other.call_);
  return *this;
}

Call::~Call() { drop(); }

void Call::drop() noexcept {
  if (call_) call_->drop();
  call_.reset();
}

CallId Call::id() const { return call_->context().token; }
const Callable& Call::callable() const { return call_->callable(); }
Caller Call::caller() const { return call_->caller(); }
std::span<const StoredPayload> Call::arguments() const { return call_->arguments(); }
void* Call::self() const { return call_->self(); }
Returns Call::returns() const { return call_->returns(); }
std::shared_ptr<const detail::ContextRecord> Call::context() const {
  return call_->context().record();
}
bool Call::cancelled() const { return call_->context().cancelled.load(); }

void Call::created(std::shared_ptr<void> actor) { call_->created(std::move(actor)); }
bool Call::give(std::size_t index, const Payload& value) { return call_->give(index, value); }

void Call::fail(Failure failure) {
  if (failure.record.kind == detail::ErrorKind::other)
    failure.record.kind = detail::ErrorKind::task;
  call_->complete("fail", {.error = std::move(failure.record), .no_retry = !failure.may_retry});
}

void Call::exit_actor() {
  call_->complete("exit_actor", {.error = std::nullopt, .exit_actor = true});
}

void Call::done() { call_->done(); }

}  // namespace dynamic
}  // namespace mobula
