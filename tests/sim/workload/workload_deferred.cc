// Deferred calls: user code returns at once, and the call is complete later.
#include <algorithm>

#include "sim/workload/author.h"

namespace mobula::internal::sim {

// Calls of an actor and tasks, answered in any order. Some are cancelled. Often the handle is
// released, or the actor exits, while calls are incomplete.
int Author::deferred_calls() {
  Plan made = actor_class();
  made.max_concurrency = static_cast<std::int32_t>(random_.between(2, 20));
  const int type = add(std::move(made));
  std::vector<int> methods;
  for (int i = 0; i < 3; ++i) {
    Plan slow;
    slow.name = "deferred";
    slow.large = random_.chance(200);
    slow.return_refs = random_.chance(300);
    slow.may_fail = i == 0;  // its calls may be cancelled
    slow.answered_after =
        random_.between(Duration(20us), Duration(random_.chance(200) ? 2s : 50ms));
    methods.push_back(add(std::move(slow)));
  }
  Plan task = leaf();
  task.name = "deferred_task";
  task.answered_after = random_.between(Duration(20us), Duration(200ms));
  const int f = add(std::move(task));
  Plan main = item("deferred_calls");
  main.steps.push_back(make(type));
  const int calls = static_cast<int>(random_.between(1, 25));
  std::vector<int> cancellable;
  for (int i = 1; i <= calls; ++i) {
    const auto which = random_.below(methods.size());
    main.steps.push_back(call(0, methods[which], {value()}));
    if (which == 0 && random_.chance(500)) cancellable.push_back(i);
  }
  main.steps.push_back(submit(f, {value()}));
  for (const int each : cancellable) main.steps.push_back(on(Act::cancel, each));
  const bool leaves = random_.chance(500);
  if (leaves) main.steps.push_back(call(0, method(Act::leave)));
  if (random_.chance(500)) main.steps.push_back(on(Act::release, 0));
  for (int i = 1; i <= calls + (leaves ? 2 : 1); ++i) {
    main.steps.push_back(on(Act::get, i));
    main.steps.back().tolerant = std::ranges::count(cancellable, i) > 0;
  }
  return add(std::move(main));
}

// Calls of an actor with concurrency groups, most of them deferred. The argument of the first call
// of group "a" is a task that ends only after calls of the other groups, or with `restarts`, late.
int Author::calls_in_groups(bool restarts) {
  Plan made = actor_class();
  made.max_concurrency = static_cast<std::int32_t>(random_.between(1, 3));
  made.groups = {{"a", static_cast<std::int32_t>(random_.between(1, 3))},
                 {"b", static_cast<std::int32_t>(random_.between(1, 2))}};
  made.out_of_order = random_.chance(300);
  if (restarts) {
    made.max_restarts = -1;
    made.max_task_retries = -1;
  }
  const int type = add(std::move(made));
  std::vector<int> methods;
  for (const char* group : {"", "a", "b"}) {
    Plan plan;
    plan.name = "in_group";
    plan.group = group;
    plan.run_time = random_.between(Duration(0), Duration(5ms));
    if (random_.chance(700)) plan.answered_after = random_.between(Duration(20us), Duration(50ms));
    plan.tensors = random_.chance(200) ? 1 : 0;
    methods.push_back(add(std::move(plan)));
  }
  Plan dropped = plans_.at(static_cast<std::size_t>(methods[random_.below(methods.size())]));
  dropped.name = "abandoned";
  dropped.answered_after = Duration(1ms);
  dropped.abandons = true;
  const int abandoned = add(std::move(dropped));
  Plan key = actor_class();
  key.actor_name = "key" + std::to_string(plans_.size());
  const int key_type = add(std::move(key));
  Plan late;
  late.name = "late";
  late.shape = "zero";
  if (restarts) {
    late.run_time = random_.between(Duration(1ms), Duration(300ms));
  } else {
    late.steps.push_back(submit(key_type));
    late.steps.back().act = Act::find_actor;
  }
  const int f = add(std::move(late));
  Plan maker = leaf();
  maker.name = "losing";
  maker.shape = "half_cpu";
  maker.tensors = 1;
  maker.parts_once = true;
  const int loses = add(std::move(maker));
  Plan main = item("in_groups");
  main.steps.push_back(make(type));
  main.steps.push_back(submit(f, {value()}));
  main.steps.push_back(call(0, methods[1], {ref(1)}));
  main.steps.push_back(submit(loses, {value()}));
  std::vector<int> first, last = {1, 2}, failing;
  const int calls = static_cast<int>(random_.between(2, 12));
  for (int i = 4; i < calls + 4; ++i) {
    const bool fails = random_.chance(150);
    const int which = fails ? abandoned : methods[random_.below(methods.size())];
    main.steps.push_back(call(0, which, {random_.chance(250) ? ref(3) : value()}));
    const bool waits = plans_.at(static_cast<std::size_t>(which)).group == "a";
    (fails ? failing : waits ? last : first).push_back(i);
  }
  for (const int each : first) main.steps.push_back(on(Act::get, each));
  main.steps.push_back(make(key_type));
  for (const int each : last) main.steps.push_back(on(Act::get, each));
  for (const int each : failing) {
    main.steps.push_back(on(Act::get, each));
    main.steps.back().tolerant = true;
  }
  return add(std::move(main));
}

}  // namespace mobula::internal::sim
