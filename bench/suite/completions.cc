// Completion notification: the rate of tasks through one CompletionQueue next to `get(vector)`, the
// latency of `take` next to that of `get`, and the CPU time of outstanding refs. A full run fails
// if one of the ratios exceeds its limit.
#include <mobula/mobula.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <tuple>

#include "bench/measure/measure.h"
#include "bench/suite/suite.h"

namespace mobula::bench {
namespace {

constexpr double largest_time_of_queue = 1 / 0.9;  // relative to get(vector), for 100,000 refs
constexpr double largest_latency = 1.2;            // relative to get

int zero_soon() { return 0; }
int blocks_until_cancelled() {
  while (!current().cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return 0;
}

std::vector<ObjectRef<int>> submit(std::size_t count) {
  std::vector<ObjectRef<int>> refs;
  refs.reserve(count);
  for (std::size_t i = 0; i < count; ++i) refs.push_back(task<zero_soon>.remote());
  return refs;
}

void get_all(std::size_t count) { expect(get(submit(count)).size() == count, "all values"); }

// As get_all, through a queue.
void take_all(std::size_t count) {
  CompletionQueue queue;
  std::vector<ObjectRef<int>> refs;
  refs.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    refs.push_back(task<zero_soon>.remote());
    queue.add(refs.back(), i);
  }
  std::uint64_t tokens[256];
  std::size_t taken = 0;
  while (queue.outstanding() > 0) {
    const std::size_t some = queue.take(tokens, std::chrono::seconds(60));
    for (std::size_t i = 0; i < some; ++i) taken += get(refs[tokens[i]]) == 0 ? 1 : 0;
    if (some == 0) break;
  }
  expect(taken == count, "all tokens");
}

// Medians of the time from a submission to the return of `get`, and of `take`.
std::vector<Figure> latency(const Pace& pace) {
  std::vector<double> by_get, by_take;
  CompletionQueue queue;
  const auto until = std::chrono::steady_clock::now() + pace.run * pace.runs;
  while (std::chrono::steady_clock::now() < until) {
    by_get.push_back(1e6 * seconds_of([] { std::ignore = get(task<zero_soon>.remote()); }));
    by_take.push_back(1e6 * seconds_of([&queue] {
                        const auto ref = task<zero_soon>.remote();
                        queue.add(ref, 1);
                        std::uint64_t token[1];
                        expect(queue.take(token, std::chrono::seconds(60)) == 1, "a token");
                      }));
  }
  auto found = figure("a task's round trip to take", "completion_latency", median(by_take), "us");
  put_beside(found, {"get of one ref", median(by_get), "us"}, found.mean, true);
  found.largest_ratio = largest_latency;
  return {found};
}

// CPU time of this process while `count` refs are outstanding, in percent of one processor.
Figure at_rest(const Pace& pace, int count) {
  CompletionQueue queue;
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < pace.batch(count); ++i) {
    refs.push_back(task<blocks_until_cancelled>.remote());
    queue.add(refs.back(), static_cast<std::uint64_t>(i));
  }
  const auto used = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  };
  std::this_thread::sleep_for(pace.warm_up);
  const double before = used();
  std::uint64_t token[1];
  const double span = seconds_of([&] {
    expect(queue.take(token, pace.run * pace.runs + std::chrono::milliseconds(pace.run)) == 0,
           "no task ends");
  });
  const double percent = 100 * (used() - before) / span;
  for (const auto& each : refs) cancel(each);
  return figure("CPU of 1,000 outstanding refs", "completion_at_rest", percent, "%");
}

std::vector<Figure> completions(const Pace& pace) {
  std::vector<Figure> found;
  const auto cluster = init({.address = "local"});
  for (const int count : {10, 100, 1'000, 10'000, 100'000}) {
    const auto size = static_cast<std::size_t>(pace.batch(count));
    const auto turns =
        measure_in_turns(pace, {[size] { get_all(size); }, [size] { take_all(size); }});
    const auto per_second = static_cast<double>(size);
    auto rate =
        figure("tasks through a queue, " + std::to_string(count) + " outstanding",
               "completion_rate_" + std::to_string(count), per_second * turns.rate(1), "calls/s");
    put_beside(rate, {"get(vector)", per_second * turns.rate(0), "calls/s"}, rate.mean, false);
    if (count == 100'000) rate.largest_ratio = largest_time_of_queue;
    found.push_back(rate);
    if (count != 1'000) continue;
    found.push_back(
        figure("a completion beyond the call", "completion_cost",
               1e6 * (1 / (per_second * turns.rate(1)) - 1 / (per_second * turns.rate(0))), "us"));
  }
  for (auto& each : latency(pace)) found.push_back(std::move(each));
  found.push_back(at_rest(pace, 1'000));
  return found;
}

}  // namespace

std::vector<Benchmark> completion_benchmarks() {
  return {{"completions", "tasks through one CompletionQueue, next to get(vector)", completions}};
}

}  // namespace mobula::bench
