#include "client/executor/call_runner.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>

#include "base/logging/log.h"
#include "base/model/tensor_refs.h"
#include "client/api/untyped/call_signature.h"
#include "client/engine/conversion.h"
#include "client/executor/callee.h"
#include "client/executor/item_producer.h"
#include "client/executor/json_call.h"
#include "client/executor/untyped_call.h"
#include "mobula/detail/registry.h"
#include "mobula/detail/stages.h"
#include "mobula/retry_exceptions.h"

namespace mobula::internal::executor {
namespace {

using client::error_value_of;
using client::HandedOver;
using client::make_error;

// The reply of a call this short may wait for the reply of the next call.
constexpr Duration answers_gather_below = 50us;

// Receives the results of one call and stores them for their owner, or defers the call.
class CallResults final : public detail::ResultSink {
 public:
  using MakeDeferred = std::function<std::shared_ptr<DeferredCall>(RanResults&&)>;

  // The function that `make_deferred` refers to must outlive this object.
  CallResults(client::ProcessValues& values, const RunCall& run, const MakeDeferred& make_deferred)
      : values_(values), run_(run), make_deferred_(make_deferred) {}

  detail::Done accept(std::size_t index, const detail::Outgoing& value) override {
    // Only values in the store need an object id.
    const ObjectId object = value.size_bytes() > inline_value_limit
                                ? result_id(run_.call.task, static_cast<std::uint32_t>(index))
                                : ObjectId();
    auto stored = values_.store_result(value, run_.call.form->tensors, object, run_.caller,
                                       run_.call.caller_node, results_.given);
    if (!stored.ok()) return stored.error();
    // Untyped calls give their results in any order.
    auto& records = results_.records;
    if (records.size() <= index) records.resize(index + 1);
    records[index] = std::move(stored).take();
    return std::nullopt;
  }

  std::shared_ptr<detail::DeferredResults> defer() override {
    deferred_ = make_deferred_(std::move(results_));
    return deferred_;
  }

  RanResults& results() { return results_; }
  // Null: the call ends with its user code.
  std::shared_ptr<DeferredCall>& deferred() { return deferred_; }

 private:
  client::ProcessValues& values_;
  const RunCall& run_;
  const MakeDeferred& make_deferred_;
  std::shared_ptr<DeferredCall> deferred_;  // shared with its promise
  RanResults results_;
};

// Cached, because the system call takes longer than most of the work per call.
std::int64_t own_pid() {
  static const std::int64_t pid = ::getpid();
  return pid;
}

const detail::Entry& entry_of_host(CallKind kind) {
  switch (kind) {
    case CallKind::task: break;
    case CallKind::construct_actor: return client::untyped_constructor();
    case CallKind::actor_call: return client::untyped_method();
  }
  return client::untyped_task();
}

void append(RefRecords& to, const RefRecords& refs) {
  to.insert(to.end(), refs.begin(), refs.end());
}

// Refs that user code can reach through the arguments and that other processes must know of.
// Tensors of this process are omitted, because user code holds their memory, and so are tensors
// whose elements user code received.
RefRecords reachable(const CallRecord& call, client::ProcessEngine& engine) {
  RefRecords refs;
  const ProcessId self = engine.core().options().process;
  const auto add = [&](const RefRecords& contained) {
    std::ranges::copy_if(contained, std::back_inserter(refs), [&](const RefRecord& each) {
      return each.tensor.is_empty() || (is_pulled_tensor(each) && each.owner != self);
    });
  };
  for (const auto& argument : *call.arguments) {
    if (!argument.is_ref) {
      add(argument.value.contained);
      continue;
    }
    refs.push_back(argument.ref);
    if (const auto* row = engine.core().object(argument.ref.object)) add(row->value->contained);
  }
  return refs;
}

// Refs in inline results leave this process: unfinished tasks behind them are handed over to the
// caller, and the refs stay pinned until the caller holds them.
void hand_over_contents(CallFinished& finished, const RunCall& run, client::ProcessEngine& engine) {
  RefRecords contents;
  for (const auto& result : finished.results) {
    if (!result.in_store) append(contents, result.contained);
  }
  if (contents.empty()) return;
  auto given = engine.hand_over(contents, run.caller, run.call.caller_node);
  for (auto& result : finished.results) {
    if (!result.in_store)
      client::redirect(result.contained, given, run.caller, run.call.caller_node);
  }
  std::ranges::move(given.tasks, std::back_inserter(finished.handovers));
  append(finished.pinned, contents);
  append(finished.pinned, given.pinned);
}

}  // namespace

ArgumentRefs release_arguments(std::uint64_t token, RefRecords reachable,
                               client::ProcessRuntime& runtime, client::ProcessEngine::Lock& lock) {
  ArgumentRefs arguments{std::move(reachable), {}};
  if (runtime.engine().callee()->context(token)->used_self.load())
    arguments.reachable.push_back(runtime.self());
  auto pull = runtime.engine().callee()->drop_fetched(token);
  if (!pull) return arguments;
  runtime.engine().settle();
  arguments.lent = std::move(pull->lent);
  runtime.tensors().let_go(std::move(pull), lock);
  return arguments;
}

std::optional<client::UnsettledCall> begin_settling(CallFinished& finished, const RunCall& run,
                                                    client::ProcessRuntime& runtime,
                                                    ArgumentRefs arguments,
                                                    client::ProcessEngine::Lock& lock) {
  auto& refs = arguments.reachable;
  const bool nothing_leaves = refs.empty() && finished.pinned.empty() &&
                              std::ranges::all_of(finished.results, [](const auto& each) {
                                return each.contained.empty();
                              });
  if (nothing_leaves) return std::nullopt;
  auto& engine = runtime.engine();
  runtime.tensors().take_back(lock);
  finished.kept = engine.core().passed_on(refs);
  if (!arguments.lent.empty()) engine.step(client::EndBorrow{std::move(arguments.lent)});
  hand_over_contents(finished, run, engine);
  RefRecords leaving = finished.pinned;
  for (const auto& result : finished.results) {
    if (result.in_store) append(leaving, result.contained);
  }
  return client::UnsettledCall{std::move(finished), std::move(refs), std::move(leaving)};
}

void settle_call(CallFinished& finished, const RunCall& run, client::ProcessRuntime& runtime,
                 ArgumentRefs arguments, client::ProcessEngine::Lock& lock) {
  auto unsettled = begin_settling(finished, run, runtime, std::move(arguments), lock);
  if (!unsettled) return;
  auto& engine = runtime.engine();
  const auto settled = [&] {
    return !engine.core().holds_unconfirmed(unsettled->reachable) &&
           !engine.core().storing(unsettled->leaving);
  };
  engine.wait(lock, std::nullopt, std::ref(settled));
  finished = std::move(unsettled->finished);
  std::ranges::copy(engine.core().held(unsettled->reachable), std::back_inserter(finished.kept));
}

std::shared_ptr<const detail::ContextRecord> record_of_process(const AssignExecutor& assignment) {
  auto record = std::make_shared<detail::ContextRecord>();
  if (!assignment.actor.actor.empty()) record->actor_id = assignment.actor.actor.hex();
  record->node_id = assignment.node.hex();
  record->was_restarted = assignment.incarnation > 1;
  record->name_space = assignment.name_space;
  record->seed = assignment.seed;
  if (const auto at = assignment.resource_ids.find("GPU"); at != assignment.resource_ids.end()) {
    record->gpu_ids = at->second;
  }
  record->resource_ids = assignment.resource_ids;
  for (const auto& share : assignment.allocation.resources) {
    for (const auto& each : share.shares) {
      record->assigned_resources[share.name] += each.amount.to_double();
    }
  }
  record->accelerator_env = assignment.accelerator_env;
  return record;
}

std::shared_ptr<client::TaskContext> make_context(
    const RunCall& run, std::shared_ptr<const detail::ContextRecord> of_process) {
  auto context = make_pooled<client::TaskContext>();
  context->job = run.call.form->job;
  context->task = run.call.task;
  context->attempt = run.call.attempt;
  context->token = run.token;
  context->of_process = std::move(of_process);
  return context;
}

// ---- running -----------------------------------------------------------------------------------

// Concurrent calls have no label.
CallRunner::CallRunner(const AssignExecutor& assignment)
    : class_name_(assignment.actor.class_name),
      labels_(assignment.actor.actor.empty() || assignment.actor.max_concurrency == 1),
      queues_(assignment.actor.groups.size() + 2) {}

void CallRunner::open(const DeferredCall::Host& host,
                      std::shared_ptr<const detail::ContextRecord> of_process) {
  host_ = &host;
  of_process_ = std::move(of_process);
}

void CallRunner::take(std::vector<Command>& commands) {
  for (auto& command : commands) {
    auto* run = std::get_if<RunCall>(&command);
    if (run == nullptr) continue;
    auto context = make_context(*run, of_process_);
    host_->runtime->engine().callee()->call_started(context, *run->call.form,
                                                    run->call.may_run_again);
    queue(run->group).push_back({std::move(*run), std::move(context)});
  }
}

std::optional<RanCall> CallRunner::run_next(std::uint32_t group,
                                            client::ProcessEngine::Lock& lock) {
  Started started = queue(group).take_front();
  lock.unlock();
  const Time began = monotonic_now();
  if (labels_ && !started.run.call.form->beside) label_output(started.run, began);
  std::optional<RanCall> ran(std::in_place);
  run_call(started, began, *ran);
  ran->run = std::move(started.run);
  std::cout.flush();
  std::fflush(stdout);
  const bool deferred = ran->deferred != nullptr;
  if (deferred) std::exchange(ran->deferred, nullptr)->user_code_returned();
  lock.lock();
  if (deferred) ran.reset();
  return ran;
}

// An actor's output always carries the name of its class.
void CallRunner::label_output(const RunCall& run, Time now) {
  const auto& name = class_name_.empty() ? run.call.form->name : class_name_;
  label_.runs(host_->runtime->engine().core().options().process, name, run.call.task, now);
}

void CallRunner::run_call(const Started& started, Time began, RanCall& ran) {
  const RunCall& run = started.run;
  const auto& runtime = host_->runtime;
  auto& engine = runtime->engine();
  detail::Outcome outcome;
  const auto defer = [&](RanResults&& accepted) {
    return make_pooled<DeferredCall>(*host_, run, started.context, ran.reachable, began,
                                     std::move(accepted));
  };
  const CallResults::MakeDeferred make_deferred = std::ref(defer);
  CallResults results(runtime->values(), run, make_deferred);
  {
    Arguments arguments;
    if (run.call.form->tensors.direct) share_tensors();
    if (!run.call.arguments->empty()) {
      auto lock = engine.lock();
      ran.reachable = reachable(run.call, engine);
      for (const auto& argument : *run.call.arguments) {
        arguments.push_back(argument.is_ref
                                ? runtime->values().stored_object(lock, argument.ref.object)
                                : runtime->values().stored_value(lock, argument.value));
      }
    }
    const auto broken =
        std::ranges::find_if(arguments, [](const auto& each) { return each.error != nullptr; });
    if (broken != arguments.end()) {
      outcome.error = *broken->error;
    } else {
      outcome = run_entry(started, arguments, results);
    }
  }
  ran.deferred = std::move(results.deferred());
  if (ran.deferred) {
    // Without an error, the owner of the deferred results completes the call.
    if (outcome.error || outcome.exit_actor) (void)ran.deferred->complete(std::move(outcome));
    return;
  }
  results.results().run_time = monotonic_now() - began;
  ran.finished = finished_call(run, host_->node, engine, *started.context, std::move(outcome),
                               std::move(results.results()));
}

// Starts the exchange, so that readers can map tensors that the call makes. If GPUs would have to
// be opened first, it is not started: the tensors are then copied, which costs less than a GPU
// context that the call may not need.
void CallRunner::share_tensors() {
  auto lock = host_->runtime->engine().lock();
  auto& tensors = host_->runtime->tensors();
  if (tensors.would_open_devices()) return;
  if (auto prepared = tensors.prepare(); !prepared) {
    log_warn("tensors are not shared with other processes: {}", prepared.error().text);
  }
}

// Whether an untyped call means a function or method of C++. The host has all other names.
bool CallRunner::is_neutral(const CallForm& form, const client::UntypedCaller& caller) const {
  if (form.kind == CallKind::actor_call)
    return actor_.class_tag != nullptr && actor_.class_tag != client::untyped_method().class_tag();
  return caller.neutral && (client::language_host() == nullptr || has_function(form));
}

detail::Outcome CallRunner::run_entry(const Started& started,
                                      std::span<detail::StoredValue> arguments,
                                      detail::ResultSink& results) {
  const CallForm& form = *started.run.call.form;
  const bool streaming = form.stream.window != 0;
  detail::Invocation invocation;
  invocation.self = actor_.object.get();
  invocation.arguments = arguments;
  invocation.results = &results;
  const client::ContextScope scope(started.context);
  if (form.types == json_types && actor_.class_tag != nullptr)
    return run_json_call(form, actor_.class_tag, invocation);
  std::optional<ItemProducer> items;
  if (streaming) invocation.results = &items.emplace(*host_->runtime, started.run, started.context);
  const auto untyped = client::untyped_caller(form.types);
  if (untyped && is_neutral(form, *untyped))
    return run_neutral_call(form, *untyped, actor_.class_tag, invocation);
  Callee callee =
      untyped ? Callee{&entry_of_host(form.kind), {}} : callee_of(form, actor_.class_tag);
  const auto* entry = callee.entry;
  if (entry == nullptr) return {.error = std::move(callee.error)};
  if (entry->kind() == detail::EntryKind::method && entry->class_tag() != actor_.class_tag) {
    return {.error = make_error(
                detail::ErrorKind::invalid_request,
                form.name + " is a method of another class than the class of this actor")};
  }
  if (!entry->is_untyped() && entry->is_streaming() != streaming) {
    return {.error = make_error(detail::ErrorKind::invalid_request,
                                form.name + (streaming ? " has one result, and the caller expects "
                                                         "a stream"
                                                       : " gives a stream, and the caller expects "
                                                         "one result"))};
  }
  const bool constructs = form.kind == CallKind::construct_actor;
  std::shared_ptr<void> created;
  if (constructs) {
    invocation.results = nullptr;
    invocation.created = &created;
  }
  if (!entry->is_untyped()) {
    if (auto why = entry->mismatch(invocation)) return {.error = std::move(why)};
  }
  detail::stages().pass(detail::Stage::started);
  detail::Outcome outcome =
      entry->is_untyped()
          ? run_untyped_call(started.run, *host_, started.context, invocation, arguments)
          : entry->invoker()(invocation);
  detail::stages().pass(detail::Stage::ended);
  if (constructs && !outcome.error) {
    actor_.object = std::move(created);
    actor_.class_tag = entry->class_tag();
  }
  return outcome;
}

bool CallRunner::finish(RanCall& ran, client::ProcessEngine::Lock& lock) {
  auto& runtime = *host_->runtime;
  auto arguments = release_arguments(ran.run.token, std::move(ran.reachable), runtime, lock);
  settle_call(ran.finished, ran.run, runtime, std::move(arguments), lock);
  const bool is_short = ran.finished.run_time < answers_gather_below;
  runtime.engine().finish_call(std::move(ran.finished));
  return is_short;
}

CallFinished finished_call(const RunCall& run, const std::string& node,
                           client::ProcessEngine& engine, const client::TaskContext& context,
                           detail::Outcome&& outcome, RanResults&& results) {
  CallFinished finished;
  finished.token = run.token;
  finished.pid = own_pid();
  finished.run_time = results.run_time;
  finished.leave = outcome.exit_actor || context.leave.load();
  finished.results = std::move(results.records);
  for (auto& result : finished.results) {
    client::redirect(result.contained, results.given, run.caller, run.call.caller_node);
  }
  // Also after an error, because the caller owns these tasks by now.
  finished.handovers = std::move(results.given.tasks);
  finished.pinned = std::move(results.given.pinned);
  if (outcome.exit_actor && !outcome.error) {
    outcome.error = make_error(detail::ErrorKind::actor_died,
                               "the actor left by exit_actor() in this call, which has no result");
  }
  if (outcome.error) {
    // Results stored before the error have no reader, because the error replaces all results.
    for (const auto& record : finished.results) {
      if (record.contained.empty() || record.in_store) continue;
      auto lock = engine.lock();
      engine.step(client::UnpinRefs{record.contained, true});
    }
    outcome.error->node_id = node;
    outcome.error->process = finished.pid;
    if (outcome.error->task.empty()) outcome.error->task = run.call.form->name;
    outcome.error->task_id = run.call.task.hex();
    finished.outcome = CallOutcome::exception;
    const auto& retried = run.call.form->retried_types;
    finished.no_retry =
        outcome.no_retry || (!retried.empty() && !detail::has_type(outcome.thrown, retried));
    finished.results.assign(1, error_value_of(*outcome.error));
  }
  return finished;
}

}  // namespace mobula::internal::executor
