#include "client/engine/process_runtime.h"

#include <algorithm>

#include "client/api/untyped/call_signature.h"
#include "client/engine/conversion.h"
#include "client/engine/tensors/collective_groups.h"
#include "device/host_identity.h"
#include "mobula/detail/registry.h"
#include "mobula/detail/stages.h"

namespace mobula::internal::client {
namespace {

using detail::Answer;
using detail::ContainedRef;
using detail::RawId;
using detail::RefKind;

constexpr std::size_t most_prepared = 4096;

// See Calls::name. Untyped calls of one function may differ in the number of results.
std::uint64_t name_hash(std::string_view types, std::string_view name, std::size_t num_returns,
                        bool streaming) {
  if (types.empty()) return 0;
  const auto form = num_returns << 1 | (streaming ? 1 : 0);
  return detail::mix(detail::mix(detail::mix_start, form), name);
}

// The same for a function of another program.
std::uint64_t name_hash(std::uint64_t name, ProgramId program) {
  return detail::mix(detail::mix(name, program.bits().high), program.bits().low);
}

}  // namespace

ProcessRuntime::ProcessRuntime(std::shared_ptr<ProcessEngine> engine, RuntimeOptions options)
    : engine_(std::move(engine)),
      options_(std::move(options)),
      tensors_(engine_, options_.exchange),
      values_(engine_, tensors_),
      completions_(*engine_, std::bind_front(&ProcessRuntime::wait_for_report, this)),
      collectives_(std::make_shared<detail::CollectiveGroups>(registry_options())) {}

// Called by operations, which keep this runtime alive.
collective::GroupRegistryOptions ProcessRuntime::registry_options() {
  collective::GroupRegistryOptions options;
  options.acceptor.socket =
      options_.exchange.sockets.empty() ? std::string() : options_.exchange.sockets + ".c";
  options.acceptor.host_bind = options_.exchange.host_bind;
  options.acceptor.fabric = options_.exchange.fabric;
  options.acceptor.own_host = [this] {
    const auto held = engine_->lock();
    return exchange::separate_host(engine_->core().node());
  };
  options.gpus = options_.exchange.gpus;
  options.process = options_.exchange.self.process.hex();
  options.turns.claim = [this](std::uint32_t device_ordinal, std::function<void()> taken) {
    const auto held = engine_->lock();
    return tensors_.claim_turn(device_ordinal, std::move(taken));
  };
  options.turns.give_back = [this](std::uint64_t claim) {
    const auto held = engine_->lock();
    tensors_.return_turn(claim);
  };
  options.lost = options_.exchange.lost;
  return options;
}

std::shared_ptr<TaskContext> ProcessRuntime::task() const {
  auto context = current_context();
  return context ? context : options_.root;
}

// ---- submitting --------------------------------------------------------------------------------

detail::Done ProcessRuntime::put_large(std::span<const detail::Argument> given, bool block,
                                       Puts& puts) {
  const auto is_large = [](const detail::Argument& each) {
    return each.value != nullptr && each.value->size_bytes() > inline_value_limit;
  };
  for (const auto& argument : given) {
    if (is_large(argument)) puts.bytes += static_cast<std::int64_t>(argument.value->size_bytes());
  }
  if (puts.bytes > 0) {
    auto lock = engine_->lock();
    if (auto failed = wait_for_budget(lock, block, puts.bytes)) return failed;
    submitting_bytes_ += puts.bytes;
  }
  const auto context = task();
  for (const auto& argument : given) {
    if (!is_large(argument)) {
      puts.objects.emplace_back();
      continue;
    }
    const auto stored =
        values_.put(*argument.value, put_id(context->task, context->puts.fetch_add(1)), *context);
    if (!stored.ok()) {
      const auto lock = engine_->lock();
      submitted(puts);
      engine_->notify();
      return stored.error();
    }
    puts.objects.push_back(stored.value());
  }
  return std::nullopt;
}

// With the engine's lock held: the submitted call, or its failure, accounts the bytes from now on.
void ProcessRuntime::submitted(const Puts& puts) {
  submitting_bytes_ -= puts.bytes;
  for (const ObjectId object : puts.objects) {
    if (!object.empty()) engine_->step(ReleaseRef{object});
  }
}

CopyOnWrite<Arguments> ProcessRuntime::arguments_of(ProcessEngine::Lock& lock,
                                                    std::span<const detail::Argument> given,
                                                    const Puts& puts) {
  if (given.empty()) return {};
  Arguments arguments;
  arguments.reserve(given.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    Argument argument;
    const auto* value = given[i].value;
    if (value == nullptr || !puts.objects[i].empty()) {
      const ObjectId object = value == nullptr ? ObjectId(bits(given[i].object)) : puts.objects[i];
      argument.is_ref = true;
      if (engine_->core().object(object) != nullptr) argument.ref = engine_->core().ref_of(object);
    } else {
      // the caller of the library rethrows a failure
      (void)value->write(argument.value.bytes.resize(value->size_bytes()));
      argument.value.size_bytes = static_cast<std::int64_t>(value->size_bytes());
      argument.value.contained = values_.records_of(lock, value->contained());
    }
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

DemandClass ProcessRuntime::class_of(const detail::ResourceRequest& resources,
                                     std::int32_t max_calls, ProgramId program) const {
  return demand_class_of(resources, options_.job, program, max_calls, options_.captured);
}

CallForm ProcessRuntime::form_of(CallKind kind, const detail::FunctionKey& function,
                                 std::size_t num_returns) const {
  CallForm form;
  form.kind = kind;
  form.job = options_.job;
  form.function = {ProgramId(bits(function.image)), function.offset};
  form.num_returns = static_cast<std::uint32_t>(num_returns);
  form.name_space = options_.name_space;
  return form;
}

std::size_t ProcessRuntime::Calls::row_hash() const {
  return std::hash<const void*>()(request) ^ RowHash()(std::pair(function.offset, actor)) ^ name;
}

// Exactly the calls of actors name an actor, so all requests of such a function have one type.
template <class Request, class Prepare>
const ProcessRuntime::Prepared& ProcessRuntime::prepared(std::shared_ptr<const Request> request,
                                                         const detail::FunctionKey& function,
                                                         ActorId actor, std::uint64_t name,
                                                         Prepare prepare) {
  Calls calls{request.get(), {ProgramId(bits(function.image)), function.offset}, actor, name};
  if (const Prepared* known = prepared_.find(calls)) return *known;
  if (prepared_.size() > most_prepared) {
    last_prepared_.clear();
    prepared_.clear();
  }
  auto& last = *last_prepared_.ensure({nullptr, calls.function, actor, name}).first;
  for (const Prepared* each : last) {
    if (each != nullptr && *static_cast<const Request*>(each->request.get()) == *request)
      return *each;
  }
  Prepared fresh = prepare();
  fresh.request = std::move(request);
  const Prepared& kept = *prepared_.insert(calls, std::move(fresh)).first;
  std::rotate(last.begin(), last.end() - 1, last.end());
  last.front() = &kept;
  return kept;
}

detail::Done ProcessRuntime::submit_task(const detail::TaskSubmission& submission) {
  detail::stages().pass(detail::Stage::submitted);
  ProgramId program = options_.program;
  if (!submission.program.empty()) {
    auto found = program_of(submission.program);
    if (!found.ok()) return found.error();
    program = found.value();
  }
  Puts puts;
  if (auto failed = put_large(submission.arguments, submission.request->block_on_limit, puts))
    return *failed;
  const auto context = task();
  auto lock = engine_->lock();
  if (puts.bytes == 0) {
    if (auto failed = wait_for_budget(lock, submission.request->block_on_limit)) return *failed;
  }
  const auto& request = *submission.request;
  auto name = name_hash(submission.types, submission.function_name, submission.results.size(),
                        submission.streaming);
  if (!submission.program.empty()) name = name_hash(name, program);
  const Prepared& known = prepared(submission.request, submission.function, ActorId(), name, [&] {
    CallForm form = form_of(CallKind::task, submission.function, submission.results.size());
    form.name = request.name.empty() ? std::string(submission.function_name) : request.name;
    form.types = submission.types;
    if (!form.types.empty()) form.method = submission.function_name;
    form.retry_exceptions = request.retry_exceptions;
    form.retried_types = request.retry_exceptions.types();
    form.tensors =
        preference_of(request.tensor_transport, request.allow_fallback, request.tensor_policy);
    if (submission.streaming)
      form.stream.window = static_cast<std::uint32_t>(request.stream_window);
    return Prepared{nullptr, std::move(form),
                    class_of(request.resources, request.max_calls, program)};
  });
  SubmitTask event;
  event.call.task = child_id(context->task, context->children.fetch_add(1));
  event.call.form = known.form;
  event.call.arguments = arguments_of(lock, submission.arguments, puts);
  if (engine_->core().knows_class(known.demand_class.id)) {
    event.demand_class.id = known.demand_class.id;
  } else {
    event.demand_class = known.demand_class;
  }
  event.stored_bytes = puts.bytes;
  event.parent = context->task;
  event.max_retries = request.max_retries;
  event.retry_exceptions = request.retry_exceptions;
  event.fail_if_infeasible = request.resources.fail_if_infeasible;
  const TaskId id = event.call.task;
  engine_->step(std::move(event));
  engine_->attend(lock);
  submitted(puts);
  for (std::uint32_t i = 0; i < submission.results.size(); ++i)
    submission.results[i] = raw(result_id(id, i).bits());
  return std::nullopt;
}

// All but the arguments of the constructor. With the engine's lock held.
ActorSpec ProcessRuntime::spec_of(const detail::ActorCreation& creation) {
  const auto& request = *creation.request;
  ActorSpec spec;
  spec.actor = new_id<ActorId>("actor");
  spec.job = options_.job;
  spec.owner = engine_->core().options().process;
  spec.class_name = creation.class_name;
  spec.name = request.name;
  spec.name_space = request.name_space.empty() ? options_.name_space : request.name_space;
  spec.detached = request.detached;
  spec.get_if_exists = request.get_if_exists;
  spec.exclusive = request.exclusive;
  spec.max_restarts = request.max_restarts;
  spec.max_task_retries = request.max_task_retries;
  spec.max_concurrency = request.max_concurrency;
  spec.max_pending_calls = request.max_pending_calls;
  spec.threads = request.threads;
  for (const auto& [name, limit] : request.concurrency_groups) spec.groups.push_back({name, limit});
  spec.out_of_order = request.allow_out_of_order_execution;
  spec.demand = class_of(request.resources, 0, options_.program);
  spec.class_offset = creation.constructor.offset;
  CallRecord& constructor = spec.constructor;
  constructor.task = TaskId::derived(spec.actor, "construct", 0);
  CallForm form = form_of(CallKind::construct_actor, creation.constructor, 0);
  form.actor = spec.actor;
  form.name = spec.class_name;
  form.method = creation.constructor_name;
  form.types = creation.types;
  constructor.form = std::move(form);
  constructor.caller_node = engine_->core().node();
  return spec;
}

Answer<RawId> ProcessRuntime::create_actor(const detail::ActorCreation& creation) {
  Puts puts;
  if (auto failed = put_large(creation.arguments, creation.request->block_on_limit, puts))
    return *failed;
  const auto& request = *creation.request;
  auto lock = engine_->lock();
  if (puts.bytes == 0) {
    if (auto failed = wait_for_budget(lock, request.block_on_limit)) return *failed;
  }
  SubmitActor event;
  event.spec = spec_of(creation);
  event.spec.constructor.arguments = arguments_of(lock, creation.arguments, puts);
  event.fail_if_infeasible = request.resources.fail_if_infeasible;
  event.stored_bytes = puts.bytes;
  const ActorId actor = event.spec.actor;
  if (request.get_if_exists) engine_->caller().expect_found(actor);
  engine_->step(std::move(event));
  submitted(puts);
  if (!request.get_if_exists) return raw(actor.bits());

  // The name decides which actor this is, so the reply of the head is awaited.
  const auto waited = blocking_wait(
      lock,
      {"actor creation",
       [&] { return "the head has not said which actor has the name " + request.name; },
       {}},
      std::nullopt, [&] {
        const auto* row = engine_->core().actor(actor);
        return engine_->caller().found_instead(actor) || row == nullptr || row->version > 0;
      });
  const auto found = engine_->caller().take_found(actor);
  const bool is_other = found && found->found && found->actor != actor;
  if (ended_early(waited)) {
    if (is_other) engine_->step(ReleaseRef{handle_id(found->actor)});
    engine_->step(ReleaseRef{handle_id(actor)});
    return ended_error(waited, "actor creation");
  }
  if (!is_other) return raw(actor.bits());
  engine_->step(ReleaseRef{handle_id(actor)});
  return raw(found->actor.bits());
}

// The first call of an actor that another process created leaves at once. A second one waits until
// the head has reported the limit, which takes one round trip.
detail::Done ProcessRuntime::check_pending_calls(ProcessEngine::Lock& lock, ActorId actor) {
  const auto& core = engine_->core();
  const auto limit_of = [&] {
    const auto* row = core.actor(actor);
    return row == nullptr ? std::nullopt : row->max_pending_calls;
  };
  auto limit = limit_of();
  if (!limit && core.pending_calls(actor) > 0) {
    const auto reason = [&] {
      return "the head has not reported max_pending_calls of actor " + actor.hex();
    };
    const auto waited = blocking_wait(lock, {"remote", reason, {}}, std::nullopt, [&] {
      limit = limit_of();
      return limit.has_value() || core.pending_calls(actor) == 0;
    });
    if (ended_early(waited)) return ended_error(waited, "remote");
  }
  if (!limit || *limit < 0 || core.pending_calls(actor) < *limit) return std::nullopt;
  return make_error(ErrorKind::pending_limit, "call actor " + actor.hex() + ": this process has " +
                                                  std::to_string(core.pending_calls(actor)) +
                                                  " unfinished calls and max_pending_calls is " +
                                                  std::to_string(*limit) +
                                                  "; wait for some of them");
}

detail::Done ProcessRuntime::call_actor(const detail::ActorCall& call) {
  detail::stages().pass(detail::Stage::submitted);
  Puts puts;
  if (auto failed = put_large(call.arguments, call.request->block_on_limit, puts)) return *failed;
  const auto context = task();
  const ActorId actor(bits(call.actor));
  const auto& request = *call.request;
  auto lock = engine_->lock();
  if (puts.bytes == 0) {
    if (auto failed = wait_for_budget(lock, request.block_on_limit)) return *failed;
  }
  if (auto failed = check_pending_calls(lock, actor)) return *failed;
  const auto name = name_hash(call.types, call.method_name, call.results.size(), call.streaming);
  const Prepared& known = prepared(call.request, call.method, actor, name, [&] {
    CallForm form = form_of(CallKind::actor_call, call.method, call.results.size());
    form.actor = actor;
    form.name = request.name.empty() ? std::string(call.method_name) : request.name;
    form.tensors =
        preference_of(request.tensor_transport, request.allow_fallback, request.tensor_policy);
    form.beside = request.beside;
    form.group = request.concurrency_group;
    form.retry_exceptions = request.retry_exceptions;
    form.retried_types = request.retry_exceptions.types();
    if (call.entry != nullptr) {
      MethodSignature signature = signature_of(*call.entry);
      form.method = std::move(signature.name);
      form.types = std::move(signature.types);
      if (call.entry->is_streaming())
        form.stream.window = static_cast<std::uint32_t>(request.stream_window);
    } else {
      form.method = call.method_name;
      form.types = call.types.empty() ? json_types : call.types;
      if (call.streaming) form.stream.window = static_cast<std::uint32_t>(request.stream_window);
    }
    return Prepared{nullptr, std::move(form), {}};
  });
  SubmitActorCall event;
  event.call.task = child_id(context->task, context->children.fetch_add(1));
  event.call.form = known.form;
  event.call.arguments = arguments_of(lock, call.arguments, puts);
  event.stored_bytes = puts.bytes;
  event.parent = context->task;
  if (request.max_task_retries) event.max_task_retries = *request.max_task_retries;
  const TaskId id = event.call.task;
  engine_->step(std::move(event));
  engine_->attend(lock);
  submitted(puts);
  for (std::uint32_t i = 0; i < call.results.size(); ++i)
    call.results[i] = raw(result_id(id, i).bits());
  return std::nullopt;
}

// ---- values and ref counts ---------------------------------------------------------------------

Answer<RawId> ProcessRuntime::put(const detail::Outgoing& value,
                                  const detail::PutRequest& request) {
  const auto context = task();
  const auto stored = values_.put(
      value, put_id(context->task, context->puts.fetch_add(1)), *context,
      preference_of(request.tensor_transport, request.allow_fallback, request.tensor_policy));
  if (!stored.ok()) return stored.error();
  return raw(stored.value().bits());
}

void ProcessRuntime::retain(ContainedRef ref) noexcept {
  auto lock = engine_->lock();
  engine_->retain(counted_object(ref));
}

void ProcessRuntime::release(ContainedRef ref) noexcept {
  auto lock = engine_->lock();
  engine_->release(counted_object(ref));
}

// ---- the running task --------------------------------------------------------------------------

std::shared_ptr<const detail::ContextRecord> ProcessRuntime::context() { return task()->record(); }
bool ProcessRuntime::cancelled() { return task()->cancelled.load(); }
void* ProcessRuntime::stream() {
  const auto memory = device_memory();
  return memory ? memory->thread_stream() : nullptr;
}

// The caller of the running method holds the actor until its reply, which states whether this
// process keeps the handle.
Answer<detail::NamedActor> ProcessRuntime::current_actor() {
  const auto context = task();
  if (context->token == 0 || options_.self.actor.empty()) return Runtime::current_actor();
  context->used_self.store(true);
  auto lock = engine_->lock();
  if (engine_->core().object(options_.self.object) == nullptr) {
    engine_->step(AdoptRef{options_.self});
  } else {
    engine_->retain(options_.self.object);
  }
  return detail::NamedActor{raw(options_.self.actor.bits()), options_.self_class};
}

detail::Done ProcessRuntime::exit_actor() {
  const auto context = task();
  if (context->token == 0 || context->of_process->actor_id.empty()) {
    return make_error(ErrorKind::invalid_request, "exit_actor() is for methods of actors");
  }
  context->leave.store(true);
  return std::nullopt;
}

}  // namespace mobula::internal::client
