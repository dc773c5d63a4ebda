// Calls of another program next to calls of the same function or method in this program: methods by
// name, functions by name, and untyped calls of methods and functions with neutral values.
// Usage: mobula-bench-services [--quick] [TEXT]
//   TEXT  only rows whose name contains it
// The exit code is 1 if the median of a ratio exceeds its limit, unless --quick is given.
#include <mobula/function.h>
#include <mobula/mobula.h>
#include <mobula/neutral.h>
#include <mobula/service.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/echo.h"
#include "bench/measure/local_nodes.h"
#include "bench/measure/measure.h"

MOBULA_DECLARED_ONLY(RemoteEcho)

namespace {

using namespace std::chrono_literals;
using mobula::bench::expect;

constexpr int batch = 2'000;
// Turns of 20 ms: other load on the machine changes less from a turn to the next one. Not for
// functions, because the CPU moves to the executor of the other program in each turn.
constexpr int turns_of_methods = 100;
constexpr double largest_ratio = 1.5;  // time of a call of another program to one within a program

class LocalEcho {
 public:
  int next(int x) { return x + 1; }
};

template <auto Method, class Actor>
void call_one(const mobula::ActorHandle<Actor>& actor) {
  expect(mobula::get(actor.template call<Method>(1)) == 2, "the next number");
}

template <auto Method, class Actor>
void call_batch(const mobula::ActorHandle<Actor>& actor) {
  std::vector<mobula::ObjectRef<int>> refs;
  refs.reserve(batch);
  for (int i = 0; i < batch; ++i) refs.push_back(actor.template call<Method>(i));
  expect(mobula::get(refs).back() == batch, "the last number");
}

namespace dynamic = mobula::dynamic;

template <class Submit>
void call_neutral(int calls, const Submit& submit) {
  std::vector<mobula::AnyRef> refs;
  refs.reserve(static_cast<std::size_t>(calls));
  for (int i = 0; i < calls; ++i) {
    const dynamic::Payload value = dynamic::neutral_payload(i);
    const dynamic::Argument argument{.value = &value};
    refs.push_back(submit(std::span(&argument, 1))[0]);
  }
  const auto fetched = dynamic::get(refs);
  const auto& last = std::get<dynamic::StoredPayload>(fetched.back());
  expect(dynamic::neutral_value(last) == dynamic::NeutralValue(calls), "the last number");
}

int next_of_task(int x) { return x + 1; }

template <class Task>
void call_tasks(int calls, const Task& task) {
  std::vector<mobula::ObjectRef<int>> refs;
  refs.reserve(static_cast<std::size_t>(calls));
  for (int i = 0; i < calls; ++i) refs.push_back(task.remote(i));
  expect(mobula::get(refs).back() == calls, "the last number");
}

// Prints the row, and returns whether it is within the limit.
bool print(const char* name, const mobula::bench::Turns& turns, double calls) {
  const auto ratio = turns.time_over(1, 0);
  std::printf(
      "%-24s %10.4g calls/s, within one program %10.4g calls/s, ratio of times %.3f "
      "(quartiles %.3f, %.3f)\n",
      name, calls * turns.rate(1), calls * turns.rate(0), ratio.median, ratio.low, ratio.high);
  std::fflush(stdout);
  return ratio.median <= largest_ratio;
}

// Returns whether all rows are within the limit.
bool measure(const mobula::bench::Pace& pace, std::string_view only) {
  const mobula::bench::LocalNodes nodes(1);
  const std::string service =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "mobula-bench-echo")
          .string();
  expect(std::system(service.c_str()) == 0, "the service starts");
  const auto cluster = mobula::init();
  const auto local = mobula::actor<LocalEcho>.options({.num_cpus = 0}).remote();
  const auto remote = mobula::get_actor<RemoteEcho>("echo", "bench");
  const mobula::AnyActor untyped(remote);
  const auto of_method = [&](std::span<const dynamic::Argument> arguments) {
    return dynamic::call(untyped, {.name = "next"}, {}, arguments);
  };
  const auto of_function = [&](std::span<const dynamic::Argument> arguments) {
    return dynamic::submit({.name = "next_number", .program = "bench echo"}, {}, arguments);
  };
  bool within = true;
  const auto row = [&](const char* name, int calls, int turns, const std::function<void()>& inside,
                       const std::function<void()>& across) {
    if (std::string_view(name).find(only) == std::string_view::npos) return;
    within &= print(name, mobula::bench::measure_in_turns(pace, {inside, across}, turns), calls);
  };
  row(
      "calls one by one", 1, turns_of_methods, [&] { call_one<&LocalEcho::next>(local); },
      [&] { call_one<&RemoteEcho::next>(remote); });
  row(
      "2,000 calls at once", batch, turns_of_methods, [&] { call_batch<&LocalEcho::next>(local); },
      [&] { call_batch<&RemoteEcho::next>(remote); });
  row(
      "neutral method", 1, turns_of_methods, [&] { call_one<&LocalEcho::next>(local); },
      [&] { call_neutral(1, of_method); });
  row(
      "2,000 neutral methods", batch, turns_of_methods,
      [&] { call_batch<&LocalEcho::next>(local); }, [&] { call_neutral(batch, of_method); });
  const auto& own = mobula::task<next_of_task>;
  const auto named = mobula::function<int(int)>("next_number", "bench echo");
  row(
      "function", 1, mobula::bench::turns_in_run, [&] { call_tasks(1, own); },
      [&] { call_tasks(1, named); });
  row(
      "2,000 functions", batch, mobula::bench::turns_in_run, [&] { call_tasks(batch, own); },
      [&] { call_tasks(batch, named); });
  row(
      "neutral function", 1, mobula::bench::turns_in_run, [&] { call_tasks(1, own); },
      [&] { call_neutral(1, of_function); });
  row(
      "2,000 neutral functions", batch, mobula::bench::turns_in_run,
      [&] { call_tasks(batch, own); }, [&] { call_neutral(batch, of_function); });
  return within;
}

}  // namespace

int main(int argc, char** argv) try {
  if (mobula::in_executor()) const auto cluster = mobula::init();
  mobula::bench::Pace pace{.settle = 1s};
  bool is_quick = false;
  std::string_view only;
  for (const std::string_view each : std::span(argv, static_cast<std::size_t>(argc)).subspan(1)) {
    if (each == "--quick") {
      is_quick = true;
      pace = {.settle = 0ms, .run = 200ms};
    } else {
      only = each;
    }
  }
  return measure(pace, only) || is_quick ? 0 : 1;
} catch (const std::exception& why) {
  std::fprintf(stderr, "mobula-bench-services: %s\n", why.what());
  return 1;
}
