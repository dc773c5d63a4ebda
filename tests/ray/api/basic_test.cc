// Ray's python/ray/tests/test_basic.py, _2, and _3: their semantic parts.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <deque>
#include <limits>
#include <list>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <variant>

#include "contract/local_cluster.h"

namespace mobula::ray_tests::basic {
namespace {

using mobula::testing::got;
using mobula::testing::make_gate;
using mobula::testing::wait_timeout;

enum class Color { red, green };
struct Point {
  int x = 0;
  double y = 0;
  bool operator==(const Point&) const = default;
};
struct Nested {
  std::string name;
  std::vector<Point> points;
  std::map<std::string, std::optional<Color>> colors;
  bool operator==(const Nested&) const = default;
};

template <class T>
T echo(const T& value) {
  return value;
}

template <class T>
void expect_same_after_a_trip(const T& value) {
  EXPECT_EQ(got(mobula::put(value)), value);
  EXPECT_EQ(got(mobula::task<echo<T>>.remote(value)), value);
}

TEST(test_basic, test_simple_serialization) {
  expect_same_after_a_trip(0);
  expect_same_after_a_trip(std::int64_t{1} << 62);
  expect_same_after_a_trip(std::numeric_limits<std::uint64_t>::max());
  expect_same_after_a_trip(0.9);
  expect_same_after_a_trip(1.9f);
  expect_same_after_a_trip(std::numeric_limits<double>::infinity());
  expect_same_after_a_trip(true);
  expect_same_after_a_trip('a');
  expect_same_after_a_trip(std::string());
  expect_same_after_a_trip(std::string("\xe2\x98\xaf \0 printable", 15));
  expect_same_after_a_trip(std::optional<int>());
  expect_same_after_a_trip(std::vector<int>());
  expect_same_after_a_trip(std::set<std::string>{"a", "b"});
  expect_same_after_a_trip(std::deque<int>{1, 2, 3});
  expect_same_after_a_trip(std::list<double>{1.5, 2.5});
  expect_same_after_a_trip(std::unordered_map<std::string, int>{{"hello", 1}, {"world", 2}});
  EXPECT_TRUE(std::isnan(got(mobula::put(std::nan("")))));
}

TEST(test_basic, test_complex_serialization) {
  expect_same_after_a_trip(Point{1, 2.5});
  expect_same_after_a_trip(
      Nested{"n", {{1, 2}, {3, 4}}, {{"a", Color::green}, {"b", std::nullopt}}});
  expect_same_after_a_trip(std::tuple<int, std::string, Point>{1, "two", {3, 4}});
  expect_same_after_a_trip(std::variant<int, std::string>{"text"});
  expect_same_after_a_trip(std::vector<std::vector<std::vector<int>>>{{{1}, {}}, {}});
  expect_same_after_a_trip(
      std::map<int, std::map<int, std::map<int, std::string>>>{{1, {{2, {{3, "deep"}}}}}});
  expect_same_after_a_trip(std::array<Point, 2>{{{1, 1}, {2, 2}}});
  std::vector<double> large(100 * 100);
  std::iota(large.begin(), large.end(), 0.0);
  expect_same_after_a_trip(large);
}

int returns_two() { return 2; }
std::tuple<int, int> calls_another() { return {1, got(mobula::task<returns_two>.remote())}; }
TEST(test_basic, test_nested_functions) {
  EXPECT_EQ(got(mobula::task<calls_another>.remote()), (std::tuple{1, 2}));
}

struct HoldsRef {
  ObjectRef<int> value;
};
int read_held(const HoldsRef& holder) { return got(holder.value); }
TEST(test_basic, test_putting_object_that_closes_over_object_ref) {
  const auto outer = mobula::put(HoldsRef{mobula::put(17)});
  EXPECT_EQ(got(mobula::task<read_held>.remote(outer)), 17);
  EXPECT_EQ(got(got(outer).value), 17);
}

TEST(test_basic, test_put_get) {
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(got(mobula::put(i * 1'000'000)), i * 1'000'000);
    EXPECT_EQ(got(mobula::put(i * 1e6)), i * 1e6);
    EXPECT_EQ(got(mobula::put(std::string(static_cast<std::size_t>(i), 'h'))).size(),
              static_cast<std::size_t>(i));
    EXPECT_EQ(got(mobula::put(std::vector<int>(static_cast<std::size_t>(i), 1))).size(),
              static_cast<std::size_t>(i));
  }
}

int add(int a, int b) { return a + b; }
TEST(test_basic, test_multithreading) {
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&right, t] {
      std::vector<ObjectRef<int>> refs;
      for (int i = 0; i < 50; ++i) refs.push_back(mobula::task<add>.remote(t, i));
      for (int i = 0; i < 50; ++i) right += got(refs[static_cast<std::size_t>(i)]) == t + i;
    });
  }
  for (auto& each : threads) each.join();
  EXPECT_EQ(right, 400);
}

TEST(test_basic, test_wait) {
  const auto gate = make_gate();
  const auto quick = mobula::put(1 == 1);
  const auto slow = gate.call<&mobula::testing::Gate::wait>();
  const auto [ready, pending] = mobula::wait({slow, quick}, {.timeout = wait_timeout});
  EXPECT_EQ(ready, std::vector{quick});
  EXPECT_EQ(pending, std::vector{slow});
  const auto late =
      mobula::wait({slow, quick}, {.num_returns = 2, .timeout = std::chrono::milliseconds(50)});
  EXPECT_EQ(late.ready.size(), 1u);
  EXPECT_EQ(late.pending.size(), 1u);
  gate.call<&mobula::testing::Gate::open>();
  EXPECT_EQ(mobula::wait({slow, quick}, {.num_returns = 2, .timeout = wait_timeout}).ready,
            (std::vector{slow, quick}));
  EXPECT_THROW((void)mobula::wait({quick}, {.num_returns = 0}), InvalidRequestError);
  EXPECT_THROW((void)mobula::wait({quick}, {.num_returns = 2}), InvalidRequestError);
  EXPECT_THROW((void)mobula::wait(std::vector<ObjectRef<bool>>{}), InvalidRequestError);
}

// Ray rejects a list that names an object twice.
TEST(test_basic, test_wait_duplicates) {
  const auto one = mobula::put(1);
  EXPECT_EQ(mobula::wait({one, one}, {.num_returns = 2, .timeout = wait_timeout}).ready.size(), 2u);
}

TEST(test_basic, test_get_multiple) {
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < 10; ++i) refs.push_back(mobula::put(i));
  std::vector<int> expected(10);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(got(refs), expected);
  const std::vector<ObjectRef<int>> twice{refs[3], refs[3], refs[1]};
  EXPECT_EQ(got(twice), (std::vector{3, 3, 1}));
  EXPECT_TRUE(mobula::get(std::vector<ObjectRef<int>>{}).empty());
}

TEST(test_basic, test_get_with_timeout) {
  const auto gate = make_gate();
  const auto later = gate.call<&mobula::testing::Gate::wait>();
  EXPECT_THROW((void)mobula::get(later, std::chrono::milliseconds(50)), GetTimeoutError);
  EXPECT_THROW((void)mobula::get(later, std::chrono::seconds(0)), GetTimeoutError);
  EXPECT_THROW((void)mobula::get(later, std::chrono::seconds(-1)), InvalidRequestError);
  gate.call<&mobula::testing::Gate::open>();
  EXPECT_TRUE(got(later));
  EXPECT_TRUE(mobula::get(later, std::chrono::seconds(0))) << "a value that is ready needs no time";
}

std::tuple<int, int, int> three() { return {1, 2, 3}; }
TEST(test_basic, test_multiple_returns) {
  const auto [a, b, c] = mobula::task<three>.options({.num_returns = 3}).split().remote();
  EXPECT_EQ(got(std::vector{a, b, c}), (std::vector{1, 2, 3}));
  EXPECT_THROW((void)mobula::task<three>.options({.num_returns = 2}).split().remote(),
               InvalidRequestError);
}

int same_twice(int a, ObjectRef<int> first, ObjectRef<int> second) {
  return a + (first == second ? got(first) : 0);
}
TEST(test_basic, test_duplicate_args) {
  const auto ref = mobula::put(5);
  EXPECT_EQ(got(mobula::task<same_twice>.remote(ref, ref, ref)), 10);
  EXPECT_EQ(got(mobula::task<add>.remote(ref, ref)), 10);
}

int next(int x) { return x + 1; }
TEST(test_basic, test_call_chain) {
  auto ref = mobula::put(0);
  for (int i = 0; i < 100; ++i) ref = mobula::task<next>.remote(ref);
  EXPECT_EQ(got(ref), 100);
}

using Large = std::vector<double>;
Large make_large(std::size_t count) { return Large(count, 1); }
double sum(View<Large> values) { return std::accumulate(values.begin(), values.end(), 0.0); }
class Store {
 public:
  Large make(std::size_t count) { return make_large(count); }
  double total(View<Large> values) { return sum(values); }
};
TEST(test_basic, test_call_matrix) {
  constexpr std::size_t count = 100'000;
  const auto actor = mobula::actor<Store>.remote();
  const auto by_task = mobula::task<make_large>.remote(count);
  const auto by_actor = actor.call<&Store::make>(count);
  EXPECT_EQ(got(mobula::task<sum>.remote(by_task)), count);
  EXPECT_EQ(got(mobula::task<sum>.remote(by_actor)), count);
  EXPECT_EQ(got(actor.call<&Store::total>(by_task)), count);
  EXPECT_EQ(got(actor.call<&Store::total>(by_actor)), count);
}

int recursive(int depth) {
  return depth == 0 ? 1 : 2 * got(mobula::task<recursive>.remote(depth - 1));
}
TEST(test_basic, test_recursive_remote_call) {
  EXPECT_EQ(got(mobula::task<recursive>.remote(7)), 128);
}

std::vector<ObjectRef<int>> many_refs() {
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < 20; ++i) refs.push_back(mobula::put(i));
  return refs;
}
TEST(test_basic, test_returned_refs_stay_readable) {
  const auto refs = got(mobula::task<many_refs>.remote());
  int sum_of_all = 0;
  for (const int each : got(refs)) sum_of_all += each;
  EXPECT_EQ(sum_of_all, 190);
}

std::int64_t own_pid() { return ::getpid(); }
TEST(test_basic, test_tasks_run_in_other_processes) {
  EXPECT_NE(got(mobula::task<own_pid>.remote()), ::getpid());
}

}  // namespace
}  // namespace mobula::ray_tests::basic
