#include "client/core/small_client.h"

#include <algorithm>

#include "protocol/codec/codec.h"

namespace mobula::internal::client {

namespace {

ClientOptions with_ids(ClientOptions options) {
  options.process = ProcessId::of(1);
  options.job = JobId::of(1);
  return options;
}

}  // namespace

SmallClient::SmallClient(ClientOptions options) : core_(with_ids(std::move(options))) {
  StartJob job;
  job.job = JobId::of(1);
  step(Attached{node(), ProcessId::of(9), job});
  head(StartJobReply{JobId::of(1), "tests"});
}

const std::vector<Command>& SmallClient::step(Event event) {
  out.clear();
  core_.step(now_, std::move(event), out);
  if (checks_deadlines) EXPECT_TRUE(core_.deadlines_are_exact());
  for (const auto& each : out) {
    const auto* sent = std::get_if<SendToExecutor>(&each);
    if (sent == nullptr || !sent->frame.message) continue;
    Executor& executor = executors_[sent->executor];
    if (sent->frame.sequence != executor.received + 1) continue;  // repeated
    executor.received = sent->frame.sequence;
    if (const auto* push = std::get_if<PushCall>(&*sent->frame.message))
      executor.calls.push_back(*push);
  }
  return out;
}

void SmallClient::pass(Duration time) {
  now_ = now_ + time;
  step(Tick{});
}

SubmitTask SmallClient::task(std::uint64_t number) {
  SubmitTask task;
  task.call.task = TaskId::of(number);
  task.call.form.edit().job = JobId::of(1);
  task.call.form.edit().name = "task " + std::to_string(number);
  task.demand_class.id = ClassId::of(5);
  task.demand_class.job = JobId::of(1);
  return task;
}

TaskId SmallClient::submit(const SubmitTask& task) {
  step(task);
  return task.call.task;
}

ActorId SmallClient::make_actor(std::uint64_t number, std::int32_t max_task_retries) {
  SubmitActor actor;
  actor.spec.actor = ActorId::of(number);
  actor.spec.job = JobId::of(1);
  actor.spec.class_name = "Counter";
  actor.spec.max_task_retries = max_task_retries;
  step(actor);
  return actor.spec.actor;
}

TaskId SmallClient::call(ActorId actor) {
  SubmitActorCall call;
  call.call.form.edit().kind = CallKind::actor_call;
  call.call.task = TaskId::of(++tasks_);
  call.call.form.edit().actor = actor;
  call.call.form.edit().name = "call";
  step(call);
  return call.call.task;
}

ValueRecord SmallClient::value(const std::string& text) {
  ValueRecord value;
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  value.bytes = Payload(std::vector<std::byte>(bytes, bytes + text.size()));
  value.size_bytes = static_cast<std::int64_t>(text.size());
  return value;
}

Argument SmallClient::by_ref(const RefRecord& ref) {
  Argument argument;
  argument.is_ref = true;
  argument.ref = ref;
  return argument;
}

std::string SmallClient::state(ObjectId object) const {
  const auto* row = core_.object(object);
  if (row == nullptr) return "unknown";
  if (!row->ready) return "pending";
  return row->value->is_error ? "error" : "value";
}

ErrorRecord SmallClient::error(ObjectId object) const {
  const auto* row = core_.object(object);
  if (row == nullptr || !row->ready || !row->value->is_error) return {};
  return decode<ErrorRecord>(row->value->bytes.bytes()).value();
}

std::string SmallClient::text(ObjectId object) const {
  const auto* row = core_.object(object);
  if (row == nullptr || !row->ready) return "";
  const auto bytes = row->value->bytes.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// ---- head and agent ---------------------------------------------------------------------------

void SmallClient::slot(std::uint64_t slot, std::uint64_t executor, std::uint32_t generation) {
  SlotReady ready;
  ready.slot = SlotId::of(slot);
  ready.demand_class = ClassId::of(5);
  ready.node = node();
  ready.generation = generation;
  ready.endpoint.process = ProcessId::of(executor);
  head(ready);
}

void SmallClient::slot_executor_ends(std::uint64_t slot, std::uint64_t executor, EndKind kind) {
  GenerationEnded ended;
  ended.slot = SlotId::of(slot);
  ended.process = ProcessId::of(executor);
  ended.cause.kind = kind;
  head(ended);
  step(StreamEnded{ProcessId::of(executor)});
}

void SmallClient::actor_alive(ActorId actor, std::uint64_t executor, std::uint64_t version) {
  ActorChanged changed;
  changed.actor = actor;
  changed.state = ActorState::alive;
  changed.version = version;
  changed.incarnation = static_cast<std::uint32_t>(version);
  changed.endpoint.process = ProcessId::of(executor);
  head(changed);
}

// ---- executors --------------------------------------------------------------------------------

std::vector<PushCall> SmallClient::calls_at(std::uint64_t executor) const {
  const auto at = executors_.find(ProcessId::of(executor));
  return at == executors_.end() ? std::vector<PushCall>{} : at->second.calls;
}

void SmallClient::say(std::uint64_t executor, ExecutorMessage message) {
  Executor& row = executors_[ProcessId::of(executor)];
  ReceivedFromExecutor said;
  said.executor = ProcessId::of(executor);
  said.frame.sequence = ++row.sent;
  said.frame.acknowledged = row.received;
  said.frame.message = std::move(message);
  step(said);
}

void SmallClient::reply(std::uint64_t executor, CallReply reply) {
  auto& calls = executors_[ProcessId::of(executor)].calls;
  ASSERT_FALSE(calls.empty());
  reply.number = calls.front().number;
  reply.task = calls.front().call.task;
  reply.attempt = calls.front().call.attempt;
  calls.erase(calls.begin());
  say(executor, std::move(reply));
}

void SmallClient::reply_value(std::uint64_t executor, const std::string& text) {
  CallReply answer;
  answer.results.push_back(value(text));
  reply(executor, std::move(answer));
}

void SmallClient::reply_exception(std::uint64_t executor) {
  ErrorRecord thrown;
  thrown.kind = ErrorKind::task;
  thrown.text = "thrown";
  CallReply answer;
  answer.outcome = CallOutcome::exception;
  answer.results.push_back(error_value(thrown));
  reply(executor, std::move(answer));
}

void SmallClient::hand_back_all(std::uint64_t executor) {
  const auto calls = std::exchange(executors_[ProcessId::of(executor)].calls, {});
  for (const auto& each : calls)
    say(executor, CallReturned{each.number, each.call.task, "", false});
}

void SmallClient::take_back(std::uint64_t executor, std::uint64_t number) {
  std::erase_if(executors_[ProcessId::of(executor)].calls,
                [&](const PushCall& each) { return each.number == number; });
}

}  // namespace mobula::internal::client
