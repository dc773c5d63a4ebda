// docs/api.md, 2.1: streaming calls.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <stdexcept>

#include <mobula/coroutine.h>

#include "contract/detached.h"
#include "contract/local_cluster.h"

namespace mobula::contract::streams {
namespace {

using mobula::testing::becomes_true;
using mobula::testing::Gate;
using mobula::testing::got;
using mobula::testing::is_pending;
using mobula::testing::make_gate;
using mobula::testing::wait_timeout;

using Ints = std::vector<int>;

// A file name that no file has, which is removed at the end.
class Marker {
 public:
  Marker() {
    const int fd = ::mkstemp(path_.data());
    if (fd >= 0) ::close(fd);
    ::unlink(path_.c_str());
  }
  Marker(const Marker&) = delete;
  Marker& operator=(const Marker&) = delete;
  ~Marker() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }
  bool exists() const { return std::filesystem::exists(path_); }
  std::size_t lines() const {
    std::ifstream file(path_);
    std::size_t count = 0;
    for (std::string line; std::getline(file, line);) ++count;
    return count;
  }

 private:
  std::string path_ = "/tmp/mobula-stream-XXXXXX";
};

void append_line(const std::string& path) { std::ofstream(path, std::ios::app) << "line\n"; }

generator<int> count_to(int end) {
  for (int i = 0; i < end; ++i) co_yield i;
}

generator<int> waits_in_the_middle(ActorHandle<Gate> gate) {
  co_yield 1;
  mobula::get(gate.call<&Gate::wait>());
  co_yield 2;
}

generator<int> throws_after(int items) {
  for (int i = 0; i < items; ++i) co_yield i;
  throw std::out_of_range("no more");
}

// Writes a line before each item.
generator<int> counted(std::string path, int end) {
  for (int i = 0; i < end; ++i) {
    append_line(path);
    co_yield i;
  }
}

// Writes a line at its end.
struct WritesAtEnd {
  std::string path;
  ~WritesAtEnd() { append_line(path); }
};
generator<int> endless(std::string path) {
  const WritesAtEnd end{path};
  for (int i = 0;; ++i) co_yield i;
}

// Yields three items and waits for its cancellation.
generator<int> idles(std::string path) {
  const WritesAtEnd end{path};
  for (int i = 0; i < 3; ++i) co_yield i;
  while (!current().cancelled()) ::poll(nullptr, 0, 1);
}

// The first attempt kills its process in the middle.
generator<int> killed_once(std::string path) {
  for (int i = 0; i < 20; ++i) {
    if (i == 10 && current().attempt == 0) ::kill(::getpid(), SIGKILL);
    append_line(path);
    co_yield i;
  }
}
generator<int> killed() {
  co_yield 1;
  co_yield 2;
  ::kill(::getpid(), SIGKILL);
}

generator<std::vector<double>> blocks(int count, std::size_t elements) {
  for (int i = 0; i < count; ++i) co_yield std::vector<double>(elements, i);
}

struct Pair {
  int number = 0;
  ObjectRef<int> ref;
};
int square(int x) { return x * x; }
generator<Pair> pairs(int count) {
  for (int i = 0; i < count; ++i) {
    const Pair pair{i, mobula::task<square>.remote(i)};
    co_yield pair;
  }
}

generator<char> letters(const std::string& text, std::span<const int> order) {
  for (const int index : order) co_yield text[static_cast<std::size_t>(index)];
}

int sum_of(ObjectRefStream<int> stream) {
  int sum = 0;
  for (const auto& ref : stream) sum += mobula::get(ref);
  return sum;
}
int sum_of_refs(std::vector<ObjectRef<int>> refs) {
  const auto values = mobula::get(refs);
  return std::accumulate(values.begin(), values.end(), 0);
}
ObjectRefStream<int> makes_stream(int end) { return mobula::task<count_to>.remote(end); }
int dies_after_two(ObjectRefStream<int> stream) {
  stream.next();
  stream.next();
  ::kill(::getpid(), SIGKILL);
  return 0;
}

class Source {
 public:
  // Dies in the middle of its first attempt.
  generator<int> dies_once(int count) {
    for (int i = 0; i < count; ++i) {
      if (i == count / 2 && current().attempt == 0) ::kill(::getpid(), SIGKILL);
      co_yield i;
    }
  }
  generator<std::vector<ObjectRef<int>>> puts(int count) {
    for (int i = 0; i < count; ++i) co_yield std::vector{mobula::put(i), mobula::put(-i)};
  }
  generator<int> upwards(int count) {
    for (int i = 0; i < count; ++i) co_yield next_++;
  }
  int next() const { return next_; }

 private:
  int next_ = 0;
};

Ints values_of(ObjectRefStream<int>& stream) {
  Ints values;
  while (auto ref = stream.next(wait_timeout)) values.push_back(got(*ref));
  return values;
}
Ints numbers(int end) {
  Ints values(static_cast<std::size_t>(end));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

TEST(ContractStreams, ItemsAreReadableBeforeTheCallEnds) {
  const auto gate = make_gate();
  auto stream = mobula::task<waits_in_the_middle>.remote(gate);
  const auto first = stream.next(wait_timeout);
  ASSERT_TRUE(first);
  EXPECT_EQ(got(*first), 1);
  EXPECT_THROW(stream.next(std::chrono::milliseconds(20)), GetTimeoutError);
  EXPECT_FALSE(stream.ready());
  got(gate.call<&Gate::open>());
  EXPECT_EQ(values_of(stream), Ints{2});
  EXPECT_EQ(stream.next(), std::nullopt) << "the end repeats";
  EXPECT_TRUE(stream.ready());
}

TEST(ContractStreams, RangeAndRestReturnAllItems) {
  Ints seen;
  auto range = mobula::task<count_to>.remote(200);
  for (const auto& ref : range) seen.push_back(got(ref));
  EXPECT_EQ(seen, numbers(200));
  auto rest = mobula::task<count_to>.remote(100);
  std::ignore = rest.next();
  const auto refs = rest.rest();
  EXPECT_EQ(refs.size(), 99u);
  EXPECT_EQ(got(refs.back()), 99);
  auto none = mobula::task<count_to>.remote(0);
  EXPECT_EQ(none.next(wait_timeout), std::nullopt);
}

TEST(ContractStreams, ErrorFollowsTheItemsBeforeIt) {
  auto stream = mobula::task<throws_after>.remote(2);
  EXPECT_EQ(got(*stream.next()), 0);
  EXPECT_EQ(got(*stream.next()), 1);
  EXPECT_THROW(stream.next(), std::out_of_range);
  EXPECT_THROW(stream.next(), std::out_of_range);
  const auto failed = stream.try_next();
  ASSERT_FALSE(failed.has_value());
  EXPECT_NE(std::string(failed.error().what()).find("no more"), std::string::npos);
  EXPECT_THROW(mobula::task<throws_after>.remote(0).next(), std::out_of_range);
}

TEST(ContractStreams, CallWaitsForItsFastestConsumer) {
  const Marker marker;
  // The blocked call has released the CPUs of the node.
  auto stream =
      mobula::task<counted>.options({.num_cpus = 4, .stream_window = 3}).remote(marker.path(), 10);
  EXPECT_EQ(got(mobula::task<square>.options({.num_cpus = 4}).remote(3)), 9);
  EXPECT_EQ(marker.lines(), 4u) << "the fourth item waits in co_yield";
  auto ahead = stream;
  EXPECT_EQ(values_of(ahead), numbers(10));
  EXPECT_EQ(values_of(stream), numbers(10)) << "items stay for slower consumers";
}

TEST(ContractStreams, CopiesAreIndependentConsumers) {
  auto stream = mobula::task<count_to>.remote(300);
  std::ignore = stream.next();
  auto copy = stream;
  EXPECT_EQ(copy, stream);
  const Ints all = numbers(300);
  EXPECT_EQ(values_of(stream), Ints(all.begin() + 1, all.end()));
  EXPECT_EQ(values_of(copy), Ints(all.begin() + 1, all.end()));
}

TEST(ContractStreams, CancelledStreamKeepsItsItems) {
  const Marker marker;
  auto stream = mobula::task<endless>.options({.stream_window = 4}).remote(marker.path());
  EXPECT_EQ(got(*stream.next()), 0);
  auto ahead = stream;
  EXPECT_EQ(got(*ahead.next()), 1);
  stream.cancel();
  EXPECT_TRUE(becomes_true([&] { return marker.exists(); })) << "the coroutine is destroyed";
  EXPECT_EQ(got(*stream.next()), 1);
  EXPECT_THROW(
      {
        while (stream.next(wait_timeout)) {
        }
      },
      TaskCancelledError);
}

TEST(ContractStreams, DroppedStreamCancelsItsCall) {
  const Marker marker;
  auto stream = mobula::task<endless>.options({.stream_window = 4}).remote(marker.path());
  EXPECT_EQ(got(*stream.next()), 0);
  stream = {};
  EXPECT_TRUE(becomes_true([&] { return marker.exists(); }));
}

TEST(ContractStreams, KilledProducerRepeatsNoItem) {
  const Marker marker;
  auto stream = mobula::task<killed_once>.options({.stream_window = 5}).remote(marker.path());
  EXPECT_EQ(values_of(stream), numbers(20));
  EXPECT_EQ(marker.lines(), 30u) << "the coroutine runs from its beginning";
}

TEST(ContractStreams, KilledProducerWithoutRetriesIsAnError) {
  auto stream = mobula::task<killed>.options({.max_retries = 0}).remote();
  EXPECT_EQ(got(*stream.next()), 1);
  EXPECT_EQ(got(*stream.next()), 2);
  EXPECT_THROW(stream.next(), WorkerCrashedError);
}

TEST(ContractStreams, MethodsOfActorsStream) {
  const auto source = mobula::actor<Source>.remote();
  auto first = source.call<&Source::upwards>(100);
  auto second = source.method<&Source::upwards>().options({.stream_window = 2}).remote(3);
  EXPECT_EQ(values_of(first), numbers(100));
  EXPECT_EQ(values_of(second), (Ints{100, 101, 102}));
  EXPECT_EQ(got(source.call<&Source::next>()), 103);
}

TEST(ContractStreams, RestartedActorContinuesItsStream) {
  const auto source =
      mobula::actor<Source>.options({.max_restarts = 1, .max_task_retries = 1}).remote();
  auto stream = source.call<&Source::dies_once>(20);
  EXPECT_EQ(values_of(stream), numbers(20));
  auto fails = mobula::actor<Source>.remote().call<&Source::dies_once>(4);
  EXPECT_EQ(got(*fails.next()), 0);
  EXPECT_EQ(got(*fails.next()), 1);
  EXPECT_THROW(fails.next(), ActorDiedError);
}

TEST(ContractStreams, OtherProcessesReadRefsInItems) {
  const auto source = mobula::actor<Source>.remote();
  auto stream = source.call<&Source::puts>(50);
  std::vector<ObjectRef<int>> sums;
  for (const auto& item : stream) sums.push_back(mobula::task<sum_of_refs>.remote(item));
  for (const auto& sum : sums) EXPECT_EQ(got(sum), 0);
}

TEST(ContractStreams, OtherProcessesConsume) {
  auto stream = mobula::task<count_to>.options({.stream_window = 4}).remote(100);
  const auto other = mobula::task<sum_of>.remote(stream);
  std::ignore = stream.next();
  const auto another = mobula::task<sum_of>.remote(stream);
  EXPECT_EQ(values_of(stream).size(), 99u);
  EXPECT_EQ(got(other), 4950);
  EXPECT_EQ(got(another), 4950);
}

TEST(ContractStreams, StreamsAreReturnedAndPut) {
  auto made = got(mobula::task<makes_stream>.remote(50));
  EXPECT_EQ(values_of(made), numbers(50));
  const auto stored = mobula::put(mobula::task<count_to>.remote(50));
  auto read = got(stored);
  auto again = got(stored);
  EXPECT_EQ(values_of(read), numbers(50));
  EXPECT_EQ(values_of(again), numbers(50));
}

TEST(ContractStreams, KilledConsumerReleasesTheCall) {
  const Marker marker;
  auto stream = mobula::task<idles>.options({.stream_window = 2}).remote(marker.path());
  const auto dies =
      mobula::task<dies_after_two>.options({.max_retries = 0}).remote(std::move(stream));
  stream = {};
  EXPECT_THROW(got(dies), WorkerCrashedError);
  EXPECT_TRUE(becomes_true([&] { return marker.exists(); }));
}

// Reads two items, reports, and waits.
int stops_after_two(ObjectRefStream<int> stream, ActorHandle<Gate> gate, std::string path) {
  const int sum = mobula::get(*stream.next()) + mobula::get(*stream.next());
  append_line(path);
  mobula::get(gate.call<&Gate::wait>());
  return sum;
}

TEST(ContractStreams, OtherProcessesHaveAWindow) {
  const Marker items, taken;
  const auto gate = make_gate();
  auto stream = mobula::task<counted>.options({.stream_window = 4}).remote(items.path(), 100);
  const auto stopped =
      mobula::task<stops_after_two>.options({.num_cpus = 0}).remote(stream, gate, taken.path());
  ASSERT_TRUE(becomes_true([&] { return taken.exists(); }));
  const auto all = mobula::task<sum_of>.options({.num_cpus = 0}).remote(stream);
  EXPECT_TRUE(becomes_true([&] { return items.lines() >= 5; }));
  EXPECT_TRUE(is_pending(all)) << "the other reader has stopped";
  EXPECT_LE(items.lines(), 7u) << "the window, and the item that waits in co_yield";
  got(gate.call<&Gate::open>());
  EXPECT_EQ(got(stopped), 1);
  EXPECT_EQ(got(all), 4950) << "the end of a reader moves the window";
}

TEST(ContractStreams, KilledReaderMovesTheWindow) {
  const Marker items;
  auto stream = mobula::task<counted>.options({.stream_window = 2}).remote(items.path(), 60);
  const auto dies = mobula::task<dies_after_two>.options({.max_retries = 0}).remote(stream);
  EXPECT_THROW(got(dies), WorkerCrashedError);
  const auto all = mobula::task<sum_of>.remote(stream);
  EXPECT_EQ(got(all), 1770);
  EXPECT_EQ(values_of(stream), numbers(60)) << "copies lose no item";
}

// The first attempt kills its process after two items.
int sum_again(ObjectRefStream<int> stream) {
  if (current().attempt == 0) return dies_after_two(std::move(stream));
  return sum_of(std::move(stream));
}

TEST(ContractStreams, RetriedReaderGetsAllItems) {
  auto stream = mobula::task<count_to>.options({.stream_window = 2}).remote(60);
  EXPECT_EQ(got(mobula::task<sum_again>.remote(std::move(stream))), 1770);
}

TEST(ContractStreams, LargeItemsAreReadInPlace) {
  constexpr std::size_t elements = 1 << 17;  // 1 MiB
  auto stream = mobula::task<blocks>.options({.stream_window = 2}).remote(8, elements);
  int index = 0;
  for (const auto& ref : stream) {
    const auto view = mobula::get_view(ref, wait_timeout);
    ASSERT_EQ(view.size(), elements);
    EXPECT_EQ(view[elements - 1], index++);
  }
  EXPECT_EQ(index, 8);
}

TEST(ContractStreams, ItemsOf64MiB) {
  constexpr std::size_t elements = 8 << 20;
  auto stream = mobula::task<blocks>.options({.stream_window = 2}).remote(4, elements);
  int index = 0;
  for (const auto& ref : stream) {
    const auto view = mobula::get_view(ref, wait_timeout);
    ASSERT_EQ(view.size(), elements);
    EXPECT_EQ(view[0], index);
    EXPECT_EQ(view[elements - 1], index++);
  }
  EXPECT_EQ(index, 4);
}

TEST(ContractStreams, ItemsMayContainRefs) {
  auto stream = mobula::task<pairs>.remote(20);
  for (int i = 0; i < 20; ++i) {
    const auto item = stream.next(wait_timeout);
    ASSERT_TRUE(item);
    const Pair pair = got(*item);
    EXPECT_EQ(pair.number, i);
    EXPECT_EQ(got(pair.ref), i * i);
  }
}

TEST(ContractStreams, ParametersLiveAsLongAsTheCoroutine) {
  auto stream = mobula::task<letters>.remote(std::string("abc"), Ints{2, 0, 1});
  std::string text;
  for (const auto& ref : stream) text += got(ref);
  EXPECT_EQ(text, "cab");
}

Detached collect(ObjectRefStream<int>& stream, Ints& values, std::atomic<bool>& ended) {
  while (const auto ref = co_await stream) values.push_back(ref->get());
  ended = true;
}

TEST(ContractStreams, CompletionsReportTheNextItem) {
  const auto gate = make_gate();
  auto stream = mobula::task<waits_in_the_middle>.remote(gate);
  CompletionQueue queue;
  std::array<std::uint64_t, 1> token{};
  queue.add(stream, 1);
  ASSERT_EQ(queue.take(token, wait_timeout), 1u);
  EXPECT_EQ(got(*stream.next(Duration(0))), 1);
  queue.add(stream, 2);
  EXPECT_EQ(queue.take(token), 0u);
  got(gate.call<&Gate::open>());
  ASSERT_EQ(queue.take(token, wait_timeout), 1u);
  EXPECT_EQ(got(*stream.next(Duration(0))), 2);
  auto awaited = mobula::task<count_to>.remote(50);
  Ints values;
  std::atomic<bool> ended = false;
  collect(awaited, values, ended);
  EXPECT_TRUE(becomes_true([&] { return ended.load(); }));
  EXPECT_EQ(values, numbers(50));
}

TEST(ContractStreams, BadUseIsRefused) {
  EXPECT_THROW(mobula::task<count_to>.options({.stream_window = 0}).remote(1), InvalidRequestError);
  EXPECT_THROW(ObjectRefStream<int>().next(), InvalidRequestError);
  auto stream = mobula::task<count_to>.remote(1);
  EXPECT_THROW(stream.next(Duration(-1)), InvalidRequestError);
  const ObjectRefStream<int> wrong(mobula::put(5).anchor());
  EXPECT_THROW(ObjectRefStream<int>(wrong).next(), InvalidRequestError);
}

}  // namespace
}  // namespace mobula::contract::streams
