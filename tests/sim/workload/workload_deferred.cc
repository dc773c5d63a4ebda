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

}  // namespace mobula::internal::sim
