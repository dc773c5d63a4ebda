#include <mobula/mobula.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "bench/measure/floors.h"
#include "bench/measure/processes.h"
#include "bench/suite/suite.h"

namespace mobula::bench {
namespace {

using namespace std::chrono_literals;

constexpr double mebi = 1024.0 * 1024.0;

int next(int x) { return x + 1; }

class Counter {
 public:
  int add(int by) { return value_ += by; }

 private:
  int value_ = 0;
};

std::string visible_devices() {
  const char* devices = std::getenv("CUDA_VISIBLE_DEVICES");
  return devices == nullptr ? "" : devices;
}

// Submits all tasks, then gets all results, and checks the sum.
void tasks_at_once(int count) {
  std::vector<ObjectRef<int>> refs;
  refs.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) refs.push_back(task<next>.remote(i));
  std::int64_t sum = 0;
  for (const int value : get(refs)) sum += value;
  expect(sum == std::int64_t{count} * (count + 1) / 2, "the sum over all tasks");
}

void calls_at_once(ActorHandle<Counter>& counter, int count) {
  const int before = get(counter.call<&Counter::add>(0));
  std::vector<ObjectRef<int>> refs;
  refs.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) refs.push_back(counter.call<&Counter::add>(1));
  expect(get(refs).back() == before + count, "the last of all calls");
}

struct Memory {
  double driver = 0;
  double head = 0;
  double agent = 0;
};

Memory memory_now() {
  Memory memory;
  memory.driver = static_cast<double>(resident_bytes()) / mebi;
  for (const auto& process : descendants()) {
    if (process.role == "head") memory.head = static_cast<double>(process.resident_bytes) / mebi;
    if (process.role == "agent") memory.agent = static_cast<double>(process.resident_bytes) / mebi;
  }
  return memory;
}

// In the second run, all structures have reached their final size. Growth in that run is a leak.
std::vector<Figure> many_calls(const Pace& pace) {
  const int count = pace.batch(100'000);
  const auto cluster = init();
  auto counter = actor<Counter>.remote();
  const auto both = [&] {
    tasks_at_once(count);
    calls_at_once(counter, count);
  };
  both();
  const Memory first = memory_now();
  const double tasks = seconds_of([&] { tasks_at_once(count); });
  const double calls = seconds_of([&] { calls_at_once(counter, count); });
  const Memory second = memory_now();
  const std::string many = std::to_string(count);
  return {
      figure(many + " tasks at once", "many_tasks_at_once", count / tasks, "1/s"),
      figure(many + " actor calls at once", "many_calls_at_once", count / calls, "1/s"),
      figure("growth of the driver by doing both again", "many_calls_growth_driver",
             second.driver - first.driver, "MiB"),
      figure("growth of the head", "many_calls_growth_head", second.head - first.head, "MiB"),
      figure("growth of the agent", "many_calls_growth_agent", second.agent - first.agent, "MiB"),
  };
}

// Measures from the start of the fork of an executor by the fork server to the first instruction in
// the executor, which is this handler. The process between them may itself be a fork.
struct ForkTimes {
  std::chrono::steady_clock::time_point begin{};
  double microseconds = 0;
  bool copied = false;
};
ForkTimes fork_times;

[[maybe_unused]] const int fork_handlers = ::pthread_atfork(
    [] {
      if (!fork_times.copied) fork_times.begin = std::chrono::steady_clock::now();
    },
    nullptr,
    [] {
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - fork_times.begin;
      fork_times.microseconds = took.count();
      fork_times.copied = true;
    });

double microseconds_of_fork() { return fork_times.microseconds; }

class Forked {
 public:
  double microseconds() { return microseconds_of_fork(); }
};

// Duration of a start without other load.
std::vector<Figure> single_actors(int count, const Floor& floor) {
  std::vector<double> forks;
  std::vector<double> starts;
  for (int i = 0; i < count; ++i) {
    starts.push_back(1e3 * seconds_of([&] {
                       auto one = actor<Forked>.options({.num_cpus = 0}).remote();
                       forks.push_back(get(one.call<&Forked::microseconds>()));
                     }));
  }
  std::ranges::sort(forks);
  std::ranges::sort(starts);
  Figure forked = figure("fork of an executor to its first instruction, median", "executor_fork",
                         forks[forks.size() / 2] / 1e3, "ms");
  Figure started = figure("one actor after another, to the first result, median", "one_actor",
                          starts[starts.size() / 2], "ms");
  forked.runs = started.runs = count;
  put_beside(forked, floor, forked.mean * 1e3, true);
  put_beside(started, floor, started.mean * 1e3, true);
  return {forked, started};
}

std::vector<Figure> many_actors(const Pace& pace) {
  const int count = pace.batch(200);
  const Floor floor = fork_and_exit();
  const auto cluster = init();
  const double seconds = seconds_of([&] {
    std::vector<ActorHandle<Counter>> actors;
    std::vector<ObjectRef<int>> refs;
    for (int i = 0; i < count; ++i)
      actors.push_back(actor<Counter>.options({.num_cpus = 0}).remote());
    for (auto& one : actors) refs.push_back(one.call<&Counter::add>(1));
    for (const int value : get(refs)) expect(value == 1, "an actor's first call");
  });
  Figure started = figure(std::to_string(count) + " actors at once, one call each", "many_actors",
                          count / seconds, "1/s");
  put_beside(started, floor, seconds * 1e6 / count, true);
  std::vector<Figure> figures{started};
  std::ranges::move(single_actors(std::max(20, pace.batch(100)), floor),
                    std::back_inserter(figures));
  return figures;
}

// max_calls is 1 with accelerators, so every task gets a separate process. "A slot of its own": the
// head first grants a slot. "After a pause": the next process is prestarted in the same slot. "One
// after another": each task waits until the previous process is gone.
std::vector<Figure> fresh_gpu_tasks(const Pace& pace) {
  const int count = std::max(20, pace.batch(200));
  const Floor floor = fork_and_exit();
  const auto cluster = init({.num_gpus = 1});
  const auto one = task<visible_devices>.options({.num_cpus = 0, .num_gpus = 1});
  for (int i = 0; i < 10; ++i) expect(get(one.remote()) == "0", "CUDA_VISIBLE_DEVICES");
  std::vector<Figure> figures;
  const auto measure = [&](const std::string& what, const std::string& key,
                           std::chrono::milliseconds pause, bool own_slot) {
    std::vector<double> milliseconds;
    for (int i = 0; i < count; ++i) {
      std::this_thread::sleep_for(pause);
      auto options = TaskOptions{.num_cpus = 0, .num_gpus = 1};
      if (own_slot) options.memory = i + 1;  // a different task class each time
      const auto next = task<visible_devices>.options(options);
      milliseconds.push_back(1e3 * seconds_of([&] { std::ignore = get(next.remote()); }));
    }
    const Rate mean = mean_of(milliseconds);
    std::sort(milliseconds.begin(), milliseconds.end());
    Figure median = figure(what + ", median", key, milliseconds[milliseconds.size() / 2], "ms");
    median.sd = mean.sd;
    median.runs = count;
    put_beside(median, floor, median.mean * 1e3, true);
    figures.push_back(median);
    figures.push_back(figure("the same, 99th percentile", key + "_p99",
                             milliseconds[milliseconds.size() * 99 / 100], "ms"));
  };
  using namespace std::chrono_literals;
  measure("GPU task in a fresh process and a separate slot", "gpu_task_fresh_slot", 250ms, true);
  measure("GPU task in a fresh process, 40 ms after the one before",
          "gpu_task_fresh_process_after_pause", 40ms, false);
  measure("GPU task in a fresh process, one after another", "gpu_task_fresh_process", 0ms, false);
  return figures;
}

// A value whose pages are new to the store, the same with existing pages, and the memory that is
// left ten seconds later.
std::vector<Figure> fresh_puts(const Pace& pace) {
  const Floor floor = warm_memcpy_to_memfd();
  const std::vector<std::int64_t> value(static_cast<std::size_t>(100 * (1 << 20) / pace.divisor),
                                        1);
  const double gigabytes = static_cast<double>(value.size() * sizeof(value[0])) / 1e9;
  const auto cluster = init();
  std::ignore = get(task<next>.remote(1));
  const double before = static_cast<double>(shared_bytes()) / mebi;
  const double fresh = gigabytes / seconds_of([&] { std::ignore = put(value); });
  std::vector<double> warm;
  for (int i = 0; i < 5; ++i)
    warm.push_back(gigabytes / seconds_of([&] { std::ignore = put(value); }));
  const double full = static_cast<double>(shared_bytes()) / mebi;
  std::this_thread::sleep_for(10s);
  const double after = static_cast<double>(shared_bytes()) / mebi;
  std::vector<Figure> figures{
      figure("put of 839 MB into new pages", "put_fresh_pages", fresh, "GB/s"),
      figure("the same into pages that were there", "put_warm_pages", mean_of(warm), "GB/s")};
  for (Figure& each : figures) put_beside(each, floor, each.mean, false);
  figures.push_back(figure("shared memory of the machine, more than before", "put_shared_memory",
                           full - before, "MiB"));
  figures.push_back(figure("ten seconds later", "put_shared_memory_rested", after - before, "MiB"));
  return figures;
}

std::vector<Figure> at_rest(const Pace& pace) {
  const auto cluster = init();
  std::ignore = get(task<next>.remote(1));
  const auto observed = pace.divisor == 1 ? 20s : 1s;
  std::this_thread::sleep_for(pace.divisor == 1 ? 5s : 0s);
  const auto before = descendants();
  std::this_thread::sleep_for(observed);
  std::vector<Figure> figures;
  for (const auto& process : descendants()) {
    if (process.role != "head" && process.role != "agent") continue;
    for (const auto& earlier : before) {
      if (earlier.pid != process.pid) continue;
      const double busy = process.cpu_seconds - earlier.cpu_seconds;
      figures.push_back(figure(process.role + " at rest, memory", "at_rest_memory_" + process.role,
                               static_cast<double>(process.resident_bytes) / mebi, "MiB"));
      figures.push_back(figure(process.role + " at rest, CPU", "at_rest_cpu_" + process.role,
                               100 * busy / static_cast<double>(observed.count()), "%"));
    }
  }
  expect(figures.size() == 4, "a head and an agent among this program's processes");
  return figures;
}

// Many tasks, large values, and actors: a typical load before the cluster is at rest.
void work_hard(const Pace& pace) {
  std::vector<ObjectRef<int>> calls;
  for (int i = 0; i < pace.batch(50'000); ++i) calls.push_back(task<next>.remote(i));
  std::ignore = get(calls);
  const std::vector<std::int64_t> value(std::size_t{1} << 20, 1);
  std::vector<ObjectRef<std::vector<std::int64_t>>> values;
  for (int i = 0; i < pace.batch(40); ++i) values.push_back(put(value));
  std::vector<ActorHandle<Counter>> actors;
  for (int i = 0; i < pace.batch(40); ++i)
    actors.push_back(actor<Counter>.options({.num_cpus = 0}).remote());
  for (auto& one : actors) std::ignore = get(one.call<&Counter::add>(1));
}

// The processes of a cluster at rest: head, agent, fork server, prestarted executors.
std::vector<Figure> after_work(const Pace& pace) {
  const auto cluster = init();
  std::ignore = get(task<next>.remote(1));
  const auto rest = [&] {
    std::this_thread::sleep_for(pace.divisor == 1 ? 30s : 3s);
    double bytes = 0;
    for (const auto& process : descendants()) bytes += static_cast<double>(process.private_bytes);
    return bytes / mebi;
  };
  const double before = rest();
  work_hard(pace);
  const double after = rest();
  return {figure("private memory of all processes at rest, at first", "rest_private_before", before,
                 "MiB"),
          figure("the same after work", "rest_private_after", after, "MiB"),
          figure("the same after work, relative", "rest_private_ratio", after / before, "x")};
}

std::vector<Figure> start_and_first_result(const Pace& pace) {
  std::vector<double> started;
  std::vector<double> answered;
  for (int i = 0; i < std::max(3, pace.runs); ++i) {
    std::optional<Cluster> cluster;
    started.push_back(1e3 * seconds_of([&] { cluster.emplace(init()); }));
    answered.push_back(1e3 * seconds_of([&] { std::ignore = get(task<next>.remote(1)); }));
  }
  std::vector<Figure> figures;
  for (const auto& [name, key, values] :
       {std::tuple("init() of a local cluster", "init_local_cluster", started),
        std::tuple("first task after it", "first_task", answered)}) {
    const Rate mean = mean_of(values);
    figures.push_back(figure(name, key, mean.mean, "ms"));
    figures.back().sd = mean.sd;
    figures.back().runs = mean.runs;
  }
  return figures;
}

}  // namespace

std::vector<Benchmark> scale_benchmarks() {
  return {
      {"start", "a local cluster, and its first task", start_and_first_result},
      {"fresh_gpu_tasks", "GPU tasks in separate processes, one after another", fresh_gpu_tasks},
      {"many_actors", "200 actors at once", many_actors},
      {"many_calls", "100,000 tasks and 100,000 actor calls at once, twice", many_calls},
      {"fresh_puts", "a large value into new memory, and the release of that memory", fresh_puts},
      {"at_rest", "memory and CPU of an idle head and agent", at_rest},
      {"after_work", "memory of an idle cluster before and after it has worked", after_work},
  };
}

}  // namespace mobula::bench
