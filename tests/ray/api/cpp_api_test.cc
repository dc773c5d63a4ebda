// Ray's cpp/src/ray/test: api_test, ray_remote_test, and slow_function_test. Each test has Ray's
// file as its suite and Ray's name; tests/ray/parity.md has the table.
#include <gtest/gtest.h>

#include <future>
#include <stdexcept>
#include <thread>

#include "contract/local_cluster.h"

namespace mobula::ray_tests::cpp_api {
namespace {

using mobula::testing::got;
using mobula::testing::make_gate;
using mobula::testing::wait_timeout;

int return_one() { return 1; }
int plus_one(int x) { return x + 1; }
int plus(int x, int y) { return x + y; }
int plus_three(int a, int b, int c) { return a + b + c; }
std::string greet(ObjectRef<std::string> name) { return "hello " + got(name); }
int unwrap_twice(ObjectRef<ObjectRef<int>> outer) { return got(got(outer)); }
int sum_of_refs(std::vector<ObjectRef<int>> refs) {
  int sum = 0;
  for (const int each : got(refs)) sum += each;
  return sum;
}
bool waits_inside(std::vector<ObjectRef<bool>> later) {
  return mobula::wait(later, {.timeout = wait_timeout}).ready.size() == 1;
}

class Counter {
 public:
  Counter() = default;
  explicit Counter(int start) : value_(start) {}
  int add(int by) { return value_ += by; }
  int get() const { return value_; }
  int add_two(int a, int b) { return value_ += a + b; }

 private:
  int value_ = 0;
};

TEST(api_test, PutTest) { EXPECT_EQ(got(mobula::put(1)), 1); }

TEST(api_test, StaticGetTest) {
  const std::vector<ObjectRef<int>> refs{mobula::put(3), mobula::put(1), mobula::put(2)};
  EXPECT_EQ(got(refs), (std::vector<int>{3, 1, 2}));
}

TEST(api_test, WaitTest) {
  const std::vector<ObjectRef<int>> refs{mobula::task<return_one>.remote(),
                                         mobula::task<plus_one>.remote(3),
                                         mobula::task<plus>.remote(2, 3)};
  const auto [ready, pending] = mobula::wait(refs, {.num_returns = 3, .timeout = wait_timeout});
  EXPECT_EQ(got(ready), (std::vector<int>{1, 4, 5}));
  EXPECT_TRUE(pending.empty());
}

TEST(api_test, ObjectRefArgsTest) {
  const auto name = mobula::put(std::string("ray"));
  EXPECT_EQ(got(mobula::task<greet>.remote(name)), "hello ray");
  EXPECT_EQ(got(mobula::task<unwrap_twice>.remote(mobula::put(mobula::put(7)))), 7);
  EXPECT_EQ(got(mobula::task<sum_of_refs>.remote(std::vector{mobula::put(1), mobula::put(2)})), 3);
  const auto gate = make_gate();
  const auto waits =
      mobula::task<waits_inside>.remote(std::vector{gate.call<&mobula::testing::Gate::wait>()});
  gate.call<&mobula::testing::Gate::open>();
  EXPECT_TRUE(got(waits));
}

TEST(api_test, CallWithValueTest) {
  EXPECT_EQ(got(mobula::task<return_one>.remote()), 1);
  EXPECT_EQ(got(mobula::task<plus_one>.remote(3)), 4);
  EXPECT_EQ(got(mobula::task<plus>.remote(2, 3)), 5);
  EXPECT_EQ(got(mobula::task<plus_three>.remote(1, 2, 3)), 6);
}

TEST(api_test, CallWithObjectTest) {
  const auto one = mobula::task<return_one>.remote();
  const auto two = mobula::task<plus_one>.remote(one);
  const auto three = mobula::task<plus>.remote(one, two);
  EXPECT_EQ(got(three), 3);
  EXPECT_EQ(got(mobula::task<plus>.remote(three, 4)), 7);
}

TEST(api_test, CompareWithFuture) {
  std::packaged_task<int(int)> local(plus_one);
  auto expected = local.get_future();
  std::thread thread(std::move(local), 1);
  thread.join();
  EXPECT_EQ(got(mobula::task<plus_one>.remote(1)), expected.get());
  EXPECT_EQ(got(mobula::task<return_one>.remote()), std::async(return_one).get());
}

TEST(api_test, ActorTest) {
  const auto counter = mobula::actor<Counter>.remote(mobula::task<return_one>.remote());
  EXPECT_EQ(got(counter.call<&Counter::add>(5)), 6);
  EXPECT_EQ(got(counter.call<&Counter::add>(counter.call<&Counter::get>())), 12);
  EXPECT_EQ(got(counter.call<&Counter::add_two>(mobula::put(1), 2)), 15);
}

TEST(api_test, GetActorTest) {
  const auto counter = mobula::actor<Counter>.options({.name = "named_actor"}).remote(1);
  EXPECT_EQ(got(counter.call<&Counter::add>(0)), 1);
  const auto found = mobula::get_actor<Counter>("named_actor");
  EXPECT_EQ(found, counter);
  EXPECT_EQ(got(found.call<&Counter::add>(2)), 3);
  EXPECT_THROW((void)mobula::get_actor<Counter>("not_exist_actor"), NotFoundError);
}

TEST(api_test, CreateAndRemovePlacementGroup) {
  const auto group = mobula::placement_group({{{"CPU", 1}}});
  EXPECT_TRUE(group.wait(wait_timeout));
  mobula::remove_placement_group(group);
  EXPECT_THROW((void)group.wait(wait_timeout), PlacementGroupRemovedError);
}

void returns_nothing() {}
void throws_logic_error() { throw std::logic_error("the reply is no"); }
std::size_t by_rvalue(std::string&& text) { return std::move(text).size(); }
std::size_t by_const_reference(const std::string& text) { return text.size(); }
int overload(int x) { return x; }
std::string overload(const std::string& text) { return text + "!"; }

struct Shape {
  virtual ~Shape() = default;
  virtual std::string name() { return "shape"; }
  int sides() const { return sides_; }
  int sides_ = 0;
};
class Square : public Shape {
 public:
  Square() { sides_ = 4; }
  std::string name() override { return "square"; }
  int twice(int x) { return 2 * x; }
  int twice(int x, int y) { return 2 * (x + y); }
  int length(const std::string& text) { return static_cast<int>(text.size()); }
};
class Stranger {
 public:
  virtual ~Stranger() = default;
  virtual std::string name() { return "stranger"; }
};

TEST(ray_remote_test, NormalTask) {
  EXPECT_EQ(got(mobula::task<plus>.remote(4, 5)), 9);
  EXPECT_EQ(got(mobula::task<[](int x) { return x * x; }>.remote(4)), 16);
}

TEST(ray_remote_test, VoidFunction) {
  const ObjectRef<void> done = mobula::task<returns_nothing>.remote();
  EXPECT_NO_THROW(got(done));
}

TEST(ray_remote_test, ReferenceArgs) {
  EXPECT_EQ(got(mobula::task<by_rvalue>.remote(std::string("four"))), 4u);
  EXPECT_EQ(got(mobula::task<by_const_reference>.remote(mobula::put(std::string("three")))), 5u);
}

TEST(ray_remote_test, VirtualFunctions) {
  const auto square = mobula::actor<Square>.remote();
  EXPECT_EQ(got(square.call<&Shape::name>()), "square");
  EXPECT_EQ(got(square.call<&Square::name>()), "square");
  EXPECT_EQ(got(square.call<&Shape::sides>()), 4);
  const auto stranger = mobula::actor<Stranger>.remote();
  EXPECT_EQ(got(stranger.call<&Stranger::name>()), "stranger");
}

TEST(ray_remote_test, CallWithObjectRef) {
  const auto square = mobula::actor<Square>.remote();
  const auto text = mobula::put(std::string("abc"));
  EXPECT_EQ(got(square.call<&Square::length>(text)), 3);
}

TEST(ray_remote_test, OverloadTest) {
  EXPECT_EQ(got(mobula::task<static_cast<int (*)(int)>(overload)>.remote(3)), 3);
  EXPECT_EQ(
      got(mobula::task<static_cast<std::string (*)(const std::string&)>(overload)>.remote("a")),
      "a!");
  const auto square = mobula::actor<Square>.remote();
  EXPECT_EQ(got(square.call_as<int(int), &Square::twice>(3)), 6);
  EXPECT_EQ(got(square.call_as<int(int, int), &Square::twice>(3, 4)), 14);
}

TEST(ray_remote_test, ExceptionTask) {
  const auto failed = mobula::task<throws_logic_error>.remote();
  try {
    got(failed);
    FAIL() << "no exception";
  } catch (const std::logic_error& error) {
    EXPECT_NE(std::string(error.what()).find("the reply is no"), std::string::npos) << error.what();
  }
}

int meets(ActorHandle<mobula::testing::Gate> gate) {
  gate.call<&mobula::testing::Gate::waiters_after>(1);
  return got(gate.call<&mobula::testing::Gate::wait>()) ? 1 : 0;
}

// Ray's test measures the time of four slow tasks; here all four run at the same time or none
// finishes.
TEST(slow_function_test, BaseTest) {
  const auto gate = make_gate();
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < 4; ++i) refs.push_back(mobula::task<meets>.remote(gate));
  EXPECT_TRUE(mobula::testing::becomes_true(
      [&] { return got(gate.call<&mobula::testing::Gate::waiters_after>(0)) == 4; }));
  gate.call<&mobula::testing::Gate::open>();
  EXPECT_EQ(got(refs), (std::vector<int>{1, 1, 1, 1}));
}

}  // namespace
}  // namespace mobula::ray_tests::cpp_api
