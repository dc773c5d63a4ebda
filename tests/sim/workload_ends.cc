// Work that outlives the executor of the task that has submitted it.
#include "sim/author.h"

namespace mobula::internal::sim {
namespace {

// A task whose executor exits soon: after one call, or when it is idle.
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

// Tasks that submit calls of an actor, tasks and tasks of tasks, and return without reading anything.
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
  if (random_.chance(500)) main.steps.push_back(sleep(random_.between(Duration(0), Duration(800ms))));
  main.steps.push_back(submit(g, {ref(1)}));
  main.steps.push_back(on(Act::get, 2));
  return add(std::move(main));
}

// A task makes an actor and returns its handle; others call the actor after the task's executor has exited.
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

}  // namespace mobula::internal::sim
