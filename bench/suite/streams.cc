// Streaming calls: small items next to calls of an actor, and items of 64 MiB next to `put`.
#include <mobula/mobula.h>

#include <tuple>

#include "bench/measure/measure.h"
#include "bench/suite/suite.h"

namespace mobula::bench {
namespace {

constexpr std::size_t large_bytes = std::size_t{64} << 20;

generator<int> small_items(int count) {
  for (int i = 0; i < count; ++i) co_yield i;
}

// One buffer for all items, and one process for all streams, so that only the store is measured:
// `put` also writes to warm pages.
class LargeSource {
 public:
  generator<std::vector<char>> items(int count) {
    for (int i = 0; i < count; ++i) co_yield item_;
  }

 private:
  std::vector<char> item_ = std::vector<char>(large_bytes, 'x');
};

class Counter {
 public:
  int next() { return ++value_; }

 private:
  int value_ = 0;
};

void read_small_items(int count) {
  auto stream = task<small_items>.remote(count);
  int seen = 0;
  for (const auto& ref : stream) seen += get(ref) == seen ? 1 : 0;
  expect(seen == count, "all items in order");
}

void call_actor(const ActorHandle<Counter>& counter, int count) {
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < count; ++i) refs.push_back(counter.call<&Counter::next>());
  expect(get(refs).size() == static_cast<std::size_t>(count), "all calls");
}

void read_large_items(const ActorHandle<LargeSource>& source, int count) {
  auto stream = source.method<&LargeSource::items>().options({.stream_window = 2}).remote(count);
  int seen = 0;
  for (const auto& ref : stream) seen += get_view(ref).size() == large_bytes ? 1 : 0;
  expect(seen == count, "all items");
}

std::vector<Figure> streams(const Pace& pace) {
  std::vector<Figure> found;
  const auto cluster = init({.address = "local"});
  const int count = pace.batch(10'000);
  const auto counter = actor<Counter>.remote();
  const auto small = measure_in_turns(
      pace, {[&] { call_actor(counter, count); }, [count] { read_small_items(count); }});
  auto items =
      figure("small items of a stream", "stream_small_items", count * small.rate(1), "items/s");
  put_beside(items, {"calls of an actor", count * small.rate(0), "calls/s"}, items.mean, false);
  found.push_back(items);
  const int few = pace.batch(16);
  const auto source = actor<LargeSource>.remote();
  const std::vector<char> value(large_bytes, 'x');
  const auto large = measure_in_turns(pace, {[&] {
                                               for (int i = 0; i < few; ++i)
                                                 std::ignore = put(value);
                                             },
                                             [&] { read_large_items(source, few); }});
  auto bytes = figure("items of 64 MiB", "stream_large_items", few * large.rate(1) / 16, "GiB/s");
  put_beside(bytes, {"put of 64 MiB", few * large.rate(0) / 16, "GiB/s"}, bytes.mean, false);
  found.push_back(bytes);
  return found;
}

}  // namespace

std::vector<Benchmark> stream_benchmarks() {
  return {{"streams", "items of a streaming call, next to actor calls and to put", streams}};
}

}  // namespace mobula::bench
