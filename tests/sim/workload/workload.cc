// The plans for each kind of work.
#include "sim/workload/author.h"

namespace mobula::internal::sim {

int Author::several_tasks() {
  const int f = add(leaf());
  Plan main = item("several");
  const int count = static_cast<int>(random_.between(1, 12));
  for (int i = 0; i < count; ++i) main.steps.push_back(submit(f, {value()}));
  get_all(main, count);
  return add(std::move(main));
}

int Author::chain_of_tasks(bool large) {
  Plan first = leaf();
  first.large = large;
  const int f = add(std::move(first));
  const int g = add(leaf());
  Plan main = item(large ? "large" : "chain");
  main.steps.push_back(submit(f));
  const int length = static_cast<int>(random_.between(1, 5));
  for (int i = 0; i < length; ++i) {
    main.steps.push_back(
        submit(i % 2 == 0 ? g : f,
               {ref(i), ref(static_cast<int>(random_.below(static_cast<std::uint64_t>(i) + 1)))}));
  }
  for (int i = 0; i < length; ++i) {
    if (random_.chance(500)) main.steps.push_back(on(Act::release, i));
  }
  main.steps.push_back(on(Act::get, length));
  return add(std::move(main));
}

int Author::crashing_tasks() {
  Plan bad = leaf();
  bad.name = "bad";
  bad.crashes = static_cast<std::uint32_t>(random_.between(1, 2));
  bad.max_retries = static_cast<std::int32_t>(random_.between(0, 3));
  const int f = add(std::move(bad));
  Plan good = leaf();
  good.max_retries = static_cast<std::int32_t>(random_.between(3, 4));
  const int g = add(std::move(good));
  Plan main = item("crashing");
  const int count = static_cast<int>(random_.between(1, 5));
  for (int i = 0; i < count; ++i) {
    // Drawn first: compilers evaluate arguments in any order.
    const int callee = random_.chance(400) ? f : g;
    main.steps.push_back(submit(callee, {value()}));
  }
  main.steps.push_back(submit(g, {ref(0)}));
  get_all(main, count + 1);
  return add(std::move(main));
}

int Author::throwing_tasks() {
  Plan bad = leaf();
  bad.name = "throws";
  bad.throws = static_cast<std::uint32_t>(random_.between(1, 2));
  bad.retry_exceptions = random_.chance(600);
  bad.max_retries = static_cast<std::int32_t>(random_.between(0, 3));
  const int f = add(std::move(bad));
  const int g = add(leaf());
  Plan main = item("throwing");
  main.steps.push_back(submit(f, {value()}));
  main.steps.push_back(submit(g, {ref(0), value()}));
  main.steps.push_back(submit(f));
  get_all(main, 3);
  return add(std::move(main));
}

int Author::gpu_tasks(bool child) {
  Plan on_gpu = leaf();
  on_gpu.shape = pick({"gpu", "half_gpu", "quarter_gpu"});
  on_gpu.max_calls = 1;
  const int f = add(std::move(on_gpu));
  int outer = f;
  if (child) {
    Plan parent = leaf();
    parent.shape = plans_.at(static_cast<std::size_t>(f)).shape;
    parent.max_calls = 1;
    parent.steps = {submit(f, {value()})};
    parent.returned = {0};
    outer = add(std::move(parent));
  }
  Plan reader = leaf();
  reader.steps.push_back(on(Act::get_refs, -1));
  const int g = add(std::move(reader));
  Plan main = item("gpu");
  const int count = static_cast<int>(random_.between(1, 5));
  for (int i = 0; i < count; ++i) main.steps.push_back(submit(outer, {value()}));
  for (int i = 0; i < count; ++i) main.steps.push_back(submit(g, {ref(i)}));
  get_all(main, 2 * count);
  return add(std::move(main));
}

int Author::nested_tasks(int depth) {
  int f = add(leaf());
  for (int level = 0; level < depth; ++level) {
    Plan outer = leaf();
    outer.name = "outer";
    outer.shape = pick({"cpu", "half_cpu"});
    const int count = static_cast<int>(random_.between(1, 3));
    for (int i = 0; i < count; ++i) outer.steps.push_back(submit(f, {value()}));
    get_all(outer, count);
    f = add(std::move(outer));
  }
  Plan main = item("nested");
  const int count = static_cast<int>(random_.between(1, 6));
  for (int i = 0; i < count; ++i) main.steps.push_back(submit(f, {value()}));
  get_all(main, count);
  return add(std::move(main));
}

int Author::put_and_pass() {
  Plan reader = leaf();
  reader.steps.push_back(on(Act::get_refs, -1));
  reader.return_refs = random_.chance(400);
  const int f = add(std::move(reader));
  Plan main = item("put");
  main.steps.push_back(put(random_.chance(500)));
  main.steps.push_back(put(random_.chance(500), {0}));
  main.steps.push_back(submit(f, {value({0})}));
  main.steps.push_back(submit(f, {value({0, 1})}));
  main.steps.push_back(submit(f, {ref(1)}));
  if (random_.chance(500)) main.steps.push_back(on(Act::release, 0));
  main.steps.push_back(submit(f, {ref(2), ref(3)}));
  get_all(main, 6);
  return add(std::move(main));
}

int Author::returned_refs() {
  Plan inner = leaf();
  inner.large = random_.chance(300);
  const int f = add(std::move(inner));
  Plan outer = leaf();
  outer.name = "returns";
  outer.steps.push_back(put(random_.chance(500)));
  outer.steps.push_back(submit(f, {value()}));
  outer.large = random_.chance(300);
  // Contents of a stored result are not handed over: unfinished ones would end with their owner.
  if (outer.large || random_.chance(500)) outer.steps.push_back(on(Act::get, 1));
  outer.returned = {0, 1};
  const int g = add(std::move(outer));
  Plan reader = leaf();
  reader.steps.push_back(on(Act::get_refs, -1));
  const int h = add(std::move(reader));
  Plan main = item("returned");
  main.steps.push_back(submit(g, {value()}));
  main.steps.push_back(submit(h, {ref(0)}));
  main.steps.push_back(on(Act::get, 1));
  if (random_.chance(500)) main.steps.push_back(on(Act::get, 0));
  return add(std::move(main));
}

int Author::waiting() {
  const int f = add(leaf());
  Plan main = item("wait");
  const int count = static_cast<int>(random_.between(2, 6));
  Step wait;
  wait.act = Act::wait_any;
  for (int i = 0; i < count; ++i) {
    main.steps.push_back(submit(f, {value()}));
    wait.vars.push_back(i);
  }
  main.steps.push_back(wait);
  get_all(main, count);
  return add(std::move(main));
}

int Author::cancelling() {
  Plan slow = leaf();
  slow.run_time = random_.between(Duration(1ms), Duration(300ms));
  slow.may_fail = true;
  const int f = add(std::move(slow));
  const int g = add(leaf());
  Plan main = item("cancel");
  const int count = static_cast<int>(random_.between(2, 5));
  for (int i = 0; i < count; ++i) main.steps.push_back(submit(i % 2 == 0 ? f : g, {value()}));
  main.steps.push_back(sleep(random_.between(Duration(0), Duration(200ms))));
  for (int i = 0; i < count; i += 2) {
    Step cancel = on(Act::cancel, i);
    cancel.force = random_.chance(400);
    main.steps.push_back(cancel);
  }
  for (int i = 0; i < count; ++i) {
    Step get = on(Act::get, i);
    get.tolerant = i % 2 == 0;
    main.steps.push_back(get);
  }
  return add(std::move(main));
}

int Author::calling_actor(bool restarts) {
  Plan made = actor_class();
  if (restarts) {
    made.max_restarts = static_cast<std::int32_t>(random_.between(1, 4)) - 2 < 0 ? -1 : 3;
    made.max_task_retries = -1;
  }
  const int type = add(std::move(made));
  const int m = method();
  int bad = m;
  if (restarts) {
    Plan crash;
    crash.name = "crash";
    crash.crashes = 1;
    bad = add(std::move(crash));
  }
  Plan main = item(restarts ? "restart" : "actor");
  main.steps.push_back(make(type));
  const int count = static_cast<int>(random_.between(1, 10));
  const int crash_at = static_cast<int>(random_.below(static_cast<std::uint64_t>(count)));
  for (int i = 0; i < count; ++i) main.steps.push_back(call(0, i == crash_at ? bad : m, {value()}));
  if (random_.chance(300)) main.steps.push_back(on(Act::release, 0));
  for (int i = 1; i <= count; ++i) main.steps.push_back(on(Act::get, i));
  if (random_.chance(300)) {
    main.steps.push_back(on(Act::kill_actor, 0));
  }
  return add(std::move(main));
}

int Author::keeping_actor() {
  const int type = add(actor_class());
  const int keep = method(Act::keep_refs);
  const int read = method(Act::read_kept);
  Plan main = item("keep");
  main.steps.push_back(make(type));
  main.steps.push_back(put(random_.chance(500)));
  main.steps.push_back(call(0, keep, {value({1})}));
  main.steps.push_back(on(Act::get, 2));
  main.steps.push_back(on(Act::release, 1));
  main.steps.push_back(sleep(random_.between(Duration(0), Duration(300ms))));
  main.steps.push_back(call(0, read));
  main.steps.push_back(on(Act::get, 3));
  return add(std::move(main));
}

// One actor makes tensors. Other actors receive them and return them or keep them beyond the call.
int Author::passed_tensors() {
  const int type = add(actor_class());
  const int make_some = method();
  const int reading_method = method();
  const int keep = method(Act::keep_refs);
  const int back = method();
  plans_.at(static_cast<std::size_t>(back)).return_refs = true;
  Plan main = item("pass");
  main.steps.push_back(make(type));
  main.steps.push_back(make(type));
  int vars = 2;
  const int rounds = static_cast<int>(random_.between(1, 6));
  for (int i = 0; i < rounds; ++i) {
    main.steps.push_back(call(0, make_some, {value()}));
    const int made = vars++;
    const int user = random_.chance(300) ? 0 : 1;
    const int how = random_.chance(400) ? reading_method : random_.chance(600) ? keep : back;
    main.steps.push_back(call(user, how, {ref(made)}));
    const int used = vars++;
    if (random_.chance(400)) main.steps.push_back(on(Act::release, made));
    main.steps.push_back(on(Act::get, used));
    if (how == back && random_.chance(500)) {
      main.steps.push_back(call(0, keep, {ref(used)}));
      main.steps.push_back(on(Act::get, vars++));
    }
    if (random_.chance(500)) main.steps.push_back(on(Act::release, used));
    if (random_.chance(400))
      main.steps.push_back(sleep(random_.between(Duration(0), Duration(60ms))));
  }
  return add(std::move(main));
}

int Author::passed_handle() {
  const int type = add(actor_class());
  const int m = method();
  Plan caller = leaf();
  caller.name = "caller";
  Step calls = on(Act::call_refs, -1);
  calls.plan = m;
  caller.steps.push_back(calls);
  const int f = add(std::move(caller));
  Plan main = item("handle");
  main.steps.push_back(make(type));
  main.steps.push_back(submit(f, {value({0})}));
  main.steps.push_back(call(0, m, {value()}));
  main.steps.push_back(submit(f, {value({0})}));
  if (random_.chance(500)) main.steps.push_back(on(Act::release, 0));
  for (int i = 1; i < 4; ++i) main.steps.push_back(on(Act::get, i));
  return add(std::move(main));
}

int Author::named_actor() {
  Plan made = actor_class();
  made.actor_name = "name" + std::to_string(plans_.size());
  made.detached = random_.chance(600);
  made.max_restarts = -1;
  made.max_task_retries = -1;
  const int type = add(std::move(made));
  const int m = method();
  Plan main = item("named");
  main.steps.push_back(make(type));
  main.steps.push_back(call(0, m, {value()}));
  main.steps.push_back(on(Act::get, 1));
  Step find = make(type);
  find.act = Act::find_actor;
  main.steps.push_back(find);
  main.steps.push_back(sleep(random_.between(Duration(0), Duration(2s))));
  main.steps.push_back(call(2, m, {value()}));
  main.steps.push_back(on(Act::get, 3));
  main.steps.push_back(on(Act::kill_actor, 2));
  return add(std::move(main));
}

int Author::impossible_task() {
  Plan never = leaf();
  never.shape = "impossible";
  never.may_fail = true;
  const int f = add(std::move(never));
  Plan main = item("impossible");
  main.steps.push_back(submit(f));
  Step get = on(Act::get, 0);
  get.tolerant = true;
  main.steps.push_back(get);
  return add(std::move(main));
}

// Results stay in their producer until a late read.
int Author::late_reads() {
  Plan maker = leaf();
  maker.shape = pick({"cpu", "spread"});
  maker.large = true;
  const int f = add(std::move(maker));
  const int g = add(leaf());
  Plan main = item("late");
  const int count = static_cast<int>(random_.between(1, 4));
  for (int i = 0; i < count; ++i) main.steps.push_back(submit(f, {value()}));
  main.steps.push_back(sleep(random_.between(Duration(500ms), Duration(8s))));
  if (random_.chance(500)) {
    main.steps.push_back(submit(g, {ref(0)}));
    main.steps.push_back(on(Act::get, count));
  }
  get_all(main, count);
  return add(std::move(main));
}

// The same, with results that only an actor refers to.
int Author::late_reads_of_kept() {
  Plan maker = leaf();
  maker.shape = "spread";
  maker.large = true;
  const int f = add(std::move(maker));
  const int type = add(actor_class());
  const int keep = method(Act::keep_refs);
  const int read = method(Act::read_kept);
  Plan main = item("keep");
  main.steps.push_back(make(type));
  const int count = static_cast<int>(random_.between(2, 5));
  std::vector<int> results;
  for (int i = 1; i <= count; ++i) {
    main.steps.push_back(submit(f, {value()}));
    results.push_back(i);
  }
  main.steps.push_back(call(0, keep, {value(results)}));
  main.steps.push_back(on(Act::get, count + 1));
  for (const int result : results) main.steps.push_back(on(Act::release, result));
  main.steps.push_back(sleep(random_.between(Duration(2s), Duration(8s))));
  main.steps.push_back(call(0, read));
  main.steps.push_back(on(Act::get, count + 2));
  return add(std::move(main));
}

// The producer of tensors dies after it has made them. Tasks and actors then receive the tensors.
int Author::lost_tensors() {
  Plan maker = leaf();
  maker.name = "losing";
  maker.tensors = static_cast<int>(random_.between(1, 2));
  maker.parts_once = true;
  const int f = add(std::move(maker));
  const int g = add(leaf());
  const int type = add(actor_class());
  const int reading_method = method();
  Plan main = item("losing");
  main.steps.push_back(make(type));
  const int count = static_cast<int>(random_.between(1, 3));
  for (int i = 0; i < count; ++i) main.steps.push_back(submit(f, {value()}));
  main.steps.push_back(sleep(random_.between(Duration(0), Duration(300ms))));
  for (int i = 1; i <= count; ++i) {
    const bool called = random_.chance(500);
    main.steps.push_back(called ? call(0, reading_method, {ref(i)}) : submit(g, {ref(i)}));
  }
  for (int i = 1; i <= count; ++i) main.steps.push_back(on(Act::get, count + i));
  return add(std::move(main));
}

// Lost tensors are arguments of many calls on one actor. Calls behind them wait, even if elements
// are never recomputed or a call is cancelled. Tasks call the same actor in the meantime.
int Author::calls_with_lost_tensors() {
  Plan maker = leaf();
  maker.name = "losing";
  maker.shape = "half_cpu";
  maker.tensors = 1;
  maker.parts_once = true;
  const int f = add(maker);
  maker.max_retries = 0;
  // A separate demand class: its tasks go to no exiting process, and each counts as run.
  maker.max_calls = 1000 + f;
  const int forgets = add(std::move(maker));
  const int reading_method = method();
  Plan vain = plans_.at(static_cast<std::size_t>(reading_method));
  vain.name = "vain";
  vain.may_fail = true;
  const int in_vain = add(std::move(vain));
  Plan caller = leaf();
  caller.name = "caller";
  caller.shape = "half_cpu";
  Step calls = on(Act::call_refs, -1);
  calls.plan = reading_method;
  caller.steps.push_back(calls);
  const int g = add(std::move(caller));
  Plan made_class = actor_class();
  if (random_.chance(500)) {
    made_class.max_restarts = -1;
    made_class.max_task_retries = -1;
  }
  const int type = add(std::move(made_class));
  Plan main = item("calls");
  main.steps.push_back(make(type));
  const int made = static_cast<int>(random_.between(1, 3));
  for (int i = 0; i < made; ++i) main.steps.push_back(submit(f, {value()}));
  main.steps.push_back(submit(forgets, {value()}));
  main.steps.push_back(sleep(random_.between(Duration(0), Duration(300ms))));
  int vars = made + 2;
  std::vector<int> vains;
  std::vector<int> reads;
  const int count = static_cast<int>(random_.between(2, 8));
  for (int i = 0; i < count; ++i) {
    const int from = 1 + static_cast<int>(random_.below(static_cast<std::uint64_t>(made)));
    if (random_.chance(150)) {
      const int lost = random_.chance(500) ? made + 1 : from;
      vains.push_back(vars);
      main.steps.push_back(call(0, in_vain, {ref(lost)}));
    } else if (random_.chance(200)) {
      reads.push_back(vars);
      main.steps.push_back(submit(g, {value({0})}));
    } else {
      reads.push_back(vars);
      main.steps.push_back(random_.chance(500) ? call(0, reading_method, {ref(from)})
                                               : call(0, reading_method, {value()}));
    }
    ++vars;
    if (random_.chance(200))
      main.steps.push_back(sleep(random_.between(Duration(0), Duration(5ms))));
  }
  for (const int each : vains) {
    if (random_.chance(500)) main.steps.push_back(on(Act::cancel, each));
  }
  for (const int each : vains) {
    main.steps.push_back(on(Act::get, each));
    main.steps.back().tolerant = true;
  }
  for (const int each : reads) main.steps.push_back(on(Act::get, each));
  return add(std::move(main));
}

// Executors that must be killed, while other tasks wait for the resources they hold.
int Author::hanging_tasks() {
  Plan hanging = leaf();
  hanging.name = "hanging";
  hanging.hangs = true;
  hanging.shape = pick({"gpu", "half_gpu", "two_cpu"});
  hanging.max_calls = 1;
  const int f = add(std::move(hanging));
  Plan slow = leaf();
  slow.name = "hanging";
  slow.hangs = true;
  slow.shape = pick({"gpu", "two_cpu"});
  slow.max_calls = 1;
  slow.run_time = random_.between(Duration(1ms), Duration(300ms));
  slow.may_fail = true;
  const int g = add(std::move(slow));
  Plan main = item("hanging");
  const int count = static_cast<int>(random_.between(2, 5));
  for (int i = 0; i < count; ++i) main.steps.push_back(submit(i % 2 == 0 ? f : g, {value()}));
  main.steps.push_back(sleep(random_.between(Duration(0), Duration(200ms))));
  for (int i = 0; i < count; ++i) {
    Step get = on(Act::get, i);
    if (i % 2 == 1) {
      Step cancel = on(Act::cancel, i);
      cancel.force = true;
      main.steps.push_back(cancel);
      get.tolerant = true;
    }
    main.steps.push_back(get);
  }
  return add(std::move(main));
}

int draw_item(Work work, Random& random, Plans& plans) {
  Author author(random, plans);
  switch (work) {
    case Work::task: return author.several_tasks();
    case Work::chain: return author.chain_of_tasks(false);
    case Work::large: return author.chain_of_tasks(true);
    case Work::crash: return author.crashing_tasks();
    case Work::raise: return author.throwing_tasks();
    case Work::gpu: return author.gpu_tasks(false);
    case Work::gpu_child: return author.gpu_tasks(true);
    case Work::nested: return author.nested_tasks(static_cast<int>(random.between(1, 2)));
    case Work::put_ref: return author.put_and_pass();
    case Work::return_ref: return author.returned_refs();
    case Work::wait: return author.waiting();
    case Work::cancel: return author.cancelling();
    case Work::actor: return author.calling_actor(false);
    case Work::restart: return author.calling_actor(true);
    case Work::keep: return author.keeping_actor();
    case Work::pass_tensors: return author.passed_tensors();
    case Work::handle: return author.passed_handle();
    case Work::named: return author.named_actor();
    case Work::infeasible: return author.impossible_task();
    case Work::late: return author.late_reads();
    case Work::lose_tensors: return author.lost_tensors();
    case Work::lose_calls: return author.calls_with_lost_tensors();
    case Work::keep_late: return author.late_reads_of_kept();
    case Work::part: return author.parting_tasks();
    case Work::part_actor: return author.parting_actor();
    case Work::hang: return author.hanging_tasks();
    case Work::unawaited: return author.unawaited_work();
    case Work::long_queue: return author.long_queue();
    case Work::return_call: return author.returned_calls();
    case Work::factory: return author.actor_factory();
    case Work::shared_name: return author.shared_name();
    case Work::killed_call: return author.call_after_kill();
    case Work::leaving_name: return author.leaving_names();
    case Work::deferred_calls: return author.deferred_calls();
    case Work::calls_in_groups: return author.calls_in_groups(false);
    case Work::restarts_in_groups: return author.calls_in_groups(true);
    case Work::spread_burst: return author.spread_bursts();
    case Work::generator: return author.streaming_calls();
    case Work::shared_generator: return author.shared_streams();
    case Work::blocked: return author.cancelled_while_blocked();
    case Work::deep_chain: return author.deep_chain();
    case Work::pair_group: return author.pair_groups();
    case Work::device_group: return author.device_group();
    case Work::group: return author.grouped_tasks();
    case Work::group_actors: return author.actors_of_one_bundle();
    case Work::stream: return author.stream_of_tasks();
    case Work::burst: return author.burst_of_tasks();
    case Work::whole: return author.whole_task();
    case Work::labelled: return author.labelled_tasks();
    case Work::whole_group: return author.whole_group();
    case Work::family: return author.family();
    case Work::hoard: return author.hoarding();
    case Work::broadcast: return author.broadcast();
    case Work::waves: return author.waves_of_readers();
    case Work::streams_of_readers: return author.streams_of_readers();
    case Work::orphaned_read: return author.orphaned_reads();
    case Work::whole_gpu: return author.whole_gpu_task();
    case Work::resident: return author.resident_results();
    case Work::lengthy: return author.lengthy_tasks();
    case Work::once: return author.tasks_that_run_once();
    case Work::hungry:
    case Work::too_hungry:
    case Work::frugal_once: return author.hungry_tasks(work);
  }
  return author.several_tasks();
}

}  // namespace mobula::internal::sim
