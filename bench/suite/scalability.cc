// Capacity of one machine: Ray's single-node scalability benchmarks
// (release/benchmarks/single_node/test_single_node.py), as far as C++ has equivalents.
#include <mobula/mobula.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <tuple>

#include "bench/measure/processes.h"
#include "bench/suite/suite.h"

namespace mobula::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t list_length = 10'000;
constexpr int returns = 3'000;
using List = std::vector<std::int64_t>;

void nothing() {}

// Blocks until the file exists.
void blocked(std::string until) {
  while (!std::filesystem::exists(until)) std::this_thread::sleep_for(2ms);
}

std::int64_t sum_of_all(std::vector<ObjectRef<List>> refs) {
  std::int64_t sum = 0;
  for (const List& list : get(refs))
    sum += std::accumulate(list.begin(), list.end(), std::int64_t{0});
  return sum;
}

std::array<List, returns> many_lists() {
  std::array<List, returns> lists;
  for (auto& list : lists) list.assign(list_length, 1);
  return lists;
}

// A directory that is removed with its owner.
class Directory {
 public:
  Directory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "mobula-bench-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("cannot create a directory like " + pattern);
    path_ = pattern;
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  std::filesystem::path path() const { return path_; }

 private:
  std::filesystem::path path_;
};

std::vector<Figure> queued_tasks(const Pace& pace) {
  const int count = pace.batch(1'000'000);
  const Directory directory;
  const std::string go_on = (directory.path() / "go-on").string();
  const auto cluster = init();
  const auto cpus = static_cast<int>(cluster_resources().at("CPU"));
  std::vector<ObjectRef<void>> blockers;
  for (int i = 0; i < cpus; ++i) blockers.push_back(task<blocked>.remote(go_on));
  while (available_resources()["CPU"] > 0) std::this_thread::sleep_for(5ms);

  std::vector<ObjectRef<void>> refs;
  refs.reserve(static_cast<std::size_t>(count));
  const auto before = resident_bytes();
  double submitted = 0;
  double resident = 0;
  const double seconds = seconds_of([&] {
    submitted = seconds_of([&] {
      for (int i = 0; i < count; ++i) refs.push_back(task<nothing>.remote());
    });
    resident = static_cast<double>(resident_bytes() - before);
    std::ofstream(go_on).put('\n');
    for (const auto& ref : blockers) get(ref);
    for (const auto& ref : refs) get(ref);
  });
  const std::string many = std::to_string(count);
  return {figure(many + " queued tasks, from the first to the last result", "single_node_queued_s",
                 seconds, "s"),
          figure("of which submitting", "single_node_queued_submit_s", submitted, "s"),
          figure("tasks a second", "single_node_queued", count / seconds, "1/s"),
          figure("memory of the driver for each queued task", "single_node_queued_bytes",
                 resident / count, "B")};
}

// Ray passes the arguments one by one. A C++ function has a fixed number of parameters, so the task
// receives a list of refs and gets them.
std::vector<Figure> many_arguments(const Pace& pace) {
  const int count = pace.batch(10'000);
  const auto cluster = init();
  const double seconds = seconds_of([&] {
    std::vector<ObjectRef<List>> refs;
    for (int i = 0; i < count; ++i) refs.push_back(put(List(list_length, 1)));
    const auto sum = get(task<sum_of_all>.remote(refs));
    expect(sum == std::int64_t{count} * static_cast<std::int64_t>(list_length),
           "the sum over all arguments");
  });
  return {figure(std::to_string(count) + " lists of 80 kB put and given to one task",
                 "single_node_args_s", seconds, "s")};
}

std::vector<Figure> many_returns(const Pace&) {
  const auto cluster = init();
  const double seconds = seconds_of([&] {
    const auto refs = task<many_lists>.options({.num_returns = returns}).split().remote();
    for (const auto& ref : refs)
      expect(get(ref).size() == list_length, "a list of a task with many results");
  });
  return {figure(std::to_string(returns) + " lists of 80 kB returned by one task, got one by one",
                 "single_node_returns_s", seconds, "s")};
}

std::vector<Figure> many_gets(const Pace& pace) {
  const int count = pace.batch(10'000);
  const auto cluster = init();
  const double seconds = seconds_of([&] {
    std::vector<ObjectRef<List>> refs;
    for (int i = 0; i < count; ++i) refs.push_back(put(List(list_length, i)));
    const auto lists = get(refs);
    for (int i = 0; i < count; ++i) {
      expect(lists[static_cast<std::size_t>(i)].back() == i, "one of many objects got at once");
    }
  });
  return {figure(std::to_string(count) + " lists of 80 kB put, and got at once",
                 "single_node_get_s", seconds, "s")};
}

}  // namespace

std::vector<Benchmark> scalability_benchmarks() {
  return {
      {"queued tasks", "1,000,000 tasks behind blocked ones", queued_tasks},
      {"many arguments", "a task with 10,000 arguments", many_arguments},
      {"many returns", "a task with 3,000 results", many_returns},
      {"many gets", "one get of 10,000 objects", many_gets},
  };
}

}  // namespace mobula::bench
