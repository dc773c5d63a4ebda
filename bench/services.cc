// Calls of a method by name, in an actor of another program, next to calls of the same method in an
// actor of this program.
// Usage: mobula-bench-services [--quick]
#include <mobula/mobula.h>
#include <mobula/service.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "bench/echo.h"
#include "bench/local_nodes.h"
#include "bench/measure.h"

MOBULA_DECLARED_ONLY(RemoteEcho)

namespace {

using namespace std::chrono_literals;
using mobula::bench::expect;

constexpr int batch = 2'000;

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

void print(const char* name, const mobula::bench::Turns& turns, double calls) {
  const auto ratio = turns.time_over(1, 0);
  std::printf(
      "%-24s %10.4g calls/s, within one program %10.4g calls/s, ratio of times %.3f "
      "(quartiles %.3f, %.3f)\n",
      name, calls * turns.rate(1), calls * turns.rate(0), ratio.median, ratio.low, ratio.high);
  std::fflush(stdout);
}

void measure(const mobula::bench::Pace& pace) {
  const mobula::bench::LocalNodes nodes(1);
  const std::string service =
      (std::filesystem::read_symlink("/proc/self/exe").parent_path() / "mobula-bench-echo")
          .string();
  expect(std::system(service.c_str()) == 0, "the service starts");
  const auto cluster = mobula::init();
  const auto local = mobula::actor<LocalEcho>.options({.num_cpus = 0}).remote();
  const auto remote = mobula::get_actor<RemoteEcho>("echo", "bench");
  const auto one = mobula::bench::measure_in_turns(
      pace,
      {[&] { call_one<&LocalEcho::next>(local); }, [&] { call_one<&RemoteEcho::next>(remote); }});
  print("calls one by one", one, 1);
  const auto many =
      mobula::bench::measure_in_turns(pace, {[&] { call_batch<&LocalEcho::next>(local); },
                                             [&] { call_batch<&RemoteEcho::next>(remote); }});
  print("2,000 calls at once", many, batch);
}

}  // namespace

int main(int argc, char** argv) try {
  if (mobula::in_executor()) const auto cluster = mobula::init();
  mobula::bench::Pace pace{.settle = 1s};
  if (argc > 1 && std::string_view(argv[1]) == "--quick") pace = {.settle = 0ms, .run = 200ms};
  measure(pace);
} catch (const std::exception& why) {
  std::fprintf(stderr, "mobula-bench-services: %s\n", why.what());
  return 1;
}
