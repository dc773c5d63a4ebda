#include <mobula/mobula.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "bench/measure/floors.h"
#include "bench/suite/suite.h"

namespace mobula::bench {
namespace {

// Memory like that of numpy.zeros: never written, with pages that the system provides on the first
// read.
template <class T>
struct ZeroPages {
  using value_type = T;
  ZeroPages() = default;
  template <class U>
  ZeroPages(const ZeroPages<U>&) {}
  T* allocate(std::size_t count) {
    void* pages = ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    return static_cast<T*>(pages);
  }
  void deallocate(T* pages, std::size_t count) { ::munmap(pages, count * sizeof(T)); }
  void construct(T*) {}  // already zero
  friend bool operator==(const ZeroPages&, const ZeroPages&) { return true; }
};
using ZeroArray = std::vector<std::int64_t, ZeroPages<std::int64_t>>;

// ---- fixtures: ray_perf.py ---------------------------------------------------------------------

std::string small_value() { return "ok"; }

int put_many(int count) {
  for (int i = 0; i < count; ++i) std::ignore = put(0);
  return count;
}

int put_arrays(int count, std::int64_t elements) {
  for (int i = 0; i < count; ++i)
    std::ignore = put(std::vector<std::int64_t>(static_cast<std::size_t>(elements)));
  return count;
}

std::vector<ObjectRef<int>> many_refs(int count) {
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < count; ++i) refs.push_back(put(1));
  return refs;
}

class Server {
 public:
  std::string value() { return "ok"; }
  std::string value_of(int) { return "ok"; }
  int batch_of_tasks(int count) {
    std::vector<ObjectRef<std::string>> refs;
    for (int i = 0; i < count; ++i) refs.push_back(task<small_value>.remote());
    return static_cast<int>(get(refs).size());
  }
};

class Client {
 public:
  explicit Client(std::vector<ActorHandle<Server>> servers) : servers_(std::move(servers)) {}
  int batch(int count) {
    std::vector<ObjectRef<std::string>> refs;
    for (auto& server : servers_) {
      for (int i = 0; i < count; ++i) refs.push_back(server.call<&Server::value>());
    }
    return static_cast<int>(get(refs).size());
  }
  int batch_with_argument(int count) {
    const auto argument = put(0);
    std::vector<ObjectRef<std::string>> refs;
    for (auto& server : servers_) {
      for (int i = 0; i < count; ++i) refs.push_back(server.call<&Server::value_of>(argument));
    }
    return static_cast<int>(get(refs).size());
  }

 private:
  std::vector<ActorHandle<Server>> servers_;
};

int call_round_robin(int count, std::vector<ActorHandle<Server>> servers) {
  std::vector<ObjectRef<std::string>> refs;
  for (int i = 0; i < count; ++i) {
    refs.push_back(servers[static_cast<std::size_t>(i) % servers.size()].call<&Server::value>());
  }
  return static_cast<int>(get(refs).size());
}

int cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

int half_of_the_cores() { return std::max(1, cores() / 2); }

std::vector<ActorHandle<Server>> servers(int count) {
  std::vector<ActorHandle<Server>> all;
  for (int i = 0; i < count; ++i) all.push_back(actor<Server>.options({.num_cpus = 0}).remote());
  for (auto& one : all) std::ignore = get(one.call<&Server::value>());
  return all;
}

// ---- one benchmark -----------------------------------------------------------------------------

// `once` is created inside the cluster and called at the pace of the timer.
using Prepare = std::function<std::function<void()>(const Pace&)>;

struct Definition {
  std::string name;
  std::string key;
  double multiplier = 1;  // operations per call, before batches are divided
  Prepare prepare{};
  double num_cpus = cores();  // as Ray counts CPUs
  Resources resources{};      // resources of the node in addition to its CPUs
};

enum class Against { round_trip, memcpy, fresh_copy };

Floor floor_of(Against against) {
  switch (against) {
    case Against::round_trip: return spinning_round_trip();
    case Against::memcpy: return warm_memcpy_to_memfd();
    case Against::fresh_copy: return memcpy_to_fresh_pages();
  }
  return {};
}

Benchmark rate_benchmark(Definition definition, Against against) {
  Benchmark benchmark;
  benchmark.name = definition.key;
  benchmark.about = definition.name;
  benchmark.run = [definition, against](const Pace& pace) {
    const Floor floor = floor_of(against);
    const bool bytes = against != Against::round_trip;
    Rate rate;
    {
      const auto cluster =
          init({.num_cpus = definition.num_cpus, .resources = definition.resources});
      const auto once = definition.prepare(pace);
      // A benchmark that counts whole batches as one operation is not scaled by the divisor.
      const double divided = definition.multiplier == 1 ? 1 : definition.multiplier / pace.divisor;
      rate = measure_rate(pace, divided, once);
    }
    Figure figure{.name = definition.name,
                  .key = definition.key,
                  .mean = rate.mean,
                  .sd = rate.sd,
                  .unit = bytes ? "GB/s" : "1/s",
                  .runs = rate.runs};
    put_beside(figure, floor, bytes ? rate.mean : 1e6 / rate.mean, !bytes);
    return std::vector<Figure>{figure};
  };
  return benchmark;
}

std::function<void()> submit_and_get(int count) {
  return [count] {
    std::vector<ObjectRef<std::string>> refs;
    for (int i = 0; i < count; ++i) refs.push_back(task<small_value>.remote());
    std::ignore = get(refs);
  };
}

// Waits for the tasks of a batch one at a time.
void wait_one_by_one(int count) {
  std::vector<ObjectRef<std::string>> pending;
  for (int i = 0; i < count; ++i) pending.push_back(task<small_value>.remote());
  for (bool first = true; !pending.empty(); first = false) {
    auto split = wait(std::move(pending), {.num_returns = 1, .fetch_local = first});
    pending = std::move(split.pending);
  }
}

std::vector<Definition> object_definitions() {
  return {
      {"single client get calls", "single_client_get_calls_Plasma_Store", 1,
       [](const Pace&) { return [value = put(0)] { std::ignore = get(value); }; }},
      {"single client put calls", "single_client_put_calls_Plasma_Store", 1,
       [](const Pace&) { return [] { std::ignore = put(0); }; }},
      {"multi client put calls", "multi_client_put_calls_Plasma_Store", 1000,
       [](const Pace& pace) {
         return [each = pace.batch(100)] {
           std::vector<ObjectRef<int>> refs;
           for (int i = 0; i < 10; ++i) refs.push_back(task<put_many>.remote(each));
           std::ignore = get(refs);
         };
       }},
      {"single client get object containing 10k refs",
       "single_client_get_object_containing_10k_refs", 1,
       [](const Pace& pace) {
         return [refs = task<many_refs>.remote(pace.batch(10'000))] { std::ignore = get(refs); };
       }},
      {"single client wait 1k refs", "single_client_wait_1k_refs", 1,
       [](const Pace& pace) { return [count = pace.batch(1000)] { wait_one_by_one(count); }; }},
  };
}

std::vector<Definition> gigabyte_definitions() {
  constexpr std::int64_t mebi = 1 << 20;
  return {
      {"single client put gigabytes", "single_client_put_gigabytes", 0.8,
       [](const Pace& pace) {
         const auto zeros =
             std::make_shared<const ZeroArray>(static_cast<std::size_t>(100 * mebi / pace.divisor));
         return [zeros] { std::ignore = put(*zeros); };
       }},
      {"single client put written gigabytes", "single_client_put_written_gigabytes", 0.8,
       [](const Pace& pace) {
         return
             [ones = std::vector<std::int64_t>(static_cast<std::size_t>(100 * mebi / pace.divisor),
                                               1)] { std::ignore = put(ones); };
       }},
      {"multi client put gigabytes", "multi_client_put_gigabytes", 8,
       [](const Pace& pace) {
         return [elements = 10 * mebi / pace.divisor] {
           std::vector<ObjectRef<int>> refs;
           for (int i = 0; i < 10; ++i) refs.push_back(task<put_arrays>.remote(10, elements));
           std::ignore = get(refs);
         };
       }},
  };
}

// Compares with NumPy's copy: into fresh memory with huge pages.
Definition get_vector_definition() {
  constexpr double gigabytes = 0.134217728;  // 128 MiB
  return {"single client get vector gigabytes", "single_client_get_vector_gigabytes", gigabytes,
          [](const Pace& pace) {
            const auto count =
                static_cast<std::size_t>((std::int64_t{128} << 20) / 4 / pace.divisor);
            return [ref = put(std::vector<float>(count, 1))] { std::ignore = get(ref); };
          }};
}

std::vector<Definition> task_definitions() {
  return {
      {"single client tasks sync", "single_client_tasks_sync", 1,
       [](const Pace&) { return [] { std::ignore = get(task<small_value>.remote()); }; }},
      {"single client tasks async", "single_client_tasks_async", 1000,
       [](const Pace& pace) { return submit_and_get(pace.batch(1000)); }},
      {"single client tasks and get batch", "single_client_tasks_and_get_batch", 1,
       [](const Pace& pace) { return submit_and_get(pace.batch(1000)); }},
      {"multi client tasks async", "multi_client_tasks_async", 40'000,
       [](const Pace& pace) {
         return [clients = servers(4), each = pace.batch(10'000)]() mutable {
           std::vector<ObjectRef<int>> refs;
           for (auto& client : clients) refs.push_back(client.call<&Server::batch_of_tasks>(each));
           std::ignore = get(refs);
         };
       }},
  };
}

// One driver and one actor. `options` are those of the actor.
Prepare calls_of_one_actor(ActorOptions options, int count) {
  return [options, count](const Pace& pace) {
    auto server = actor<Server>.options(options).remote();
    return [server, batch = count == 1 ? 1 : pace.batch(count)]() mutable {
      std::vector<ObjectRef<std::string>> refs;
      for (int i = 0; i < batch; ++i) refs.push_back(server.call<&Server::value>());
      std::ignore = get(refs);
    };
  };
}

std::vector<Definition> actor_definitions() {
  const int cores = half_of_the_cores();
  return {
      {"1:1 actor calls sync", "1_1_actor_calls_sync", 1, calls_of_one_actor({.num_cpus = 0}, 1)},
      {"1:1 actor calls async", "1_1_actor_calls_async", 1000,
       calls_of_one_actor({.num_cpus = 0}, 1000)},
      {"1:1 actor calls concurrent", "1_1_actor_calls_concurrent", 1000,
       calls_of_one_actor({.num_cpus = 0, .max_concurrency = 16}, 1000)},
      {"1:n actor calls async", "1_n_actor_calls_async", 5000.0 * cores,
       [cores](const Pace& pace) {
         auto client = actor<Client>.options({.num_cpus = 0}).remote(servers(cores));
         return [client, each = pace.batch(5000)]() mutable {
           std::ignore = get(client.call<&Client::batch>(each));
         };
       }},
      {"n:n actor calls async", "n_n_actor_calls_async", 20'000,
       [cores](const Pace& pace) {
         return [all = servers(cores), each = pace.batch(5000)] {
           std::vector<ObjectRef<int>> refs;
           for (int i = 0; i < 4; ++i) refs.push_back(task<call_round_robin>.remote(each, all));
           std::ignore = get(refs);
         };
       }},
      {"n:n actor calls with arg async", "n_n_actor_calls_with_arg_async", 1000.0 * cores,
       [cores](const Pace& pace) {
         std::vector<ActorHandle<Client>> clients;
         for (int i = 0; i < cores; ++i) {
           clients.push_back(actor<Client>.options({.num_cpus = 0}).remote(servers(1)));
         }
         return [clients, each = pace.batch(1000)]() mutable {
           std::vector<ObjectRef<int>> refs;
           for (auto& client : clients) {
             refs.push_back(client.call<&Client::batch_with_argument>(each));
           }
           std::ignore = get(refs);
         };
       }},
  };
}

// Waits for each group before it removes any. A removal returns when it is sent, as in Ray's
// benchmark.
std::vector<Definition> group_definitions() {
  return {{.name = "placement group create and remove",
           .key = "placement_group_create_remove",
           .multiplier = 100,
           .prepare = [](const Pace& pace) -> std::function<void()> {
             return [count = pace.batch(100)] {
               std::vector<PlacementGroup> groups;
               for (int i = 0; i < count; ++i)
                 groups.push_back(placement_group({{{"custom", 0.001}}}));
               for (const auto& group : groups) {
                 if (!group.wait(std::chrono::seconds(30))) {
                   throw std::runtime_error("a placement group of 0.001 custom did not come");
                 }
               }
               for (const auto& group : groups) remove_placement_group(group);
             };
           },
           .resources = {{"custom", 100}}}};
}

// The time from the release of the last handle of a called actor until another request gets its
// CPU.
std::vector<Figure> actor_release(const Pace& pace) {
  const Floor floor = fork_and_exit();
  std::vector<double> ms;
  {
    const auto cluster = init({.num_cpus = 1.0});
    for (int i = 0; i < pace.batch(50); ++i) {
      auto server = actor<Server>.options({.num_cpus = 1}).remote();
      std::ignore = get(server.call<&Server::value>());
      ms.push_back(1e3 * seconds_of([&] {
                     server = {};
                     while (available_resources()["CPU"] < 1) std::this_thread::yield();
                   }));
    }
  }
  std::ranges::nth_element(ms, ms.begin() + static_cast<std::ptrdiff_t>(ms.size() / 2));
  const double median = ms[ms.size() / 2];
  Figure row =
      figure("last actor handle gone to its CPU free, median", "actor_release", median, "ms");
  row.runs = static_cast<int>(ms.size());
  put_beside(row, floor, 1e3 * median, true);
  return {row};
}

}  // namespace

std::vector<Benchmark> microbenchmarks() {
  std::vector<Benchmark> all;
  for (auto& one : object_definitions()) all.push_back(rate_benchmark(one, Against::round_trip));
  for (auto& one : gigabyte_definitions()) all.push_back(rate_benchmark(one, Against::memcpy));
  all.push_back(rate_benchmark(get_vector_definition(), Against::fresh_copy));
  for (auto& one : task_definitions()) all.push_back(rate_benchmark(one, Against::round_trip));
  for (auto& one : actor_definitions()) all.push_back(rate_benchmark(one, Against::round_trip));
  for (auto& one : group_definitions()) all.push_back(rate_benchmark(one, Against::round_trip));
  all.push_back({"actor_release", "the time until the resources of a dropped actor are free",
                 &actor_release});
  return all;
}

}  // namespace mobula::bench
