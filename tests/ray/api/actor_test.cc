// Ray's python/ray/tests/test_actor.py and test_actor_advanced.py: their semantic parts.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <tuple>

#include "contract/local_cluster.h"

namespace mobula::ray_tests::actors {
namespace {

using mobula::testing::becomes_true;
using mobula::testing::got;
using mobula::testing::make_gate;
using mobula::testing::process_exists;

int one_more(int x) { return x + 1; }
int one_more_by_task(int x) { return got(mobula::task<one_more>.remote(x)); }

class Values {
 public:
  explicit Values(int x) : x_(x) {
    for (int i = 0; i < 5; ++i) refs_.push_back(mobula::task<one_more>.remote(i));
    seen_ = got(refs_);
  }
  std::tuple<int, std::vector<ObjectRef<int>>, std::vector<int>> all() {
    return {x_, refs_, seen_};
  }
  std::vector<ObjectRef<int>> fresh() { return refs_from(5); }
  std::vector<int> nested() {
    std::vector<ObjectRef<int>> refs;
    for (int i = 0; i < 5; ++i) refs.push_back(mobula::task<one_more_by_task>.remote(i));
    return got(refs);
  }
  std::vector<int> read(const std::vector<ObjectRef<int>>& refs) { return got(refs); }

 private:
  static std::vector<ObjectRef<int>> refs_from(int count) {
    std::vector<ObjectRef<int>> refs;
    for (int i = 0; i < count; ++i) refs.push_back(mobula::task<one_more>.remote(i));
    return refs;
  }
  int x_;
  std::vector<ObjectRef<int>> refs_;
  std::vector<int> seen_;
};

std::string exit_file;
class Registers {
 public:
  explicit Registers(const std::string& file) {
    exit_file = file;
    std::atexit([] { std::ofstream(exit_file) << "exit handler"; });
  }
  int ready() { return 1; }
};

TEST(test_actor, test_atexit_handler) {
  std::string directory = ::testing::TempDir() + "mobula-atexit-XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const std::string planned = directory + "/planned", killed = directory + "/killed";
  auto dropped = mobula::actor<Registers>.remote(planned);
  const auto ends = mobula::actor<Registers>.remote(killed);
  EXPECT_EQ(got(dropped.call<&Registers::ready>()) + got(ends.call<&Registers::ready>()), 2);
  dropped = {};
  EXPECT_TRUE(becomes_true([&] { return std::filesystem::exists(planned); }));
  mobula::kill(ends);
  EXPECT_TRUE(
      mobula::testing::throws_soon<ActorDiedError>([&] { got(ends.call<&Registers::ready>()); }));
  EXPECT_FALSE(std::filesystem::exists(killed)) << "a kill runs no exit handler";
  std::filesystem::remove_all(directory);
}

class Creator {
 public:
  int slow_value() {
    ::usleep(200'000);
    return 7;
  }
};
ObjectRef<int> value_of_temporary_actor() {
  return mobula::actor<Creator>.remote().call<&Creator::slow_value>();
}

TEST(test_actor, test_actor_exit_from_task) {
  const auto pending = got(mobula::task<value_of_temporary_actor>.remote());
  EXPECT_EQ(got(pending), 7);
}

TEST(test_actor, test_remote_function_within_actor) {
  const std::vector expected{1, 2, 3, 4, 5};
  const auto actor = mobula::actor<Values>.remote(1);
  const auto [x, refs, seen] = got(actor.call<&Values::all>());
  EXPECT_EQ(x, 1);
  EXPECT_EQ(got(refs), expected);
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(got(actor.call<&Values::nested>()), expected);
  std::vector<ObjectRef<int>> ours;
  for (int i = 0; i < 5; ++i) ours.push_back(mobula::task<one_more>.remote(i));
  EXPECT_EQ(got(actor.call<&Values::read>(ours)), expected);
  const auto fresh = got(actor.call<&Values::fresh>());
  EXPECT_EQ(got(fresh), expected);
}

class Number {
 public:
  explicit Number(int x = 0) : x_(x) {}
  int value() const { return x_; }
  int increase() { return ++x_; }
  void reset() { x_ = 0; }
  int plus(int y) const { return x_ + y; }
  std::int64_t pid() const { return ::getpid(); }
  std::tuple<int, int> two() const { return {1, 2}; }
  std::array<int, 3> three() const { return {1, 2, 3}; }
  void nothing() {}
  void leave() { mobula::exit_actor(); }

 private:
  int x_;
};

class Outer {
 public:
  Outer(int x, int y) : x_(x), inner_(mobula::actor<Number>.remote(y)) {}
  std::tuple<int, int> values() { return {x_, got(inner_.call<&Number::value>())}; }
  std::tuple<int, int> values_of_new(int z) {
    inner_ = mobula::actor<Number>.remote(z);
    return values();
  }
  int increase(ActorHandle<Number> other) { return got(other.call<&Number::increase>()); }

 private:
  int x_;
  ActorHandle<Number> inner_;
};

TEST(test_actor, test_define_actor_within_actor) {
  const auto outer = mobula::actor<Outer>.remote(3, 0);
  EXPECT_EQ(got(outer.call<&Outer::values_of_new>(5)), (std::tuple{3, 5}));
}

TEST(test_actor, test_use_actor_within_actor) {
  EXPECT_EQ(got(mobula::actor<Outer>.remote(3, 4).call<&Outer::values>()), (std::tuple{3, 4}));
}

TEST(test_actor, test_use_actor_twice) {
  const auto number = mobula::actor<Number>.remote();
  const auto outer = mobula::actor<Outer>.remote(0, 0);
  EXPECT_EQ(got(outer.call<&Outer::increase>(number)), 1);
  EXPECT_EQ(got(outer.call<&Outer::increase>(number)), 2);
}

std::vector<int> use_actor_in_task(int x, int count) {
  const auto number = mobula::actor<Number>.remote(x);
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < count; ++i) refs.push_back(number.call<&Number::value>());
  return got(refs);
}

TEST(test_actor, test_define_actor_within_remote_function) {
  EXPECT_EQ(got(mobula::task<use_actor_in_task>.remote(3, 1)), std::vector{3});
  std::vector<ObjectRef<std::vector<int>>> all;
  for (int i = 0; i < 4; ++i) all.push_back(mobula::task<use_actor_in_task>.remote(i, 20));
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(got(all[static_cast<std::size_t>(i)]), std::vector<int>(20, i));
}

int use_in_task(ActorHandle<Number> number) { return got(number.call<&Number::increase>()); }
TEST(test_actor, test_use_actor_within_remote_function) {
  const auto number = mobula::actor<Number>.remote(2);
  EXPECT_EQ(got(mobula::task<use_in_task>.remote(number)), 3);
}

class Fussy {
 public:
  explicit Fussy(bool error) {
    if (error) throw std::runtime_error("oops");
  }
  std::string fine() { return "OK"; }
};
TEST(test_actor, test_actor_init_error_propagated) {
  EXPECT_EQ(got(mobula::actor<Fussy>.remote(false).call<&Fussy::fine>()), "OK");
  const auto bad = mobula::actor<Fussy>.remote(true);
  try {
    got(bad.call<&Fussy::fine>());
    FAIL() << "no exception";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("oops"), std::string::npos) << error.what();
  }
}

TEST(test_actor, test_no_args) {
  EXPECT_NO_THROW(got(mobula::actor<Number>.remote().call<&Number::nothing>()));
}

struct Foo {
  int x = 0;
  bool operator==(const Foo&) const = default;
};
class UsesFoo {
 public:
  explicit UsesFoo(Foo second) : second_(second) {}
  std::tuple<Foo, Foo, Foo> all(Foo third) { return {Foo{1}, second_, third}; }

 private:
  Foo second_;
};
TEST(test_actor, test_custom_classes) {
  EXPECT_EQ(got(mobula::actor<UsesFoo>.remote(Foo{2}).call<&UsesFoo::all>(Foo{3})),
            (std::tuple{Foo{1}, Foo{2}, Foo{3}}));
}

class Derived : public Number {
 public:
  explicit Derived(int x) : Number(x) {}
  int own() const { return value(); }
};
TEST(test_actor, test_inherit_actor_from_class) {
  const auto actor = mobula::actor<Derived>.remote(1);
  EXPECT_EQ(got(actor.call<&Derived::own>()), 1);
  EXPECT_EQ(got(actor.call<&Number::plus>(5)), 6);
}

TEST(test_actor, test_random_id_generation) {
  EXPECT_NE(mobula::actor<Number>.remote().id(), mobula::actor<Number>.remote().id());
}

TEST(test_actor, test_multiple_return_values) {
  const auto number = mobula::actor<Number>.remote();
  const auto [a, b] = number.method<&Number::two>().split().remote();
  EXPECT_EQ(got(std::vector{a, b}), (std::vector{1, 2}));
  const auto [c, d, e] = number.method<&Number::three>().split().remote();
  EXPECT_EQ(got(std::vector{c, d, e}), (std::vector{1, 2, 3}));
}

TEST(test_actor, test_options_num_returns) {
  const auto number = mobula::actor<Number>.remote();
  EXPECT_EQ(got(number.call<&Number::two>()), (std::tuple{1, 2}));
  const auto [a, b] = number.method<&Number::two>().options({.num_returns = 2}).split().remote();
  EXPECT_EQ(got(a) + got(b), 3);
}

TEST(test_actor, test_actor_deletion) {
  std::vector<std::int64_t> pids;
  {
    std::vector<ActorHandle<Number>> actors;
    for (int i = 0; i < 4; ++i) actors.push_back(mobula::actor<Number>.remote());
    for (const auto& each : actors) pids.push_back(got(each.call<&Number::pid>()));
  }
  for (const auto pid : pids) EXPECT_TRUE(becomes_true([&] { return !process_exists(pid); }));
}

TEST(test_actor, test_actor_method_deletion) {
  EXPECT_EQ(got(mobula::actor<Number>.remote(1).call<&Number::value>()), 1);
}

int waits_and_calls(ActorHandle<Number> number, ActorHandle<mobula::testing::Gate> gate) {
  got(gate.call<&mobula::testing::Gate::wait>());
  return got(number.call<&Number::value>());
}
TEST(test_actor, test_distributed_actor_handle_deletion) {
  const auto gate = make_gate();
  auto number = mobula::actor<Number>.remote(1);
  const auto pid = got(number.call<&Number::pid>());
  const auto later = mobula::task<waits_and_calls>.remote(number, gate);
  number = {};
  EXPECT_TRUE(mobula::testing::is_pending(later));
  EXPECT_TRUE(process_exists(pid));
  gate.call<&mobula::testing::Gate::open>();
  EXPECT_EQ(got(later), 1);
  EXPECT_TRUE(becomes_true([&] { return !process_exists(pid); }));
}

TEST(test_actor, test_multiple_actors) {
  constexpr int actors = 3;
  constexpr int increases = 50;
  std::vector<ActorHandle<Number>> all;
  for (int i = 0; i < actors; ++i) all.push_back(mobula::actor<Number>.remote(i));
  std::vector<ObjectRef<int>> refs;
  for (const auto& each : all) {
    for (int j = 0; j < increases; ++j) refs.push_back(each.call<&Number::increase>());
  }
  const auto values = got(refs);
  for (int i = 0; i < actors; ++i) {
    for (int j = 0; j < increases; ++j)
      EXPECT_EQ(values[static_cast<std::size_t>(i * increases + j)], i + j + 1);
  }
  for (const auto& each : all) each.call<&Number::reset>();
  refs.clear();
  for (int j = 0; j < increases; ++j) {
    for (const auto& each : all) refs.push_back(each.call<&Number::increase>());
  }
  const auto interleaved = got(refs);
  for (int j = 0; j < increases; ++j)
    EXPECT_EQ(interleaved[static_cast<std::size_t>(j * actors)], j + 1);
}

TEST(test_actor, test_kill) {
  const auto gate = mobula::actor<mobula::testing::Gate>.remote();
  const auto hangs = gate.call<&mobula::testing::Gate::wait>();
  EXPECT_TRUE(mobula::testing::is_pending(hangs));
  mobula::kill(gate);
  EXPECT_THROW(got(hangs), ActorDiedError);
  EXPECT_THROW(got(gate.call<&mobula::testing::Gate::open>()), ActorDiedError);
}

TEST(test_actor, test_exit_actor_ends_the_process_after_the_call) {
  const auto number = mobula::actor<Number>.options({.max_restarts = 3}).remote();
  const auto pid = got(number.call<&Number::pid>());
  EXPECT_THROW(got(number.call<&Number::leave>()), ActorDiedError);
  EXPECT_TRUE(becomes_true([&] { return !process_exists(pid); }));
  EXPECT_THROW(got(number.call<&Number::value>()), ActorDiedError)
      << "a planned end is no reason for a restart";
}

TEST(test_actor, test_get_if_exists) {
  const mobula::ActorOptions singleton{.name = "singleton", .get_if_exists = true};
  const auto first = mobula::actor<Number>.options(singleton).remote(1);
  EXPECT_EQ(got(first.call<&Number::increase>()), 2);
  const auto second = mobula::actor<Number>.options(singleton).remote(100);
  EXPECT_EQ(second, first);
  EXPECT_EQ(got(second.call<&Number::increase>()), 3);
}

TEST(test_actor, test_list_named_actors) {
  const auto named = mobula::actor<Number>.options({.name = "listed"}).remote();
  got(named.call<&Number::nothing>());
  const auto names = mobula::list_named_actors();
  EXPECT_EQ(std::count(names.begin(), names.end(), "listed"), 1);
}

class Log {
 public:
  void append(int x) { seen_.push_back(x); }
  std::vector<int> seen() const { return seen_; }

 private:
  std::vector<int> seen_;
};
TEST(test_actor, test_actor_call_order) {
  const auto log = mobula::actor<Log>.remote();
  for (int i = 0; i < 100; ++i)
    log.call<&Log::append>(i % 2 == 0 ? mobula::put(i) : mobula::task<one_more>.remote(i - 1));
  const auto seen = got(log.call<&Log::seen>());
  ASSERT_EQ(seen.size(), 100u);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
}

}  // namespace
}  // namespace mobula::ray_tests::actors
