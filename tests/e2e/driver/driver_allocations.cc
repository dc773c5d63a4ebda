// Counts the allocations of a warmed-up call end to end: every `new` in the driver and in the
// executor, on any thread.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "e2e/driver/driver.h"

namespace {
std::atomic<std::uint64_t> allocations{0};  // allocations of this process, all threads
}

void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace mobula::e2e {
namespace {

std::uint64_t allocations_here() { return allocations.load(); }
int plus_one(int value) { return value + 1; }

// Receives the calls and reports how much its process has allocated.
class Callee {
 public:
  std::uint64_t allocations() { return allocations_here(); }
  int one() { return 1; }
  int plus_one(int value) { return value + 1; }
  mobula::Tensor tensor() { return tensor_; }
  int bytes_of(const mobula::Tensor& tensor) { return static_cast<int>(tensor.bytes()); }

 private:
  mobula::Tensor tensor_ = mobula::Tensor::zeros({2});
};

constexpr int calls_one_by_one = 250;  // calls per round
constexpr int calls_at_once = 1000;
constexpr int rounds_before = 3;  // rounds that warm up caches
constexpr int rounds = 5;

// Prints the allocations per call in this process and in the callee. Takes the minimum over several
// rounds, to exclude allocations that depend on time instead of calls.
template <class Round, class There>
void measure(const std::string& what, int calls, const Round& round, const There& there) {
  for (int i = 0; i < rounds_before; ++i) round();
  std::uint64_t least_here = UINT64_MAX;
  std::uint64_t least_there = UINT64_MAX;
  for (int i = 0; i < rounds; ++i) {
    const std::uint64_t before_there = there();
    const std::uint64_t before = allocations_here();
    round();
    least_here = std::min(least_here, allocations_here() - before);
    least_there = std::min(least_there, there() - before_there);
  }
  const auto per_call = [&](std::uint64_t count) {
    return std::to_string(static_cast<double>(count) / calls);
  };
  tell(what + ": driver " + per_call(least_here) + " executor " + per_call(least_there) + ";");
}

template <class Call>
auto one_by_one(const Call& call) {
  return [&call] {
    for (int i = 0; i < calls_one_by_one; ++i) (void)call().get();
  };
}

template <class Call>
auto at_once(const Call& call) {
  return [&call, refs = std::vector<mobula::ObjectRef<int>>()]() mutable {
    refs.reserve(calls_at_once);
    for (int i = 0; i < calls_at_once; ++i) refs.push_back(call());
    (void)mobula::get(refs);
    refs.clear();
  };
}

int allocations_of_calls(const Words&) {
  const auto task = [] { return mobula::task<&one>.remote(); };
  const auto task_with_argument = [] { return mobula::task<&plus_one>.remote(1); };
  const auto at_task = [] { return mobula::task<&allocations_here>.remote().get(); };
  measure("task", calls_one_by_one, one_by_one(task), at_task);
  measure("task with argument", calls_one_by_one, one_by_one(task_with_argument), at_task);

  auto callee = mobula::actor<Callee>.remote();
  const auto call = [&] { return callee.call<&Callee::one>(); };
  const auto call_with_argument = [&] { return callee.call<&Callee::plus_one>(1); };
  const auto at_actor = [&] { return callee.call<&Callee::allocations>().get(); };
  measure("actor call", calls_one_by_one, one_by_one(call), at_actor);
  measure("actor call with argument", calls_one_by_one, one_by_one(call_with_argument), at_actor);
  // Options written at the call are a new object each time, with equal content.
  const auto task_with_options = [] {
    return mobula::task<&one>.options({.max_retries = 2}).remote();
  };
  measure("task with options", calls_one_by_one, one_by_one(task_with_options), at_task);
  const auto call_with_options = [&] {
    return callee.method<&Callee::one>().options({.max_task_retries = 2}).remote();
  };
  measure("actor call with options", calls_one_by_one, one_by_one(call_with_options), at_actor);

  auto other = mobula::actor<Callee>.remote();
  const auto round = [&] {
    return other.call<&Callee::bytes_of>(callee.method<&Callee::tensor>()
                                             .options({.tensor_transport = mobula::Transport::shm})
                                             .remote());
  };
  measure("tensor made", calls_one_by_one, one_by_one(round), at_actor);
  measure("tensor used", calls_one_by_one, one_by_one(round),
          [&] { return other.call<&Callee::allocations>().get(); });
  auto many = at_once(call);
  measure(
      "actor calls at once", calls_at_once, [&] { many(); }, at_actor);
  return 0;
}

}  // namespace

std::map<std::string, Scenario> allocation_scenarios() {
  return {{"allocations", allocations_of_calls}};
}

}  // namespace mobula::e2e
