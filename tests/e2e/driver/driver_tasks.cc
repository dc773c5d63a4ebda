#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using std::chrono::seconds;
using Block = std::vector<std::int32_t>;

int add(int a, int b) { return a + b; }
std::string here() { return mobula::current().node_id; }
std::int64_t pid_of_task() { return ::getpid(); }

Block make_block(int size, int start) {
  Block block(static_cast<std::size_t>(size));
  std::iota(block.begin(), block.end(), start);
  return block;
}
std::int64_t sum_of(mobula::View<Block> block) {
  return std::accumulate(block.begin(), block.end(), std::int64_t{0});
}
std::int64_t nested_sum(int depth) {
  if (depth == 0) return 1;
  const auto left = mobula::task<nested_sum>.remote(depth - 1);
  const auto right = mobula::task<nested_sum>.remote(depth - 1);
  return 1 + left.get() + right.get();
}

std::vector<std::string> nodes_alive() {
  std::vector<std::string> ids;
  for (const auto& node : mobula::nodes()) {
    if (node.alive) ids.push_back(node.node_id);
  }
  return ids;
}

// A large result with two refs: on an unfinished task of its executor, which exits after this call,
// and on a value that this executor has put.
struct Promise {
  std::vector<double> block;
  mobula::ObjectRef<int> later;
  mobula::ObjectRef<int> now;
};
int slow_sum(int a, int b) {
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // outlives its parent
  return a + b;
}
Promise promises() {
  return {std::vector<double>(1 << 17, 3.0), mobula::task<slow_sum>.remote(20, 1), mobula::put(21)};
}

int promised(const Words&) {
  Report report;
  for (int i = 0; i < 5; ++i) {
    const auto promise =
        mobula::get(mobula::task<promises>.options({.max_calls = 1}).remote(), seconds(30));
    report.equal("block", promise.block.back(), 3.0);
    report.equal("later", mobula::get(promise.later, seconds(30)), 21);
    report.equal("now", mobula::get(promise.now, seconds(30)), 21);
  }
  return report.exit_code();
}

int hello(const Words&) {
  Report report;
  const auto three = mobula::task<add>.remote(1, 2);
  report.equal("1+2+4", mobula::get(mobula::task<add>.remote(three, 4), seconds(30)), 7);
  return report.exit_code();
}

// A task by affinity on every node, and objects of 8 MiB made on each node and read on all others.
int across_nodes(const Words&) {
  Report report;
  const auto ids = nodes_alive();
  if (ids.empty()) throw std::runtime_error("no node is alive");
  constexpr int size = 2 << 20;
  std::vector<mobula::ObjectRef<Block>> blocks;
  for (const auto& id : ids) {
    const mobula::TaskOptions there{.num_cpus = 0.5, .scheduling = mobula::NodeAffinity{id}};
    report.equal("node", mobula::get(mobula::task<here>.options(there).remote(), seconds(30)), id);
    const int start = static_cast<int>(blocks.size());
    blocks.push_back(mobula::task<make_block>.options(there).remote(size, start));
  }
  for (const auto& id : ids) {
    const mobula::TaskOptions there{.num_cpus = 0.5, .scheduling = mobula::NodeAffinity{id}};
    for (std::size_t of = 0; of < blocks.size(); ++of) {
      const std::int64_t first = static_cast<std::int64_t>(of);
      const std::int64_t expected = (2 * first + size - 1) * size / 2;
      const auto sum = mobula::task<sum_of>.options(there).remote(blocks[of]);
      report.equal("sum of 8 MiB", mobula::get(sum, seconds(60)), expected);
    }
  }
  const auto view = mobula::get_view(blocks.back());
  report.equal("size of the last", view.size(), static_cast<std::size_t>(size));
  tell(std::to_string(ids.size()) + " nodes");
  return report.exit_code();
}

int nested(const Words& arguments) {
  const int depth = std::stoi(arguments.at(0));
  Report report;
  const auto sum = mobula::task<nested_sum>.remote(depth);
  report.equal("tasks", mobula::get(sum, seconds(60)), (std::int64_t{1} << (depth + 1)) - 1);
  return report.exit_code();
}

int one_more(int value) { return value + 1; }

// Submits its child after other tasks have begun to wait for the whole device.
int parent_on_a_gpu(int value) {
  std::this_thread::sleep_for(seconds(3));
  return mobula::task<one_more>.options({.num_cpus = 0, .num_gpus = 0.25}).remote(value).get();
}

// A parent with part of a GPU whose child needs another part, next to a request for the whole GPU.
int family_beside_a_large_request(const Words&) {
  Report report;
  const auto parent = mobula::task<parent_on_a_gpu>.options({.num_gpus = 0.25}).remote(1);
  const double all = mobula::cluster_resources().at("GPU");
  while (mobula::available_resources().at("GPU") == all) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  const auto large = mobula::task<one_more>.options({.num_gpus = 1}).remote(10);
  report.equal("parent", mobula::get(parent, seconds(60)), 2);
  report.equal("large", mobula::get(large, seconds(60)), 11);
  return report.exit_code();
}

int many_tasks(const Words& arguments) {
  const int count = std::stoi(arguments.at(0));
  Report report;
  const auto begin = std::chrono::steady_clock::now();
  std::vector<mobula::ObjectRef<int>> refs;
  refs.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) refs.push_back(mobula::task<add>.remote(i, 1));
  const auto values = mobula::get(refs, seconds(120));
  std::int64_t sum = 0;
  for (const int each : values) sum += each;
  report.equal("sum", sum, std::int64_t{count} * (count + 1) / 2);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  tell(std::to_string(count / took.count()) + " tasks/s");
  return report.exit_code();
}

// A separate process for every task with a GPU, and one process for many tasks without.
int gpu_processes(const Words&) {
  Report report;
  std::set<std::int64_t> fresh, shared;
  for (int i = 0; i < 4; ++i) {
    const auto with_gpu = mobula::task<pid_of_task>.options({.num_gpus = 1}).remote();
    fresh.insert(mobula::get(with_gpu, seconds(30)));
  }
  std::vector<mobula::ObjectRef<std::int64_t>> without;
  for (int i = 0; i < 4; ++i) without.push_back(mobula::task<pid_of_task>.remote());
  for (const auto pid : mobula::get(without, seconds(30))) shared.insert(pid);
  report.equal("processes of 4 GPU tasks", fresh.size(), 4u);
  report.equal("processes of 4 tasks on one CPU", shared.size(), 1u);
  return report.exit_code();
}

std::string thread_variables_here() {
  std::string text;
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"}) {
    const char* value = std::getenv(name);
    text += (text.empty() ? "" : " ") + std::string(value == nullptr ? "unset" : value);
  }
  return text;
}

struct ThreadCounter {
  std::string variables() { return thread_variables_here(); }
};

int thread_variables(const Words&) {
  const auto seen = [](const mobula::TaskOptions& options) {
    return mobula::task<thread_variables_here>.options(options).remote();
  };
  Report report;
  const auto two = seen({.num_cpus = 2});
  const auto part = seen({.num_cpus = 0.5});
  const auto own = seen({.num_cpus = 2, .env = {{"OMP_NUM_THREADS", "7"}}});
  const auto actor = mobula::actor<ThreadCounter>.remote();
  report.equal("two CPUs", two.get(), "2 2 2");
  report.equal("half a CPU", part.get(), "1 1 1");
  report.equal("a variable of the call", own.get(), "7 2 2");
  report.equal("an actor without CPUs", actor.call<&ThreadCounter::variables>().get(), "1 1 1");
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> task_scenarios() {
  return {{"hello", &hello},
          {"promised", &promised},
          {"thread_variables", &thread_variables},
          {"across_nodes", &across_nodes},
          {"nested", &nested},
          {"family_beside_a_large_request", &family_beside_a_large_request},
          {"many_tasks", &many_tasks},
          {"gpu_processes", &gpu_processes}};
}

}  // namespace mobula::e2e
