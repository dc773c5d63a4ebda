#include "sim/workload/user_code.h"

#include <algorithm>
#include <cstdlib>

#include "protocol/codec/codec.h"
#include "sim/process_role.h"

namespace mobula::internal::sim {
namespace {

constexpr std::int64_t large_bytes = 200'000;  // above the limit for values inside messages

Payload payload_of(std::uint64_t number) { return Payload(encode(number)); }

void append(RefRecords& to, const RefRecords& refs) {
  to.insert(to.end(), refs.begin(), refs.end());
}

}  // namespace

Thread::Thread(Process& process, std::uint64_t key, const Plan& plan, TaskId task)
    : process_(process),
      key_(key),
      plan_(plan),
      task_(task),
      steps_(plan.steps),
      stage_(Stage::working) {
  run_.token = 0;
}

Thread::Thread(Process& process, executor::RunCall run, const Plan& plan)
    : process_(process),
      key_(run.token),
      plan_(plan),
      task_(run.call.task),
      run_(std::move(run)),
      steps_(plan.steps) {
  finished_.token = run_.token;
  finished_.pid = process.pid();
  began_at_ = process.outside().now();
}

// ---- the course of things ----------------------------------------------------------------------

void Thread::advance() {
  while (!waiting_ && process_.alive() && !process_.outside().over()) {
    switch (stage_) {
      case Stage::reading: read_arguments(); break;
      case Stage::working: work(); break;
      case Stage::storing: store_result(); break;
      case Stage::settling: settle(); break;
      case Stage::done: return;
    }
  }
}

void Thread::read_arguments() {
  stage_ = Stage::working;
  if (run_.call.attempt < plan_.crashes && key_ % 2 == 0) {
    EndCause cause{EndKind::signalled, 0, 11, process_.pid(), "it crashed", {}};
    return process_.die(cause);
  }
  for (const auto& argument : *run_.call.arguments) {
    Reading reading;
    if (argument.is_ref) {
      reachable_.push_back(argument.ref);
      reading = process_.read(argument.ref.object);
      append(reachable_, reading.contained);
    } else {
      append(reachable_, argument.value.contained);
      const auto number = decode<std::uint64_t>(argument.value.bytes.bytes());
      reading.number = number ? *number : 0;
      reading.contained = argument.value.contained;
    }
    for (const auto& ref : reading.contained) {
      process_.step_client(client::AdoptRef{ref});
      leases_.push_back(ref.object);
    }
    if (reading.error) {
      fail(std::move(*reading.error));
      continue;
    }
    if (argument.is_ref) {
      process_.outside().checkers().value_read(process_, argument.ref.object, reading);
      mapped_reads_.emplace_back(argument.ref.object, reading.number);
    }
    for (const auto& ref : reading.contained)
      (ref.tensor.is_empty() ? refs_ : given_tensors_).push_back(ref);
    read_ = mixed(read_, reading.number);
  }
  if (plan_.run_time > Duration(0)) sleep(plan_.run_time);
}

void Thread::work() {
  if (error_ || cancelled_ || next_ >= steps_.size()) {
    if (!is_call()) return finish();
    if (is_stream()) {
      stage_ = Stage::storing;
      return;
    }
    if (run_.call.attempt < plan_.crashes) {
      EndCause cause{EndKind::signalled, 0, 11, process_.pid(), "it crashed", {}};
      return process_.die(cause);
    }
    if (!error_ && throws_in(plan_, run_.call.attempt)) fail(ErrorKind::task, "thrown on purpose");
    if (plan_.answered_after > Duration(0) && !std::exchange(returned_, true))
      return sleep(plan_.answered_after);
    if (!error_ && plan_.abandons) fail(ErrorKind::task, "its promise was destroyed");
    if (!error_ && cancelled_) fail(ErrorKind::task, "it noticed that it was cancelled");
    stage_ = Stage::storing;
    return;
  }
  const Step step = steps_[next_];
  if (!take(step)) return;
  ++next_;
  inner_ = 0;
  began_ = false;
}

bool Thread::take(const Step& step) {
  const auto var = [&]() -> Var& { return vars_.at(static_cast<std::size_t>(step.var)); };
  switch (step.act) {
    case Act::submit: submit(step); return true;
    case Act::put: return put(step);
    case Act::get: {
      const ObjectId object = var().object;
      if (!get(object, !step.tolerant, step.tolerant)) return false;
      if (object.empty() || error_ || cancelled_) return true;
      if (step.force) {
        mapped_reads_.emplace_back(object, process_.read(object).number);
        process_.step_client(client::RetainRef{object});
        leases_.push_back(object);
      } else {
        unwant(object);
      }
      return true;
    }
    case Act::get_refs: return get_each(refs_, true);
    case Act::read_kept: return get_each(process_.kept(), false);
    case Act::call_refs: call_refs(step); return true;
    case Act::keep_refs: keep_refs(); return true;
    case Act::wait_any: return wait_any(step);
    case Act::release: {
      const ObjectId object = std::exchange(var().object, {});
      if (!object.empty()) process_.step_client(client::ReleaseRef{object});
      return true;
    }
    case Act::cancel:
      process_.outside().checkers().cancelled(var().object);
      process_.step_client(client::CancelObject{var().object, step.force, true});
      return true;
    case Act::make_actor: make_actor(step); return true;
    case Act::get_or_make: return get_or_make(step);
    case Act::find_actor: return find_actor(step);
    case Act::call_actor: call_actor(step); return true;
    case Act::kill_actor: {
      if (step.force) {
        process_.step_client(client::KillActor{var().actor, true});
        return true;
      }
      const auto* row = process_.client().actor(var().actor);
      if (row == nullptr || row->state == ActorState::dead || ++tries_ > 100) return true;
      if (!std::exchange(began_, true)) process_.step_client(client::KillActor{var().actor, true});
      sleep(Duration(500ms));
      return false;
    }
    case Act::make_group: make_group(step); return true;
    case Act::end_group: process_.step_client(client::EndGroup{var().group}); return true;
    case Act::sleep:
      if (began_) return true;
      began_ = true;
      sleep(step.span);
      return false;
    case Act::leave: leave_ = true; return true;
    case Act::read_stream: return read_stream(step);
  }
  return true;
}

void Thread::fail(ErrorRecord error) {
  if (!error_) error_ = std::move(error);
}

void Thread::fail(ErrorKind kind, std::string text) {
  ErrorRecord error;
  error.kind = kind;
  error.text = std::move(text);
  fail(std::move(error));
}

// ---- objects, tasks, and actors ----------------------------------------------------------------

Expected Thread::expected_of(ObjectId object) const {
  return process_.outside().checkers().expected(object);
}

RefRecords Thread::records_of(const std::vector<int>& vars) const {
  RefRecords records;
  for (const int var : vars) {
    const ObjectId object = vars_.at(static_cast<std::size_t>(var)).object;
    if (process_.client().object(object) != nullptr)
      records.push_back(process_.client().ref_of(object));
  }
  return records;
}

Expected Thread::expected_put(const Step& step) const {
  Expected value;
  value.number = step.number;
  for (const int var : step.vars) {
    const Var& each = vars_.at(static_cast<std::size_t>(var));
    value.contained.push_back(expected_of(each.object));
    value.contained.back().handle = !each.actor.empty();
  }
  return value;
}

Arguments Thread::arguments_of(const Step& step, std::vector<Expected>& expected) const {
  Arguments arguments;
  for (const auto& given : step.given) {
    Argument argument;
    if (given.by_ref) {
      const ObjectId object = vars_.at(static_cast<std::size_t>(given.var)).object;
      argument.is_ref = true;
      if (process_.client().object(object) != nullptr)
        argument.ref = process_.client().ref_of(object);
      expected.push_back(expected_of(object));
    } else {
      argument.value.bytes = payload_of(given.number);
      argument.value.size_bytes = static_cast<std::int64_t>(argument.value.bytes.size());
      argument.value.contained = records_of(given.contained);
      if (given.pass_refs) append(argument.value.contained, refs_);
      Expected value;
      value.number = given.number;
      for (const auto& ref : argument.value.contained) {
        value.contained.push_back(expected_of(ref.object));
        value.contained.back().handle = !ref.actor.empty();
      }
      expected.push_back(std::move(value));
    }
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

void Thread::submit(const Step& step) {
  const auto& plans = process_.outside().plan().plans;
  const Plan& plan = plans.at(static_cast<std::size_t>(step.plan));
  std::vector<Expected> expected;
  client::SubmitTask event;
  event.call.form.edit().kind = CallKind::task;
  event.call.task = child_id(task_, children_++);
  event.call.form.edit().job = process_.job();
  event.call.form.edit().function = {process_.program(), static_cast<std::uint64_t>(plan.id)};
  event.call.form.edit().name = plan.name;
  event.call.arguments = arguments_of(step, expected);
  event.demand_class = process_.demand_class(plan);
  event.parent = task_;
  event.max_retries = plan.max_retries;
  event.retry_exceptions = plan.retry_exceptions;
  event.fail_if_infeasible = plan.shape == "impossible";
  join_group(step, event.demand_class);
  const ObjectId object = result_id(event.call.task, 0);
  process_.outside().checkers().submitted(process_, event.call, evaluate(plans, plan.id, expected));
  if (plan.stream_window > 0) {
    event.call.form.edit().stream.window = plan.stream_window;
    process_.outside().streams().submitted(event.call.task, plan);
  }
  process_.outside().use().submitted(process_.id());
  process_.step_client(std::move(event));
  vars_.push_back({object, {}, {}});
}

void Thread::join_group(const Step& step, DemandClass& demand) const {
  if (step.group < 0) return;
  const GroupId group = vars_.at(static_cast<std::size_t>(step.group)).group;
  demand.request.placement.group = group;
  demand.id = ClassId::derived(demand.id, group.hex(), 0);
}

void Thread::make_actor(const Step& step) {
  const Plan& plan = process_.outside().plan().plans.at(static_cast<std::size_t>(step.plan));
  std::vector<Expected> expected;
  client::SubmitActor event;
  ActorSpec& spec = event.spec;
  spec.actor = process_.new_id<ActorId>("actor");
  spec.job = process_.job();
  spec.owner = process_.id();
  spec.class_name = plan.name;
  spec.name = plan.actor_name;
  spec.name_space = "shared";
  spec.detached = plan.detached;
  spec.get_if_exists = step.act == Act::get_or_make;
  spec.max_restarts = plan.max_restarts;
  spec.max_task_retries = plan.max_task_retries;
  spec.max_concurrency = plan.max_concurrency;
  spec.groups = plan.groups;
  spec.out_of_order = plan.out_of_order;
  spec.demand = process_.demand_class(plan);
  join_group(step, spec.demand);
  spec.constructor.form.edit().kind = CallKind::construct_actor;
  spec.constructor.task = TaskId::derived(spec.actor, "construct", 0);
  spec.constructor.form.edit().job = process_.job();
  spec.constructor.form.edit().actor = spec.actor;
  spec.constructor.form.edit().function = {process_.program(), static_cast<std::uint64_t>(plan.id)};
  spec.constructor.form.edit().name = plan.name;
  spec.constructor.form.edit().num_returns = 0;
  spec.constructor.arguments = arguments_of(step, expected);
  const ActorId actor = spec.actor;
  if (spec.get_if_exists) process_.found_instead().try_emplace(actor);
  process_.step_client(std::move(event));
  vars_.push_back({handle_id(actor), actor, {}});
}

bool Thread::find_actor(const Step& step) {
  const Plan& plan = process_.outside().plan().plans.at(static_cast<std::size_t>(step.plan));
  if (request_ == 0) {
    request_ = process_.next_request();
    process_.answers().try_emplace(request_);
    FindActor question;
    question.request = request_;
    question.name = plan.actor_name;
    question.name_space = "shared";
    process_.step_client(client::QueryHead{question});
    sleep(tries_ < 10 ? Duration(20ms) : Duration(500ms));
    return false;
  }
  const auto found = process_.answers().extract(std::exchange(request_, 0)).mapped();
  if (!found || !found->found) {
    if (++tries_ < 60) return false;
    fail(ErrorKind::not_found, "no actor has the name");
    process_.outside().checkers().lost_name(process_, plan);
    return true;
  }
  vars_.push_back({handle_id(found->actor), found->actor, {}});
  return true;
}

void Thread::call_actor(const Step& step) {
  const auto& plans = process_.outside().plan().plans;
  const Plan& plan = plans.at(static_cast<std::size_t>(step.plan));
  std::vector<Expected> expected;
  client::SubmitActorCall event;
  event.call.form.edit().kind = CallKind::actor_call;
  event.call.task = child_id(task_, children_++);
  event.call.form.edit().job = process_.job();
  event.call.form.edit().actor = vars_.at(static_cast<std::size_t>(step.var)).actor;
  event.call.form.edit().function = {process_.program(), static_cast<std::uint64_t>(plan.id)};
  event.call.form.edit().name = plan.name;
  event.call.form.edit().group = plan.group;
  event.call.arguments = arguments_of(step, expected);
  event.parent = task_;
  const ObjectId object = result_id(event.call.task, 0);
  Expected result = evaluate(plans, plan.id, expected);
  result.must_fail |= step.must_fail;
  process_.outside().checkers().submitted(process_, event.call, std::move(result));
  if (plan.stream_window > 0) {
    event.call.form.edit().stream.window = plan.stream_window;
    process_.outside().streams().submitted(event.call.task, plan);
  }
  process_.outside().use().submitted(process_.id());
  process_.step_client(std::move(event));
  vars_.push_back({object, {}, {}});
}

void Thread::make_group(const Step& step) {
  client::SubmitGroup event;
  GroupSpec& spec = event.spec;
  spec.id = process_.new_id<GroupId>("group");
  spec.job = process_.job();
  spec.strategy = static_cast<GroupStrategy>(step.strategy);
  for (const int cpus : step.bundles) {
    Request bundle;
    bundle.resources.set("CPU", Quantity::whole(std::abs(cpus)));
    if (cpus < 0) bundle.resources.set("GPU", Quantity::whole(1));
    spec.bundles.push_back(std::move(bundle));
  }
  const GroupId group = spec.id;
  process_.step_client(std::move(event));
  client::AwaitGroup ready;
  ready.group = group;
  ready.object = put_id(task_, puts_++);
  ready.value.bytes = payload_of(step.number);
  ready.value.size_bytes = static_cast<std::int64_t>(ready.value.bytes.size());
  Expected expected;
  expected.number = step.number;
  process_.outside().checkers().made(ready.object, expected);
  vars_.push_back({ready.object, {}, group});
  process_.step_client(std::move(ready));
}

// Makes a call and a read for each handle.
void Thread::call_refs(const Step& step) {
  for (const auto& ref : refs_) {
    if (ref.actor.empty()) continue;
    process_.step_client(client::RetainRef{ref.object});
    vars_.push_back({ref.object, ref.actor, {}});
    Step call;
    call.act = Act::call_actor;
    call.plan = step.plan;
    call.var = static_cast<int>(vars_.size()) - 1;
    call_actor(call);
    if (step.unawaited) continue;
    Step get;
    get.act = Act::get;
    get.var = static_cast<int>(vars_.size()) - 1;
    steps_.push_back(get);
  }
}

void Thread::keep_refs() {
  for (const auto& ref : refs_) {
    process_.step_client(client::AdoptRef{ref});
    process_.kept().push_back(ref);
  }
  // Kept while the process lives. Elements are counted but not read.
  for (const auto& ref : given_tensors_) process_.step_client(client::AdoptRef{ref});
}

bool Thread::put(const Step& step) {
  const ObjectId object = put_id(task_, puts_);
  if (!step.large) {
    ++puts_;
    ValueRecord value;
    value.bytes = payload_of(step.number);
    value.size_bytes = static_cast<std::int64_t>(value.bytes.size());
    value.contained = records_of(step.vars);
    process_.outside().checkers().made(object, expected_put(step));
    process_.step_client(client::PutInline{object, std::move(value)});
    vars_.push_back({object, {}, {}});
    return true;
  }
  if (!std::exchange(began_, true)) {
    process_.step_client(
        client::ReserveSpace{object, large_bytes, process_.id(), process_.client().node()});
  }
  const auto space = process_.reserved().find(object);
  if (space == process_.reserved().end()) {
    block([this, object] { return process_.reserved().contains(object); }, false);
    return false;
  }
  const client::SpaceReserved made = space->second;
  process_.reserved().erase(space);
  ++puts_;
  if (made.failure) {
    process_.outside().checkers().store_refused(process_, *made.failure);
    fail(ErrorKind::object_store_full, made.failure->text);
    return true;
  }
  process_.outside().checkers().made(object, expected_put(step));
  process_.write(made.location, object, payload_of(step.number));
  process_.step_client(client::ValueWritten{object, false, records_of(step.vars)});
  vars_.push_back({object, {}, {}});
  return true;
}

// ---- results -----------------------------------------------------------------------------------

void Thread::store_result() {
  if (is_stream() && !give_items()) return;
  stage_ = Stage::settling;
  finished_.leave = leave_;
  if (error_) {
    error_->task_name = run_.call.form->name;
    ValueRecord value = client::error_value(*error_);
    finished_.outcome = CallOutcome::exception;
    finished_.results.assign(1, std::move(value));
    return let_go();
  }
  if (run_.call.form->kind == CallKind::construct_actor || run_.call.form->num_returns == 0 ||
      is_stream())
    return let_go();
  const std::uint64_t number = mixed(static_cast<std::uint64_t>(plan_.id) + 1, read_);
  ValueRecord value;
  value.contained = records_of(plan_.returned);
  if (plan_.return_refs) append(value.contained, refs_);
  if (plan_.return_refs) append(value.contained, given_tensors_);
  keep_tensors();
  append(value.contained, tensors_);
  if (!plan_.large) {
    value.bytes = payload_of(number);
    value.size_bytes = static_cast<std::int64_t>(value.bytes.size());
    process_.step_client(client::PinRefs{value.contained});
    finished_.results.push_back(std::move(value));
    return let_go();
  }
  const ObjectId object = result_id(run_.call.task, 0);
  if (!std::exchange(began_, true)) {
    process_.step_client(
        client::ReserveSpace{object, large_bytes, run_.caller, run_.call.caller_node});
  }
  if (inner_ == 0) {
    const auto space = process_.reserved().find(object);
    if (space == process_.reserved().end()) {
      stage_ = Stage::storing;
      return block([this, object] { return process_.reserved().contains(object); }, false);
    }
    const client::SpaceReserved made = space->second;
    process_.reserved().erase(space);
    const bool there = made.failure && made.failure->code == ErrorCode::already_exists;
    if (made.failure && !there) {
      fail(ErrorKind::object_store_full, made.failure->text);
      stage_ = Stage::storing;
      return;
    }
    inner_ = 1;
    if (!there) {
      process_.write(made.location, object, payload_of(number));
      process_.step_client(client::ValueWritten{object, false, value.contained});
    }
  }
  if (!process_.sealed().contains(object)) {
    stage_ = Stage::storing;
    return block([this, object] { return process_.sealed().contains(object); }, false);
  }
  process_.sealed().erase(object);
  value.in_store = true;
  value.size_bytes = large_bytes;
  value.location = process_.client().node();
  finished_.results.push_back(std::move(value));
  let_go();
}

// Elements of tensors stay here. The result refers to them.
void Thread::keep_tensors() {
  while (tensors_.size() < static_cast<std::size_t>(plan_.tensors)) {
    tensors_.push_back(process_.new_tensor());
    process_.step_client(client::KeepTensor{tensors_.back()});
  }
}

// Releases the locals of user code, then hands over the refs inside the results.
void Thread::let_go() {
  read_mapped_again();
  while (!wanted_.empty()) unwant(wanted_.back());
  const auto release_found = [this](const std::optional<FindActorReply>& unread) {
    if (unread && unread->found) process_.step_client(client::ReleaseRef{handle_id(unread->actor)});
  };
  if (const auto reply = process_.answers().extract(request_)) release_found(reply.mapped());
  for (const auto& var : vars_) {
    if (const auto reply = process_.found_instead().extract(var.actor); reply)
      release_found(reply.mapped());
    if (!var.object.empty()) process_.step_client(client::ReleaseRef{var.object});
  }
  vars_.clear();
  for (const ObjectId object : {std::exchange(position_, {}), std::exchange(item_read_, {})}) {
    if (!object.empty()) process_.step_client(client::ReleaseRef{object});
  }
  for (const ObjectId object : leases_) process_.step_client(client::ReleaseRef{object});
  leases_.clear();
  for (const auto& tensor : std::exchange(tensors_, {}))
    process_.step_client(client::ReleaseRef{tensor.object});
  if (!is_call()) return;
  RefRecords contents;
  for (const auto& result : finished_.results) {
    if (!result.in_store) append(contents, result.contained);
  }
  if (contents.empty()) return;
  process_.step_client(client::HandOver{contents, run_.caller, run_.call.caller_node});
  auto given = process_.take_handed_over();
  for (auto& result : finished_.results) {
    for (auto& ref : result.contained) {
      if (std::ranges::find(given.objects, ref.object) == given.objects.end()) continue;
      ref.owner = run_.caller;
      ref.home = run_.call.caller_node;
    }
  }
  finished_.handovers = std::move(given.tasks);
  finished_.pinned = std::move(contents);
  append(finished_.pinned, given.pinned);
}

void Thread::settle() {
  if (!std::exchange(dropped_, true)) {
    finished_.kept = process_.client().passed_on(reachable_);
    process_.drop_fetched(run_.token);
  }
  RefRecords contents = finished_.pinned;
  for (const auto& result : finished_.results) append(contents, result.contained);
  const auto settled = [this, contents] {
    return !process_.client().holds_unconfirmed(reachable_) && !process_.client().storing(contents);
  };
  if (!settled()) return block(settled, false);
  stage_ = Stage::done;
  std::ranges::copy(process_.client().held(reachable_), std::back_inserter(finished_.kept));
  finished_.run_time = process_.outside().now() - began_at_;
  process_.call_finished(run_, std::move(finished_));
}

void Thread::finish() {
  let_go();
  stage_ = Stage::done;
}

}  // namespace mobula::internal::sim
