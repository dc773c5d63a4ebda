// Calls that are answered later: 1,000 deferred calls in flight, and 1,000 coroutines, next to as
// many ordinary actor calls in the same run.
#include <mobula/awaitable.h>
#include <mobula/mobula.h>

#include <chrono>
#include <utility>
#include <vector>

#include "bench/measure/measure.h"
#include "bench/suite/suite.h"

namespace mobula::bench {
namespace {

class Ordinary {
 public:
  int value() { return ++calls_; }

 private:
  int calls_ = 0;
};

// Answers all calls once as many wait as one batch has.
class Answers {
 public:
  explicit Answers(int batch) : batch_(static_cast<std::size_t>(batch)) {}
  Deferred<int> value() {
    waiting_.emplace_back();
    auto deferred = waiting_.back().get_deferred();
    if (waiting_.size() == batch_) {
      for (auto& each : std::exchange(waiting_, {})) each.set_value(1);
    }
    return deferred;
  }

 private:
  std::size_t batch_;
  std::vector<Promise<int>> waiting_;
};

class Coroutines {
 public:
  Awaitable<int> value() {
    co_await sleep_for(std::chrono::seconds(0));
    co_return 1;
  }
};

template <auto method, class C>
void call_all(const ActorHandle<C>& server, int batch) {
  std::vector<ObjectRef<int>> refs;
  refs.reserve(static_cast<std::size_t>(batch));
  for (int i = 0; i < batch; ++i) refs.push_back(server.template call<method>());
  expect(get(refs).size() == static_cast<std::size_t>(batch), "all values");
}

std::vector<Figure> deferred(const Pace& pace) {
  const auto cluster = init({.address = "local"});
  const int batch = pace.batch(1'000);
  const auto ordinary = actor<Ordinary>.options({.num_cpus = 0}).remote();
  const auto answers = actor<Answers>.options({.num_cpus = 0}).remote(batch);
  const auto coroutines = actor<Coroutines>.options({.num_cpus = 0}).remote();
  const auto turns =
      measure_in_turns(pace, {[&] { call_all<&Ordinary::value>(ordinary, batch); },
                              [&] { call_all<&Answers::value>(answers, batch); },
                              [&] { call_all<&Coroutines::value>(coroutines, batch); }});
  std::vector<Figure> found;
  const auto add = [&](const char* name, const char* key, std::size_t turn) {
    auto rate = figure(name, key, batch * turns.rate(turn), "calls/s");
    put_beside(rate, {"ordinary actor calls", batch * turns.rate(0), "calls/s"}, rate.mean, false);
    rate.largest_ratio = 1 / 0.8;
    found.push_back(rate);
  };
  add("deferred calls, 1,000 in flight", "deferred_calls", 1);
  add("coroutine calls, 1,000 in flight", "coroutine_calls", 2);
  return found;
}

}  // namespace

std::vector<Benchmark> deferred_benchmarks() {
  return {{"deferred", "calls that are answered later, next to ordinary actor calls", deferred}};
}

}  // namespace mobula::bench
