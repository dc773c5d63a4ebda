// Work about ends: of submitting executors, actors, waits, chains, and nodes of groups.
#include "base/model/group.h"
#include "sim/workload/author.h"

namespace mobula::internal::sim {
namespace {

// Makes the executor of a task exit soon: after one call, or when it is idle.
void let_exit(Plan& plan, Random& random) {
  if (random.chance(600)) plan.max_calls = 1;
}

Step unawaited_call(int method) {
  Step step = Author::on(Act::call_refs, -1);
  step.plan = method;
  step.unawaited = true;
  return step;
}

}  // namespace

// Tasks submit actor calls, tasks, and nested tasks, and return without reading a result.
int Author::unawaited_work() {
  const int type = add(actor_class());
  const int m = method();
  Plan child = leaf();
  child.steps.push_back(unawaited_call(m));
  if (random_.chance(500)) child.shape = "gpu";
  let_exit(child, random_);
  const int inner = add(std::move(child));
  Plan parent = leaf();
  parent.name = "parent";
  if (random_.chance(500)) parent.shape = "gpu";
  parent.steps.push_back(unawaited_call(m));
  Step start = submit(inner, {value()});
  start.given.front().pass_refs = true;
  const int count = static_cast<int>(random_.between(0, 3));
  for (int i = 0; i < count; ++i) parent.steps.push_back(start);
  let_exit(parent, random_);
  const int outer = add(std::move(parent));
  Plan main = item("unawaited");
  main.steps.push_back(make(type));
  const int tasks = static_cast<int>(random_.between(1, 4));
  for (int i = 0; i < tasks; ++i) main.steps.push_back(submit(outer, {value({0})}));
  for (int i = 0; i < tasks; ++i) main.steps.push_back(on(Act::get, i + 1));
  main.steps.push_back(sleep(Duration(2s)));
  return add(std::move(main));
}

// Tasks submit calls that their actor runs for up to 50 s, and return. Their executors wait for
// these calls. All calls are in the queue of the actor, which sends none back.
int Author::long_queue() {
  Plan type = actor_class();
  type.max_concurrency = 1;
  const int actor = add(std::move(type));
  Plan slow;
  slow.name = "slow";
  slow.run_time = random_.between(Duration(4s), Duration(5500ms));
  const int m = add(std::move(slow));
  Plan caller = leaf();
  caller.name = "caller";
  caller.shape = "spread";
  for (int i = 0; i < 3; ++i) caller.steps.push_back(unawaited_call(m));
  const int f = add(std::move(caller));
  Plan main = item("long_queue");
  main.steps.push_back(make(actor));
  constexpr int tasks = 3;
  for (int i = 0; i < tasks; ++i) main.steps.push_back(submit(f, {value({0})}));
  for (int i = 0; i < tasks; ++i) main.steps.push_back(on(Act::get, i + 1));
  const int last = method();  // drawn before its argument with every compiler
  main.steps.push_back(call(0, last, {value()}));
  main.steps.push_back(on(Act::get, tasks + 1));
  return add(std::move(main));
}

// A task returns the ref of a call that its actor has not finished.
int Author::returned_calls() {
  const int type = add(actor_class());
  Plan slow;
  slow.name = "slow";
  slow.run_time = random_.between(Duration(1ms), Duration(400ms));
  const int m = add(std::move(slow));
  Plan maker = leaf();
  maker.steps.push_back(unawaited_call(m));
  maker.returned = {1};
  let_exit(maker, random_);
  const int f = add(std::move(maker));
  Plan reader = leaf();
  reader.steps.push_back(on(Act::get_refs, -1));
  const int g = add(std::move(reader));
  Plan main = item("return_call");
  main.steps.push_back(make(type));
  main.steps.push_back(submit(f, {value({0})}));
  main.steps.push_back(on(Act::get, 1));
  if (random_.chance(500))
    main.steps.push_back(sleep(random_.between(Duration(0), Duration(800ms))));
  main.steps.push_back(submit(g, {ref(1)}));
  main.steps.push_back(on(Act::get, 2));
  return add(std::move(main));
}

// A task makes an actor and returns its handle. Other tasks call the actor after the task's
// executor has exited.
int Author::actor_factory() {
  const int type = add(actor_class());
  const int m = method();
  Plan maker = leaf();
  maker.name = "maker";
  maker.steps.push_back(make(type));
  if (random_.chance(500)) maker.steps.push_back(call(0, m, {value()}));
  maker.returned = {0};
  let_exit(maker, random_);
  const int f = add(std::move(maker));
  Plan caller = leaf();
  caller.name = "caller";
  Step calls = on(Act::call_refs, -1);
  calls.plan = m;
  caller.steps.push_back(calls);
  const int g = add(std::move(caller));
  Plan main = item("factory");
  main.steps.push_back(submit(f, {value()}));
  main.steps.push_back(on(Act::get, 0));
  main.steps.push_back(sleep(random_.between(Duration(0), Duration(1s))));
  main.steps.push_back(submit(g, {ref(0)}));
  main.steps.push_back(submit(g, {ref(0)}));
  for (int i = 1; i < 3; ++i) main.steps.push_back(on(Act::get, i));
  return add(std::move(main));
}

// Tasks get or create the actor of one name, call it, and release it. Each finds a live actor or
// makes one.
int Author::shared_name() {
  Plan made = actor_class();
  made.actor_name = "shared";
  const int type = add(std::move(made));
  const int m = method();
  Step get_it = make(type);
  get_it.act = Act::get_or_make;
  Plan user = leaf();
  user.name = "user";
  user.steps = {get_it, call(0, m, {value()}), on(Act::get, 1)};
  if (random_.chance(500)) let_exit(user, random_);
  const int f = add(std::move(user));
  Plan main = item("shared_name");
  const int rounds = static_cast<int>(random_.between(2, 12));
  int vars = 0;
  for (int i = 0; i < rounds; ++i) {
    if (random_.chance(500)) {
      main.steps.push_back(submit(f, {value()}));
      main.steps.push_back(on(Act::get, vars++));
      continue;
    }
    main.steps.push_back(get_it);
    main.steps.push_back(call(vars, m, {value()}));
    main.steps.push_back(on(Act::get, vars + 1));
    main.steps.push_back(on(Act::release, vars));
    vars += 2;
    if (random_.chance(300))
      main.steps.push_back(sleep(random_.between(Duration(0), Duration(20ms))));
  }
  return add(std::move(main));
}

// Calls after a kill of their actor fail, both before and after the head reports its death.
int Author::call_after_kill() {
  const int type = add(actor_class());
  const int m = method();
  Plan main = item("killed_call");
  main.steps = {make(type), call(0, m, {value()}), on(Act::get, 1)};
  Step kill = on(Act::kill_actor, 0);
  kill.force = true;
  main.steps.push_back(kill);
  const int calls = static_cast<int>(random_.between(1, 3));
  for (int i = 0; i < calls; ++i) {
    Step late = call(0, m, {value()});
    late.must_fail = true;
    main.steps.push_back(late);
  }
  for (int i = 0; i < calls; ++i) {
    main.steps.push_back(on(Act::get, i + 2));
    main.steps.back().tolerant = true;
  }
  return add(std::move(main));
}

// Actors of one name exit one after the other. The result of the call that ends an actor frees its
// name, so the next actor of that name is a new one.
int Author::leaving_names() {
  Plan made = actor_class();
  made.actor_name = "leaver" + std::to_string(plans_.size());
  const int type = add(std::move(made));
  const int m = method();
  const int leave = method(Act::leave);
  Step get_it = make(type);
  get_it.act = Act::get_or_make;
  Plan main = item("leaving_name");
  const int rounds = static_cast<int>(random_.between(2, 8));
  for (int i = 0; i < rounds; ++i) {
    const int actor = 3 * i;
    main.steps.push_back(random_.chance(500) ? make(type) : get_it);
    main.steps.push_back(call(actor, m, {value()}));
    main.steps.push_back(call(actor, leave));
    main.steps.push_back(on(Act::get, actor + 1));
    main.steps.push_back(on(Act::get, actor + 2));
    if (random_.chance(500)) main.steps.push_back(on(Act::release, actor));
  }
  return add(std::move(main));
}

// Bursts of short tasks that spread over the nodes.
int Author::spread_bursts() {
  Plan spread = leaf();
  spread.name = "spread";
  spread.shape = "spread";
  const int f = add(std::move(spread));
  Plan main = item("spread_burst");
  int vars = 0;
  const int bursts = static_cast<int>(random_.between(1, 4));
  for (int i = 0; i < bursts; ++i) {
    const int tasks = static_cast<int>(random_.between(1, 8));
    for (int k = 0; k < tasks; ++k) main.steps.push_back(submit(f, {value()}));
    if (random_.chance(300))
      main.steps.push_back(sleep(random_.between(Duration(0), Duration(5ms))));
    for (int k = 0; k < tasks; ++k) main.steps.push_back(on(Act::get, vars++));
  }
  return add(std::move(main));
}

// Tasks wait for a task that never runs, until they are cancelled without force.
int Author::cancelled_while_blocked() {
  Plan never = leaf();
  never.name = "never";
  never.shape = "absent";
  never.may_fail = true;
  const int f = add(std::move(never));
  const int g = add(leaf());
  Plan waiter;
  waiter.name = blocked_name;
  waiter.shape = pick({"cpu", "half_cpu", "zero"});
  waiter.may_fail = true;
  waiter.steps.push_back(submit(f, {value()}));
  if (random_.chance(400)) {
    Step wait;
    wait.act = Act::wait_any;
    wait.vars = {0};
    waiter.steps.push_back(wait);
  }
  waiter.steps.push_back(on(Act::get, 0));
  const int h = add(std::move(waiter));
  Plan main = item("blocked");
  const int count = static_cast<int>(random_.between(1, 3));
  for (int i = 0; i < count; ++i) main.steps.push_back(submit(h, {value()}));
  main.steps.push_back(submit(g, {value()}));
  main.steps.push_back(sleep(random_.between(Duration(0), Duration(2s))));
  for (int i = 0; i < count; ++i) main.steps.push_back(on(Act::cancel, i));
  for (int i = 0; i <= count; ++i) {
    main.steps.push_back(on(Act::get, i));
    main.steps.back().tolerant = i < count;
  }
  return add(std::move(main));
}

// A chain of tasks, each with the previous result as its argument. The first succeeds, throws,
// loses its process, or is cancelled.
int Author::deep_chain() {
  const auto kind = random_.below(4);
  Plan first = leaf();
  first.name = "first";
  first.max_retries = 0;
  if (kind == 1) first.throws = 1;
  if (kind == 2) first.crashes = 1;
  if (kind == 3) {
    first.shape = "absent";
    first.may_fail = true;
  }
  const int f = add(std::move(first));
  Plan link;
  link.name = "link";
  const int g = add(std::move(link));
  Plan main = item("deep_chain");
  const int length =
      static_cast<int>(kind == 0 ? random_.between(20, 100) : random_.between(100, 600));
  const bool releases = random_.chance(700);
  main.steps.push_back(submit(f, {value()}));
  for (int i = 1; i < length; ++i) {
    main.steps.push_back(submit(g, {ref(i - 1)}));
    if (releases && (i > 1 || kind != 3)) main.steps.push_back(on(Act::release, i - 1));
  }
  if (kind == 3) main.steps.push_back(on(Act::cancel, 0));
  main.steps.push_back(on(Act::get, length - 1));
  main.steps.back().tolerant = kind != 0;
  return add(std::move(main));
}

// Two groups with bundles on two nodes each work long enough that nodes leave and return.
int Author::pair_groups() {
  Plan inside = leaf();
  inside.name = "in_pair";
  inside.shape = "cpu";
  const int f = add(std::move(inside));
  Plan main = item("pair_groups");
  for (int i = 0; i < 2; ++i) {
    Step make;
    make.act = Act::make_group;
    make.number = random_.next();
    make.strategy = static_cast<int>(GroupStrategy::strict_spread);
    make.bundles = {1, 1};
    main.steps.push_back(make);
  }
  main.steps.push_back(on(Act::get, 0));
  main.steps.push_back(on(Act::get, 1));
  const int rounds = static_cast<int>(random_.between(6, 14));
  for (int i = 0; i < rounds; ++i) {
    for (int group = 0; group < 2; ++group) {
      Step task = submit(f, {value()});
      task.group = group;
      main.steps.push_back(std::move(task));
    }
    main.steps.push_back(sleep(random_.between(Duration(500ms), Duration(3s))));
  }
  for (int i = 2; i < 2 + 2 * rounds; ++i) main.steps.push_back(on(Act::get, i));
  main.steps.push_back(on(Act::end_group, 0));
  main.steps.push_back(on(Act::end_group, 1));
  return add(std::move(main));
}

// A group with a bundle of CPUs and a bundle with a GPU, for tasks of both kinds.
int Author::device_group() {
  Plan light = leaf();
  light.name = "light";
  light.shape = pick({"cpu", "half_cpu"});
  const int f = add(std::move(light));
  Plan heavy = leaf();
  heavy.name = "heavy";
  heavy.shape = "gpu";
  const int g = add(std::move(heavy));
  Plan main = item("device_group");
  Step make;
  make.act = Act::make_group;
  make.number = random_.next();
  make.strategy = static_cast<int>(GroupStrategy::pack);
  make.bundles = random_.chance(500) ? std::vector<int>{1, -1} : std::vector<int>{-1, 1};
  main.steps.push_back(make);
  const int count = static_cast<int>(random_.between(2, 8));
  for (int i = 0; i < count; ++i) {
    const int called = random_.chance(600) ? f : g;
    Step task = submit(called, {value()});
    task.group = 0;
    main.steps.push_back(std::move(task));
    if (random_.chance(300))
      main.steps.push_back(sleep(random_.between(Duration(0), Duration(200ms))));
  }
  for (int i = 1; i <= count; ++i) main.steps.push_back(on(Act::get, i));
  main.steps.push_back(on(Act::end_group, 0));
  return add(std::move(main));
}

// A detached actor awaits a result whose owner, the driver, may die before the task ends.
int Author::orphaned_reads() {
  Plan maker = leaf();
  maker.run_time = random_.between(Duration(500ms), Duration(4s));
  const int f = add(std::move(maker));
  Plan made = actor_class();
  made.actor_name = "orphan" + std::to_string(plans_.size());
  made.detached = true;
  const int type = add(std::move(made));
  const int read = method(Act::get_refs);
  Plan main = item("orphaned");
  main.steps.push_back(make(type));
  main.steps.push_back(submit(f, {value()}));
  main.steps.push_back(call(0, read, {value({1})}));
  main.steps.push_back(on(Act::get, 2));
  main.steps.push_back(on(Act::kill_actor, 0));
  return add(std::move(main));
}

int Author::parting_tasks() {
  Plan parting = leaf();
  parting.name = "parting";
  parting.parts = true;
  const int f = add(std::move(parting));
  Plan main = item("parting");
  const int count = static_cast<int>(random_.between(1, 8));
  for (int i = 0; i < count; ++i) main.steps.push_back(submit(f, {value()}));
  get_all(main, count);
  return add(std::move(main));
}

// A call that has its reply is never reported as failed. A call sent to a dying actor may be.
int Author::parting_actor() {
  Plan made = actor_class();
  made.max_restarts = -1;
  made.max_task_retries = random_.chance(500) ? -1 : 0;
  const int type = add(std::move(made));
  Plan parting;
  parting.name = "parting";
  parting.parts = true;
  parting.may_fail = true;
  const int m = add(std::move(parting));
  Plan main = item("parting");
  main.steps.push_back(make(type));
  const int count = static_cast<int>(random_.between(1, 5));
  for (int i = 1; i <= count; ++i) {
    main.steps.push_back(call(0, m, {value()}));
    Step get = on(Act::get, i);
    get.tolerant = true;
    main.steps.push_back(get);
    if (random_.chance(500))
      main.steps.push_back(sleep(random_.between(Duration(0), Duration(200ms))));
  }
  return add(std::move(main));
}

}  // namespace mobula::internal::sim
