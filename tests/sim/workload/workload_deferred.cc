// Deferred calls: user code returns at once, and the call is complete later.
#include <algorithm>

#include "sim/workload/author.h"

namespace mobula::internal::sim {

// Calls of an actor and tasks that are answered in any order. Some are cancelled, and the handle is
// often released while calls are incomplete.
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
  for (int i = 0; i < calls; ++i)
    main.steps.push_back(call(0, methods[random_.below(methods.size())], {value()}));
  main.steps.push_back(submit(f, {value()}));
  std::vector<bool> cancelled(static_cast<std::size_t>(calls) + 2);
  for (int i = 1; i <= calls + 1; ++i) {
    if (!random_.chance(100)) continue;
    cancelled[static_cast<std::size_t>(i)] = true;
    main.steps.push_back(on(Act::cancel, i));
  }
  if (random_.chance(500)) main.steps.push_back(on(Act::release, 0));
  for (int i = 1; i <= calls + 1; ++i) {
    main.steps.push_back(on(Act::get, i));
    main.steps.back().tolerant = cancelled[static_cast<std::size_t>(i)];
  }
  return add(std::move(main));
}

}  // namespace mobula::internal::sim
