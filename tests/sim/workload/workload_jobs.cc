// Work about sharing between jobs: groups, streams of small tasks, and large tasks.
#include <algorithm>
#include <utility>

#include "base/model/group.h"
#include "sim/workload/author.h"

namespace mobula::internal::sim {

// Uses at most two CPUs, which the first node always has. Sometimes the group is removed while its
// tasks run.
int Author::grouped_tasks() {
  Plan in_group = leaf();
  in_group.shape = pick({"cpu", "cpu", "half_cpu", "zero"});
  in_group.may_fail = true;
  const int f = add(std::move(in_group));
  Plan main = item("grouped");
  Step make;
  make.act = Act::make_group;
  make.number = random_.next();
  make.strategy = static_cast<int>(random_.below(3));
  make.bundles.assign(static_cast<std::size_t>(random_.between(1, 2)), 1);
  main.steps.push_back(make);
  if (random_.chance(700)) main.steps.push_back(on(Act::get, 0));
  const int count = static_cast<int>(random_.between(1, 6));
  for (int i = 0; i < count; ++i) {
    Step step = submit(f, {value()});
    step.group = 0;
    main.steps.push_back(std::move(step));
  }
  const bool early = random_.chance(250);
  if (early) {
    main.steps.push_back(sleep(random_.between(Duration(0), Duration(100ms))));
    main.steps.push_back(on(Act::end_group, 0));
  }
  for (int i = 1; i <= count; ++i) {
    main.steps.push_back(on(Act::get, i));
    main.steps.back().tolerant = true;
  }
  if (!early) main.steps.push_back(on(Act::end_group, 0));
  main.may_fail = true;
  return add(std::move(main));
}

// Actors that fill the only bundle of a group, one after another. An actor that does not release
// the bundle blocks the next one.
int Author::actors_of_one_bundle() {
  Plan type = actor_class();
  type.shape = "cpu";
  const int actor = add(std::move(type));
  Plan slow;
  slow.name = "slow";
  slow.run_time = random_.between(Duration(0), Duration(1500ms));
  const int m = add(std::move(slow));
  Plan main = item("group_actors");
  Step group;
  group.act = Act::make_group;
  group.number = random_.next();
  group.bundles = {1};
  main.steps.push_back(group);
  main.steps.push_back(on(Act::get, 0));
  int vars = 1;
  for (auto actors = random_.between(2, 5); actors > 0; --actors) {
    Step made = make(actor);
    made.group = 0;
    main.steps.push_back(made);
    const int handle = vars++;
    const auto calls = random_.between(1, 4);
    for (std::int64_t i = 0; i < calls; ++i) {
      main.steps.push_back(call(handle, m, {value()}));
      main.steps.push_back(on(Act::get, vars++));
      main.steps.back().tolerant = true;
    }
    main.steps.push_back(on(Act::release, handle));
  }
  main.steps.push_back(on(Act::end_group, 0));
  return add(std::move(main));
}

// Submits many small tasks at once, so that a queue exists for a while.
int Author::stream_of_tasks() {
  Plan small;
  small.name = "small";
  small.shape = "cpu";
  small.run_time = random_.between(Duration(50ms), Duration(400ms));
  const int f = add(std::move(small));
  Plan main = item("stream");
  const int count = static_cast<int>(random_.between(10, 40));
  for (int i = 0; i < count; ++i) main.steps.push_back(submit(f, {value()}));
  get_all(main, count);
  return add(std::move(main));
}

// Tasks of one class: most are so short that they queue at executors, some are long, some block on
// further tasks, some crash, and some may run only once.
int Author::burst_of_tasks() {
  Plan brief;
  brief.name = "brief";
  brief.shape = "cpu";
  brief.run_time =
      random_.chance(500) ? Duration(0) : random_.between(Duration(1us), Duration(400us));
  const int f = add(brief);
  std::vector<int> others;
  brief.name = "long";
  brief.run_time = random_.between(Duration(5ms), Duration(500ms));
  others.push_back(add(brief));
  brief.run_time = Duration(0);
  brief.name = "crashing";
  brief.crashes = 1;
  brief.max_retries = static_cast<std::int32_t>(random_.between(1, 3));
  others.push_back(add(brief));
  brief.name = "unrepeatable";
  brief.crashes = 0;
  brief.max_retries = 0;
  others.push_back(add(brief));
  Plan parent;
  parent.name = "parent";
  parent.shape = "cpu";
  const int children = static_cast<int>(random_.between(1, 5));
  for (int i = 0; i < children; ++i) parent.steps.push_back(submit(f, {value()}));
  get_all(parent, children);
  others.push_back(add(std::move(parent)));
  Plan main = item("burst");
  main.may_fail = true;  // a task that may not run again dies with its executor
  const int count = static_cast<int>(random_.between(10, 60));
  for (int i = 0; i < count; ++i) {
    const bool other = i > 0 && random_.chance(150);
    // Compilers evaluate arguments in any order.
    const int which = other ? others[random_.below(others.size())] : f;
    main.steps.push_back(submit(which, {value()}));
  }
  for (int i = 0; i < count; ++i) {
    main.steps.push_back(on(Act::get, i));
    main.steps.back().tolerant = true;
  }
  return add(std::move(main));
}

// Tasks that may run only on some of the nodes.
int Author::labelled_tasks() {
  Plan main = item("labelled");
  const int kinds = static_cast<int>(random_.between(1, 3));
  int count = 0;
  for (int i = 0; i < kinds; ++i) {
    Plan some = leaf();
    some.name = "labelled";
    some.shape = pick({"zone_a", "zone_not_b", "zone_b_or_a", "zone_c_or_any"});
    const int f = add(std::move(some));
    const auto calls = random_.between(1, 6);
    for (std::int64_t call = 0; call < calls; ++call, ++count)
      main.steps.push_back(submit(f, {value()}));
  }
  get_all(main, count);
  return add(std::move(main));
}

// One task of the largest size that every job may have. It waits until several small tasks have
// ended.
int Author::whole_task() {
  Plan large;
  large.name = whole_name;
  large.shape = "two_cpu";
  large.run_time = random_.between(Duration(0), Duration(50ms));
  const int f = add(std::move(large));
  Plan main = item("whole_task");
  main.steps.push_back(submit(f, {value()}));
  get_all(main, 1);
  return add(std::move(main));
}

// The same, for one task in a placement group of one or two bundles on one node.
int Author::whole_group() {
  Plan inside;
  inside.name = "in_whole_group";
  inside.run_time = random_.between(Duration(0), Duration(50ms));
  const int f = add(std::move(inside));
  Plan main = item("whole_group");
  Step make;
  make.act = Act::make_group;
  make.number = random_.next();
  make.strategy = static_cast<int>(GroupStrategy::strict_pack);
  make.bundles = random_.chance(500) ? std::vector<int>{1, 1} : std::vector<int>{2};
  main.steps.push_back(make);
  Step task = submit(f, {value()});
  task.group = 0;
  main.steps.push_back(std::move(task));
  main.steps.push_back(on(Act::get, 1));
  main.steps.push_back(on(Act::end_group, 0));
  return add(std::move(main));
}

// Parents that hold part of a GPU while they wait for children that each need slightly more of one.
// Large requests begin to wait at the same time and must not block the children forever.
int Author::family() {
  Plan child = leaf();
  child.shape = "sliver_of_gpu";
  const int f = add(std::move(child));
  Plan parent;
  parent.name = "parent_in_family";
  parent.shape = "sliver_of_gpu";
  parent.max_retries = -1;
  parent.steps.push_back(sleep(random_.between(Duration(0), Duration(5s))));
  const int children = static_cast<int>(random_.between(1, 3));
  for (int i = 0; i < children; ++i) {
    parent.steps.push_back(submit(f, {value()}));
    parent.steps.push_back(on(Act::get, i));
  }
  const int g = add(std::move(parent));
  Plan main = item("family");
  const int count = static_cast<int>(random_.between(1, 2));
  for (int i = 0; i < count; ++i) main.steps.push_back(submit(g, {value()}));
  get_all(main, count);
  return add(std::move(main));
}

int Author::whole_gpu_task() {
  Plan large = leaf();
  large.name = "large";
  large.shape = "gpu";
  large.max_retries = -1;
  const int f = add(std::move(large));
  Plan main = item("whole_gpu");
  main.steps.push_back(submit(f, {value()}));
  get_all(main, 1);
  return add(std::move(main));
}

// Results stay in executors of a GPU while later tasks that read them need the same GPU. Each task
// reads the previous result. Some refs are released early, and some are kept to the end.
int Author::resident_results() {
  std::vector<int> makers;
  for (const char* shape : {"gpu", "half_gpu", "gpu", "quarter_gpu"}) {
    Plan maker = leaf();
    maker.name = "maker";
    maker.shape = shape;
    maker.max_calls = 1;
    maker.max_retries = -1;
    maker.tensors = static_cast<int>(random_.between(1, 2));
    makers.push_back(add(std::move(maker)));
  }
  Plan reader = leaf();
  reader.shape = pick({"gpu", "cpu"});
  reader.max_retries = -1;
  reader.steps.push_back(on(Act::get_refs, -1));
  const int g = add(std::move(reader));
  Plan main = item("resident");
  const int length = static_cast<int>(random_.between(2, 6));
  std::vector<int> gone;
  for (int i = 0; i < length; ++i) {
    const int maker = makers.at(static_cast<std::size_t>(random_.below(makers.size())));
    main.steps.push_back(i == 0 ? submit(maker, {value()}) : submit(maker, {ref(i - 1)}));
    if (random_.chance(300))
      main.steps.push_back(sleep(random_.between(Duration(0), Duration(900ms))));
    if (i > 0 && random_.chance(400)) {
      main.steps.push_back(on(Act::release, i - 1));
      gone.push_back(i - 1);
    }
  }
  main.steps.push_back(submit(g, {ref(length - 1)}));
  for (int i = 0; i <= length; ++i) {
    if (std::ranges::find(gone, i) == gone.end()) main.steps.push_back(on(Act::get, i));
  }
  return add(std::move(main));
}

// Tasks of many seconds that may be preempted and run again.
int Author::lengthy_tasks() {
  Plan slow;
  slow.name = lengthy_name;
  slow.shape = pick({"cpu", "cpu", "half_cpu", "two_cpu"});
  slow.run_time = random_.between(Duration(7s), Duration(12s));
  slow.max_retries = static_cast<std::int32_t>(random_.between(-1, 2));
  if (slow.max_retries == 0) slow.max_retries = 1;
  slow.may_fail = slow.max_retries >= 0;  // if faults use up its retries
  const int f = add(std::move(slow));
  Plan main = item("lengthy_tasks");
  const int count = static_cast<int>(random_.between(1, 5));
  for (int i = 0; i < count; ++i) main.steps.push_back(submit(f, {value()}));
  get_all(main, count);
  for (auto& step : main.steps) step.tolerant = step.act == Act::get;
  return add(std::move(main));
}

// Tasks that take memory on nodes of 1000 MiB. Of some, two do not fit on one node. Of others, not
// even one fits. The rest take little and may not run again.
int Author::hungry_tasks(Work kind) {
  Plan eats;
  eats.shape = pick({"cpu", "half_cpu"});
  eats.run_time = random_.between(Duration(1s), Duration(3s));
  std::int64_t count = 1;
  if (kind == Work::hungry) {
    eats.name = "hungry";
    eats.memory_mib = random_.between(300, 600);
    count = random_.between(1, 3);
  } else if (kind == Work::too_hungry) {
    eats.name = "too_hungry";
    eats.memory_mib = random_.between(1500, 3000);
    eats.max_retries = static_cast<std::int32_t>(random_.between(1, 3));
    eats.may_fail = true;
  } else {
    eats.name = "frugal_once";
    eats.memory_mib = random_.between(50, 150);
    eats.max_retries = 0;
    eats.may_fail = true;  // if no other executor is left to kill
    count = random_.between(1, 3);
  }
  const int f = add(std::move(eats));
  Plan main = item("hungry_tasks");
  for (std::int64_t i = 0; i < count; ++i) main.steps.push_back(submit(f, {value()}));
  get_all(main, static_cast<int>(count));
  for (auto& step : main.steps) step.tolerant = step.act == Act::get;
  return add(std::move(main));
}

// Tasks that may not run again.
int Author::tasks_that_run_once() {
  Plan careful;
  careful.name = once_name;
  careful.run_time = random_.between(Duration(2s), Duration(8s));
  careful.max_retries = 0;
  careful.may_fail = true;  // if a fault ends it
  const int f = add(std::move(careful));
  Plan main = item("tasks_that_run_once");
  const int count = static_cast<int>(random_.between(1, 3));
  for (int i = 0; i < count; ++i) main.steps.push_back(submit(f, {value()}));
  get_all(main, count);
  for (auto& step : main.steps) step.tolerant = step.act == Act::get;
  return add(std::move(main));
}

// Large values that exceed a small store and are read later, by the driver and by tasks. One value
// is read from all nodes at once. Results on several nodes are read in waves, with replicas that
// are added and removed between the waves.
int Author::waves_of_readers() {
  Plan maker = leaf();
  maker.shape = "spread";
  maker.large = true;
  const int f = add(std::move(maker));
  Plan reader = leaf();
  reader.shape = "spread";
  reader.run_time = random_.between(Duration(10ms), Duration(300ms));
  const int g = add(std::move(reader));
  Plan main = item("waves");
  const int makers = static_cast<int>(random_.between(1, 4));
  for (int i = 0; i < makers; ++i) main.steps.push_back(submit(f, {value()}));
  int vars = makers;
  for (int waves = static_cast<int>(random_.between(2, 5)); waves > 0; --waves) {
    const int first = vars;
    for (int i = static_cast<int>(random_.between(1, 4)); i > 0; --i, ++vars) {
      const int from = static_cast<int>(random_.below(static_cast<std::uint64_t>(makers)));
      main.steps.push_back(submit(g, {ref(from)}));
    }
    if (random_.chance(700)) {
      for (int i = first; i < vars; ++i) main.steps.push_back(on(Act::get, i));
    }
    main.steps.push_back(sleep(random_.between(Duration(0), Duration(2500ms))));
  }
  for (int i = makers; i < vars; ++i) main.steps.push_back(on(Act::get, i));
  return add(std::move(main));
}

// Large results on several nodes and a steady stream of tasks that read them. Each result is read
// on nodes that have not read it before, so that nearly always some reader waits for bytes.
int Author::streams_of_readers() {
  Plan maker = leaf();
  maker.shape = "spread";
  maker.large = true;
  const int f = add(std::move(maker));
  Plan reader = leaf();
  reader.shape = "spread";
  reader.run_time = random_.between(Duration(1ms), Duration(30ms));
  const int g = add(std::move(reader));
  Plan main = item("readers");
  int vars = 0;
  for (int rounds = static_cast<int>(random_.between(20, 40)); rounds > 0; --rounds) {
    main.steps.push_back(submit(f, {value()}));
    const int made = vars++;
    const int readers = static_cast<int>(random_.between(1, 3));
    for (int i = 0; i < readers; ++i) main.steps.push_back(submit(g, {ref(made)}));
    for (int i = 0; i < readers; ++i) main.steps.push_back(on(Act::get, vars++));
    main.steps.push_back(on(Act::release, made));
    main.steps.push_back(sleep(random_.between(Duration(0), Duration(200ms))));
  }
  return add(std::move(main));
}

int Author::broadcast() {
  Plan maker = leaf();
  maker.large = true;
  const int f = add(std::move(maker));
  Plan reader = leaf();
  reader.shape = "spread";
  const int g = add(std::move(reader));
  Plan main = item("broadcast");
  if (random_.chance(500)) {
    main.steps.push_back(put(true));
  } else {
    main.steps.push_back(submit(f, {value()}));
  }
  int vars = 1;
  for (int rounds = static_cast<int>(random_.between(1, 2)); rounds > 0; --rounds) {
    const int count = static_cast<int>(random_.between(2, 8));
    for (int i = 0; i < count; ++i) main.steps.push_back(submit(g, {ref(0)}));
    vars += count;
    if (random_.chance(300)) main.steps.push_back(on(Act::get, 0));
    if (random_.chance(500))
      main.steps.push_back(sleep(random_.between(Duration(0), Duration(300ms))));
  }
  if (random_.chance(300)) main.steps.push_back(on(Act::release, 0));
  for (int i = 1; i < vars; ++i) main.steps.push_back(on(Act::get, i));
  return add(std::move(main));
}

int Author::hoarding() {
  Plan maker = leaf();
  maker.large = true;
  maker.shape = pick({"cpu", "spread", "spread"});
  const int f = add(std::move(maker));
  Plan reader = leaf();
  reader.shape = pick({"cpu", "spread", "half_cpu"});
  const int g = add(std::move(reader));
  Plan main = item("hoard");
  const int count = static_cast<int>(random_.between(6, 34));
  for (int i = 0; i < count; ++i) {
    if (random_.chance(600)) {
      main.steps.push_back(put(true));
    } else {
      main.steps.push_back(submit(f, {value()}));
    }
    if (random_.chance(100)) main.steps.push_back(on(Act::release, i));
  }
  main.steps.push_back(sleep(random_.between(Duration(0), Duration(2s))));
  int vars = count;
  bool is_mapped = false;
  for (int reads = static_cast<int>(random_.between(3, count)); reads > 0; --reads) {
    const int var = static_cast<int>(random_.below(static_cast<std::uint64_t>(count)));
    const bool released = std::ranges::any_of(
        main.steps, [&](const Step& step) { return step.act == Act::release && step.var == var; });
    if (released) continue;
    if (random_.chance(300)) {
      main.steps.push_back(submit(g, {ref(var)}));
      main.steps.push_back(on(Act::get, vars++));
      continue;
    }
    Step get = on(Act::get, var);
    get.force = !std::exchange(is_mapped, true);  // one value stays mapped until the end
    main.steps.push_back(get);
    if (random_.chance(200) && !get.force) main.steps.push_back(on(Act::release, var));
  }
  return add(std::move(main));
}

}  // namespace mobula::internal::sim
