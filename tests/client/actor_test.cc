#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <mobula/mobula.h>

#include "client/fake_runtime.h"

namespace {

using mobula::ActorHandle;
using mobula::ObjectRef;
using mobula::testing::Installed;

class Base {
 public:
  virtual ~Base() = default;
  int twice(int x) const { return 2 * x; }
  virtual std::string name() { return "base"; }
};

class Counter : public Base {
 public:
  explicit Counter(int start) : value_(start) {}
  int add(int by) { return value_ += by; }
  int value() const noexcept { return value_; }
  void reset() & { value_ = 0; }
  std::string name() override { return "counter"; }
  std::tuple<int, int> minmax() const { return {-value_, value_}; }
  int over(int x) { return x; }
  std::string over(const std::string& text) { return text; }
  int over(int x, int y) const { return x + y; }
  std::unique_ptr<int> owned() { return std::make_unique<int>(value_); }
  void fail() { throw std::runtime_error("failed"); }
  void leave() { mobula::exit_actor(); }
  int value_of(ActorHandle<Counter> other) { return other.call<&Counter::value>().get(); }

 private:
  int value_;
};

TEST(Actor, RunsMethodsInOrder) {
  Installed runtime;
  auto counter = mobula::actor<Counter>.options({.max_restarts = 3}).remote(10);
  EXPECT_EQ(mobula::get(counter.call<&Counter::add>(5)), 15);
  EXPECT_EQ(counter.call<&Counter::value>().get(), 15);
  counter.call<&Counter::reset>().get();
  EXPECT_EQ(counter.call<&Counter::value>().get(), 0);
  EXPECT_EQ(runtime->last_actor->max_restarts, 3);
}

TEST(Actor, CallsInheritedAndVirtualMethods) {
  Installed runtime;
  auto counter = mobula::actor<Counter>.remote(1);
  EXPECT_EQ(counter.call<&Counter::twice>(4).get(), 8);
  EXPECT_EQ(counter.call<&Base::twice>(5).get(), 10);
  EXPECT_EQ(counter.call<&Base::name>().get(), "counter");
}

TEST(Actor, PicksOverloadsBySignature) {
  Installed runtime;
  auto counter = mobula::actor<Counter>.remote(1);
  EXPECT_EQ((counter.call_as<int(int), &Counter::over>(3).get()), 3);
  EXPECT_EQ((counter.call_as<std::string(const std::string&), &Counter::over>("x").get()), "x");
  EXPECT_EQ((counter.call_as<int(int, int) const, &Counter::over>(1, 2).get()), 3);
  EXPECT_EQ((counter.method_as<int(int), &Counter::over>().options({.name = "n"}).remote(3).get()),
            3);
}

TEST(Actor, AcceptsRefsAndSplitsResults) {
  Installed runtime;
  auto counter = mobula::actor<Counter>.remote(mobula::put(7));
  EXPECT_EQ(counter.call<&Counter::add>(mobula::put(1)).get(), 8);
  const auto [low, high] = counter.method<&Counter::minmax>().split().remote();
  EXPECT_EQ(low.get(), -8);
  EXPECT_EQ(high.get(), 8);
  EXPECT_EQ(*counter.call<&Counter::owned>().get(), 8);
}

TEST(Actor, PassesCallOptions) {
  Installed runtime;
  auto counter = mobula::actor<Counter>.remote(1);
  const auto call =
      counter.method<&Counter::add>().options({.name = "plus", .max_task_retries = 2});
  EXPECT_EQ(call.remote(1).get(), 2);
  EXPECT_EQ(runtime->last_call->name, "plus");
  EXPECT_EQ(runtime->last_call->max_task_retries, 2);
  EXPECT_THROW(counter.method<&Counter::add>().options({.max_task_retries = -2}).remote(1),
               mobula::InvalidRequestError);
  EXPECT_THROW(counter.method<&Counter::add>().options({.num_returns = 2}).remote(1),
               mobula::InvalidRequestError);
}

TEST(Actor, CountsForwardedHandles) {
  Installed runtime;
  {
    auto first = mobula::actor<Counter>.remote(1);
    auto second = mobula::actor<Counter>.remote(2);
    const auto copy = first;
    EXPECT_EQ(copy, first);
    EXPECT_NE(first, second);
    EXPECT_EQ(runtime->actors.size(), 2u);
    EXPECT_EQ(first.call<&Counter::value_of>(second).get(), 2);
    struct Team {
      std::string name;
      std::vector<ActorHandle<Counter>> members;
    };
    const auto team = mobula::put(Team{"t", {first, second}});
    EXPECT_EQ(team.get().members[1].call<&Counter::value>().get(), 2);
    EXPECT_EQ(runtime->actors.at(first.raw_id()).count, 2);
  }
  EXPECT_TRUE(runtime->actors.empty());
}

TEST(Actor, FindsActorByNameAndClass) {
  Installed runtime;
  auto counter = mobula::actor<Counter>.options({.name = "c"}).remote(5);
  EXPECT_EQ(mobula::get_actor<Counter>("c"), counter);
  EXPECT_THROW(mobula::get_actor<Counter>("d"), mobula::NotFoundError);
  EXPECT_THROW(mobula::get_actor<Base>("c"), mobula::InvalidRequestError);
  EXPECT_EQ(mobula::list_named_actors(), std::vector<std::string>{"c"});
  EXPECT_EQ(mobula::actor<Counter>.options({.name = "c", .get_if_exists = true}).remote(1),
            counter);
  EXPECT_EQ(runtime->actors.size(), 1u);
}

TEST(Actor, ReportsDeath) {
  Installed runtime;
  auto counter = mobula::actor<Counter>.remote(1);
  EXPECT_THROW(counter.call<&Counter::fail>().get(), std::runtime_error);
  mobula::kill(counter);
  EXPECT_THROW(counter.call<&Counter::value>().get(), mobula::ActorDiedError);
  EXPECT_THROW(ActorHandle<Counter>().call<&Counter::value>(), mobula::InvalidRequestError);
}

TEST(Actor, EndsItself) {
  Installed runtime;
  runtime->in_actor = true;
  auto counter = mobula::actor<Counter>.remote(1);
  EXPECT_THROW(counter.call<&Counter::leave>().get(), mobula::ActorDiedError);
  runtime->in_actor = false;
  EXPECT_THROW(mobula::exit_actor(), mobula::InvalidRequestError);
}

class Strict {
 public:
  explicit Strict(int value) {
    if (value < 0) throw std::invalid_argument("negative");
  }
  int ok() { return 1; }
};

TEST(Actor, ConstructorFailed_CallsFail) {
  Installed runtime;
  auto strict = mobula::actor<Strict>.remote(-1);
  EXPECT_THROW(strict.call<&Strict::ok>().get(), std::invalid_argument);
}

// An actor whose constructor takes refs.
class Keeper {
 public:
  Keeper(ObjectRef<int> ref, double scale, std::string name)
      : text_("ref " + std::to_string(ref.get())), scale_(scale), name_(std::move(name)) {}
  Keeper(int first, ObjectRef<int> second)
      : text_(std::to_string(first) + ", ref " + std::to_string(second.get())) {}
  explicit Keeper(const std::map<std::string, ObjectRef<int>>& refs) : text_(refs.begin()->first) {}
  explicit Keeper(std::string_view text) : text_(text) {}
  explicit Keeper(mobula::View<std::vector<int>> view) : text_(std::to_string(view.size())) {}
  std::string text() const { return text_ + name_ + (scale_ > 1 ? "!" : ""); }

 private:
  std::string text_;
  double scale_ = 0;
  std::string name_;
};

TEST(ActorConstructor, PassesRefToRefParameter) {
  Installed runtime;
  const auto three = mobula::put(3);
  EXPECT_EQ(mobula::actor<Keeper>.remote(three, 1, "x").call<&Keeper::text>().get(), "ref 3x");
}

TEST(ActorConstructor, ResolvesEachArgumentSeparately) {
  Installed runtime;
  const auto three = mobula::put(3);
  const auto four = mobula::put(4);
  EXPECT_EQ(mobula::actor<Keeper>.remote(three, four).call<&Keeper::text>().get(), "3, ref 4");
  EXPECT_EQ(mobula::actor<Keeper>.remote(1, four).call<&Keeper::text>().get(), "1, ref 4");
}

TEST(ActorConstructor, AcceptsExplicitParameters) {
  Installed runtime;
  const auto values = mobula::put(std::vector{1, 2, 3});
  using View = mobula::View<std::vector<int>>;
  EXPECT_EQ(mobula::actor<Keeper>.remote_as<View>(values).call<&Keeper::text>().get(), "3");
  EXPECT_EQ(mobula::actor<Keeper>.remote_as<std::string_view>("word").call<&Keeper::text>().get(),
            "word");
  std::map<std::string, ObjectRef<int>> refs = {{"k", mobula::put(1)}};
  EXPECT_EQ(mobula::actor<Keeper>.remote(refs).call<&Keeper::text>().get(), "k");
  const auto both = mobula::actor<Keeper>  //
                        .options({.num_cpus = 1})
                        .remote_as<int, ObjectRef<int>>(mobula::put(1), mobula::put(2));
  EXPECT_EQ(both.call<&Keeper::text>().get(), "1, ref 2");
}

struct Plain {
  int x;
  std::string s;
  int get_x() const { return x; }
};

TEST(ActorConstructor, FillsAggregates) {
  Installed runtime;
  EXPECT_EQ(mobula::actor<Plain>.remote(4, "s").call<&Plain::get_x>().get(), 4);
}

TEST(ActorConstructor, ThrowsBadOptionsAtRemote) {
  Installed runtime;
  EXPECT_THROW(mobula::actor<Plain>.options({.max_concurrency = 0}).remote(4, "s"),
               mobula::InvalidRequestError);
}

}  // namespace
