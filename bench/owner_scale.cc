// Cost of one step of an owner's core next to many rows that the step does not touch, in ns of
// processor time. The figures of a line are constant if no step scans a table.
//
// mobula-bench-owner [ROWS...]      default: 100 1000 10000 100000
// mobula-bench-owner --unwatched CALLS
//   only calls and tasks without subscriptions, for bench/queries/subscription_cost.py
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "bench/measure/thread_time.h"
#include "client/core/client_core.h"

namespace mobula::internal::client {
namespace {

class Owner {
 public:
  Owner() : core_(options()) {
    StartJob job;
    job.job = JobId::of(1);
    step(Attached{node(), ProcessId::of(9), job});
    step(ReceivedFromAgent{FromHead{StartJobReply{JobId::of(1), "bench"}}});
  }
  static NodeId node() { return NodeId::of(1); }
  static RefRecord ref(ObjectId object) { return RefRecord{object, node(), ProcessId::of(1), {}}; }
  // Models the shell: takes a step, then reads the deadline for its timer.
  void step(Event event) {
    commands.clear();
    now_ = now_ + 1us;
    core_.step(now_, std::move(event), commands);
    deadlines_ += core_.next_deadline().has_value() ? 1 : 0;
  }
  void add_actor(std::uint64_t number) {
    SubmitActor actor;
    actor.spec.actor = ActorId::of(number);
    actor.spec.job = JobId::of(1);
    step(std::move(actor));
    ActorChanged alive;
    alive.actor = ActorId::of(number);
    alive.state = ActorState::alive;
    alive.version = alive.incarnation = 1;
    alive.endpoint.process = ProcessId::of(1'000'000 + number);
    step(ReceivedFromAgent{FromHead{alive}});
  }
  // Calls actor 1.
  void call_and_reply() {
    SubmitActorCall call;
    call.call.form.edit().kind = CallKind::actor_call;
    call.call.form.edit().actor = ActorId::of(1);
    call.call.task = TaskId::of(++calls_);
    const ObjectId result = result_id(call.call.task, 0);
    const TaskId task = call.call.task;
    step(std::move(call));
    ReceivedFromExecutor said;
    said.executor = ProcessId::of(1'000'001);
    said.frame.sequence = ++said_;
    said.frame.acknowledged = calls_;
    CallReply reply;
    reply.number = calls_;
    reply.task = task;
    reply.results.push_back(small_value());
    said.frame.message = std::move(reply);
    step(std::move(said));
    step(ReleaseRef{result});
  }
  static ValueRecord small_value() {
    ValueRecord value;
    value.bytes = Payload(std::vector<std::byte>(8));
    value.size_bytes = 8;
    return value;
  }

  // Queues a task. Subscribes to its result if `watched`, as CompletionQueue::add does.
  void submit(bool watched = true) {
    SubmitTask submit;
    submit.call.task = child_id(TaskId::of(1), ++calls_);
    submit.call.form = form_;
    submit.demand_class.id = ClassId::of(5);
    unserved_.push_back(submit.call.task);
    results_.push_back(result_id(submit.call.task, 0));
    step(std::move(submit));
    if (watched) step(SubscribeObject{results_.back(), 1, calls_, true, false});
  }
  void give_slot() {
    SlotReady ready;
    ready.slot = SlotId::of(1);
    ready.demand_class = ClassId::of(5);
    ready.node = node();
    ready.endpoint.process = ProcessId::of(2);
    step(ReceivedFromAgent{FromHead{ready}});
  }
  // Processes the reply to the oldest call, then reads its result.
  void serve(std::size_t index) {
    ReceivedFromExecutor said;
    said.executor = ProcessId::of(2);
    said.frame.sequence = ++said_;
    said.frame.acknowledged = said_ + 1;
    CallReply reply;
    reply.number = said_;
    reply.task = unserved_[index];
    reply.run_time = 1us;
    reply.results.push_back(small_value());
    said.frame.message = std::move(reply);
    step(std::move(said));
    if (core_.want_quietly(results_[index])) core_.unwant_quietly(results_[index]);
  }
  void release(std::size_t index) { step(ReleaseRef{results_[index]}); }
  void forget_served() {
    unserved_.clear();
    results_.clear();
  }

  std::vector<Command> commands;

 private:
  static ClientOptions options() {
    ClientOptions options;
    options.process = ProcessId::of(1);
    options.job = JobId::of(1);
    return options;
  }

  ClientCore core_;
  Time now_ = Time::from_ns(1'000'000'000);
  std::uint64_t calls_ = 0, said_ = 0, deadlines_ = 0;
  CopyOnWrite<CallForm> form_ = CallForm{.name = "zero_soon"};
  std::vector<TaskId> unserved_;
  std::vector<ObjectId> results_;
};

double calls_beside_idle_actors(std::uint64_t rows) {
  Owner owner;
  for (std::uint64_t number = 1; number <= rows; ++number) owner.add_actor(number);
  constexpr int calls = 2000;
  const double began = thread_cpu_ns();
  for (int i = 0; i < calls; ++i) owner.call_and_reply();
  return (thread_cpu_ns() - began) / calls;
}

// Calls and tasks one by one, each with a result that is read. A profiler finds this function.
[[gnu::noinline]] void unwatched_calls(Owner& of_actor, Owner& of_tasks, std::uint64_t calls) {
  for (std::uint64_t i = 0; i < calls; i += 2) {
    of_actor.call_and_reply();
    of_tasks.submit(/*watched=*/false);
    of_tasks.serve(0);
    of_tasks.release(0);
    of_tasks.forget_served();
  }
}

int run_unwatched(std::uint64_t calls) {
  Owner of_actor, of_tasks;
  of_actor.add_actor(1);
  of_tasks.submit(/*watched=*/false);
  of_tasks.give_slot();
  of_tasks.serve(0);
  of_tasks.release(0);
  of_tasks.forget_served();
  unwatched_calls(of_actor, of_tasks, calls);
  return 0;
}

struct Refs {
  double stored = 0;    // ns per ref: put, passed on, written to the store
  double released = 0;  // ns per ref: released with the containing value
};

Refs refs_inside_values(std::uint64_t rows) {
  Owner owner;
  RefRecords all;
  double began = thread_cpu_ns();
  for (std::uint64_t number = 1; number <= rows; ++number) {
    owner.step(PutInline{ObjectId::of(number), Owner::small_value()});
    all.push_back(Owner::ref(ObjectId::of(number)));
  }
  ValueRecord outer = Owner::small_value();
  outer.contained = all;
  const ObjectId holder = ObjectId::of(rows + 1);
  owner.step(PutInline{holder, std::move(outer)});
  for (const RefRecord& each : all) {
    ReserveObjectReply location;
    location.object = each.object;
    location.location = {1, 0, 8};
    owner.step(ReceivedFromAgent{location});
    owner.step(ValueWritten{each.object, false, {}});
    owner.step(ReceivedFromAgent{SealObjectReply{each.object}});
    owner.step(ReleaseRef{each.object});
  }
  Refs refs;
  refs.stored = (thread_cpu_ns() - began) / static_cast<double>(rows);
  began = thread_cpu_ns();
  owner.step(ReleaseRef{holder});
  for (const RefRecord& each : all) owner.step(ReceivedFromAgent{ExportReleased{each.object}});
  refs.released = (thread_cpu_ns() - began) / static_cast<double>(rows);
  return refs;
}

struct Outstanding {
  double submitted = 0;  // ns per task: queued, and its result subscribed
  double served = 0;     // ns per task: reply, report, and read
  double released = 0;   // ns per result
};

// Tasks that are all submitted before the first reply. The fastest of several rounds.
Outstanding outstanding_tasks(std::uint64_t rows) {
  constexpr std::uint64_t tasks = 400'000;
  Outstanding best{1e9, 1e9, 1e9};
  Owner owner;
  for (std::uint64_t round = 0; round * rows < tasks; ++round) {
    const double began = thread_cpu_ns();
    for (std::uint64_t i = 0; i < rows; ++i) owner.submit();
    if (round == 0) owner.give_slot();
    const double queued = thread_cpu_ns();
    for (std::uint64_t i = 0; i < rows; ++i) owner.serve(i);
    const double served = thread_cpu_ns();
    for (std::uint64_t i = 0; i < rows; ++i) owner.release(i);
    const auto per_task = [&](double ns) { return ns / static_cast<double>(rows); };
    best.released = std::min(best.released, per_task(thread_cpu_ns() - served));
    best.submitted = std::min(best.submitted, per_task(queued - began));
    best.served = std::min(best.served, per_task(served - queued));
    owner.forget_served();
  }
  return best;
}

void print(const char* name, const std::vector<double>& figures) {
  fmt::print("{:<44}", name);
  for (const double each : figures) fmt::print(" {:>10.0f}", each);
  fmt::print("\n");
}

int run(const std::vector<std::uint64_t>& rows) {
  fmt::print("{:<44}", "ns for each, by number of rows");
  for (const std::uint64_t each : rows) fmt::print(" {:>10}", each);
  fmt::print("\n");
  std::vector<double> calls, stored, released, submitted_tasks, served_tasks, released_results;
  for (const std::uint64_t each : rows) {
    calls.push_back(calls_beside_idle_actors(each));
    const Refs refs = refs_inside_values(each);
    stored.push_back(refs.stored);
    released.push_back(refs.released);
    const Outstanding tasks = outstanding_tasks(each);
    submitted_tasks.push_back(tasks.submitted);
    served_tasks.push_back(tasks.served);
    released_results.push_back(tasks.released);
  }
  print("call of one actor next to idle actors", calls);
  print("ref inside a value, stored", stored);
  print("ref inside a value, released with the value", released);
  print("task among outstanding ones, submitted", submitted_tasks);
  print("task among outstanding ones, served", served_tasks);
  print("task among outstanding ones, result released", released_results);
  return 0;
}

}  // namespace
}  // namespace mobula::internal::client

int main(int count, char** arguments) {
  if (count == 3 && std::string_view(arguments[1]) == "--unwatched")
    return mobula::internal::client::run_unwatched(std::strtoull(arguments[2], nullptr, 10));
  std::vector<std::uint64_t> rows;
  for (int i = 1; i < count; ++i) rows.push_back(std::strtoull(arguments[i], nullptr, 10));
  if (rows.empty()) rows = {100, 1000, 10'000, 100'000};
  return mobula::internal::client::run(rows);
}
