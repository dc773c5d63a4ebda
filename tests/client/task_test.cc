#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <mobula/mobula.h>

#include "client/fake_runtime.h"
#include "client/twins.h"

namespace {

using mobula::ObjectRef;
using mobula::View;
using mobula::testing::Installed;
using namespace std::chrono_literals;

int square(int x) { return x * x; }
double half(double x) noexcept { return x / 2; }
std::size_t length(const std::string& text) { return text.size(); }
std::string joined(std::string a, std::string&& b, const std::string& c) { return a + b + c; }
void nothing() {}
float sum(View<std::vector<float>> values) {
  float total = 0;
  for (const float value : values) total += value;
  return total;
}
int sum_span(std::span<const int> values) {
  int total = 0;
  for (const int value : values) total += value;
  return total;
}
std::size_t view_length(std::string_view text) { return text.size(); }
int through(ObjectRef<int> ref) { return ref.get() + 1; }
ObjectRef<int> handed_on(ObjectRef<int> ref) { return ref; }
int total(std::vector<ObjectRef<int>> refs) {
  int sum = 0;
  for (const auto& ref : refs) sum += ref.get();
  return sum;
}
std::tuple<int, std::string> both(int number) { return {number, std::to_string(number)}; }
std::array<int, 3> three() { return {1, 2, 3}; }
int nested(int depth) {
  return depth == 0 ? 0 : 1 + mobula::get(mobula::task<nested>.remote(depth - 1));
}
const std::string& kept() {
  static const std::string text = "kept";
  return text;
}

struct Holder {
  std::string name;
  ObjectRef<int> ref;
  std::map<std::string, ObjectRef<int>> more;
};
int open_holder(Holder holder) { return holder.ref.get() + holder.more.at("x").get(); }

struct Library {
  static int answer() { return 42; }
};

TEST(Task, RunsFunctionAndReturnsResult) {
  Installed runtime;
  const ObjectRef<int> result = mobula::task<square>.remote(4);
  EXPECT_EQ(mobula::get(result), 16);
  EXPECT_EQ(result.get(), 16);
  EXPECT_EQ(mobula::get(mobula::task<Library::answer>.remote()), 42);
  EXPECT_EQ(runtime->last_name.substr(runtime->last_name.size() - 15), "Library::answer");
}

TEST(Task, AcceptsRefsForValues) {
  Installed runtime;
  const auto four = mobula::task<square>.remote(2);
  EXPECT_EQ(mobula::get(mobula::task<square>.options({.num_cpus = 0.5}).remote(four)), 16);
}

TEST(Task, ConvertsArgumentsLikeCall) {
  Installed runtime;
  EXPECT_EQ(mobula::get(mobula::task<half>.remote(3)), 1.5);
  EXPECT_EQ(mobula::get(mobula::task<length>.remote("four")), 4u);
  std::string lvalue = "c";
  EXPECT_EQ(mobula::get(mobula::task<joined>.remote("a", std::string("b"), lvalue)), "abc");
  EXPECT_EQ(mobula::get(mobula::task<kept>.remote()), "kept");
}

TEST(Task, ReturnsEmptyRefForVoid) {
  Installed runtime;
  const ObjectRef<void> done = mobula::task<nothing>.remote();
  mobula::get(done);
  done.get();
  EXPECT_TRUE(mobula::try_get(done));
}

TEST(Task, ReadsContiguousValuesInPlace) {
  Installed runtime;
  const auto stored = mobula::put(std::vector<float>(1000, 0.5F));
  EXPECT_EQ(mobula::get(mobula::task<sum>.remote(stored)), 500.0F);
  EXPECT_EQ(mobula::get(mobula::task<sum>.remote(std::vector<float>{1, 2})), 3.0F);
  EXPECT_EQ(mobula::get(mobula::task<sum>.remote(mobula::get_view(stored))), 500.0F);
  EXPECT_EQ(mobula::get(mobula::task<sum_span>.remote(mobula::put(std::vector{1, 2, 3}))), 6);
  EXPECT_EQ(mobula::get(mobula::task<view_length>.remote("four")), 4u);
  EXPECT_EQ(mobula::get(mobula::task<view_length>.remote(mobula::put("five!"))), 5u);
}

TEST(Task, PassesRefUnchangedToRefParameter) {
  Installed runtime;
  const auto nine = mobula::task<square>.remote(3);
  EXPECT_EQ(mobula::get(mobula::task<through>.remote(nine)), 10);
  const ObjectRef<ObjectRef<int>> outer = mobula::task<handed_on>.remote(nine);
  EXPECT_EQ(outer.get(), nine);
  EXPECT_EQ(outer.get().get(), 9);
}

TEST(Task, FindsRefsInsideValues) {
  Installed runtime;
  std::vector<ObjectRef<int>> refs = {mobula::put(1), mobula::put(2)};
  EXPECT_EQ(mobula::get(mobula::task<total>.remote(refs)), 3);
  EXPECT_EQ(mobula::get(mobula::task<open_holder>.remote(Holder{"h", refs[0], {{"x", refs[1]}}})),
            3);
}

TEST(Task, SplitsTuplesAndArrays) {
  Installed runtime;
  const auto [number, text] = mobula::task<both>.split().remote(7);
  EXPECT_EQ(number.get(), 7);
  EXPECT_EQ(text.get(), "7");
  const auto parts = mobula::task<three>.options({.num_returns = 3}).split().remote();
  EXPECT_EQ(parts[2].get(), 3);
  EXPECT_EQ(mobula::task<three>.split().options({.num_cpus = 2}).remote()[0].get(), 1);
  EXPECT_EQ(mobula::task<both>.remote(7).get(), std::tuple(7, std::string("7")));
}

TEST(Task, RejectsWrongNumberOfReturns) {
  Installed runtime;
  EXPECT_THROW(mobula::task<three>.options({.num_returns = 2}).split().remote(),
               mobula::InvalidRequestError);
  EXPECT_THROW(mobula::task<square>.options({.num_returns = 2}).remote(1),
               mobula::InvalidRequestError);
}

TEST(Task, RunsLambdasWithoutCaptures) {
  Installed runtime;
  EXPECT_EQ(mobula::get(mobula::task<[](int x) { return x + 1; }>.remote(1)), 2);
  EXPECT_EQ(mobula::get(mobula::task<[](int x) { return x + 2; }>.remote(1)), 3);
  EXPECT_EQ(twins::first_lambda(), 1);
  EXPECT_EQ(twins::second_lambda(), 2);
}

TEST(Task, SeparatesSameNamesInTwoFiles) {
  Installed runtime;
  EXPECT_EQ(twins::first_function(), 10);
  EXPECT_EQ(twins::second_function(), 20);
}

TEST(Task, SubmitsFromWithinTask) {
  Installed runtime;
  EXPECT_EQ(mobula::get(mobula::task<nested>.remote(5)), 5);
}

TEST(Task, ThrowsBadOptionsOnlyAtRemote) {
  Installed runtime;
  const auto bad = mobula::task<square>.options({.num_gpus = 1.5});
  EXPECT_THROW(bad.remote(1), mobula::InvalidRequestError);
  EXPECT_EQ(runtime->last_task, nullptr);
}

TEST(Task, CarriesOptions) {
  Installed runtime;
  const int gpus = 2;
  (void)mobula::task<square>
      .options({.name = "n", .num_gpus = gpus, .accelerator_type = "H200", .max_retries = -1})
      .remote(1);
  EXPECT_EQ(runtime->last_task->resources.gpu_units, 20'000);
  EXPECT_EQ(runtime->last_task->resources.accelerator_type, "H200");
  EXPECT_EQ(runtime->last_task->max_calls, 1);
  EXPECT_EQ(runtime->last_task->max_retries, -1);
}

TEST(Task, RequiresInit) {
  EXPECT_THROW(mobula::task<square>.remote(1), mobula::NotInitializedError);
}

TEST(Task, ReportsRejectedSubmission) {
  Installed runtime;
  runtime->refusal = mobula::testing::error_of(mobula::detail::ErrorKind::pending_limit, "full");
  EXPECT_THROW(mobula::task<square>.remote(1), mobula::PendingLimitError);
}

TEST(Refs, CountsOncePerProcess) {
  Installed runtime;
  {
    const auto one = mobula::put(1);
    const auto copy = one;
    EXPECT_EQ(copy, one);
    EXPECT_EQ(runtime->objects.at(one.raw_id()).count, 1);
    const auto outer = mobula::put(std::vector{one, one});
    EXPECT_EQ(runtime->objects.at(one.raw_id()).count, 3);
    EXPECT_EQ(outer.get()[1].get(), 1);
    EXPECT_EQ(runtime->objects.at(one.raw_id()).count, 3);
  }
  EXPECT_TRUE(runtime->objects.empty());
}

TEST(Refs, ClusterEnded_RefsAreHarmless) {
  ObjectRef<int> left;
  {
    Installed runtime;
    left = mobula::put(1);
  }
  Installed runtime;
  EXPECT_THROW(left.get(), mobula::InvalidRequestError);
  EXPECT_THROW(ObjectRef<int>().get(), mobula::InvalidRequestError);
  EXPECT_THROW(mobula::task<square>.remote(left), mobula::InvalidRequestError);
}

TEST(Refs, TransfersEmptyRefs) {
  Installed runtime;
  EXPECT_TRUE(mobula::put(ObjectRef<int>()).get().empty());
}

TEST(Get, ReadsManyInOrder) {
  Installed runtime;
  const std::vector refs = {mobula::put(1), mobula::put(2)};
  EXPECT_EQ(mobula::get(refs), (std::vector{1, 2}));
  EXPECT_EQ(mobula::get(refs, 1s), (std::vector{1, 2}));
  EXPECT_TRUE(mobula::get(std::vector<ObjectRef<int>>{}).empty());
  mobula::get(std::vector{mobula::task<nothing>.remote()});
}

TEST(Get, TimesOut) {
  Installed runtime;
  const ObjectRef<int> never(mobula::detail::Anchor::adopt(
      runtime.runtime, {mobula::detail::RefKind::object, runtime->make_pending()}));
  EXPECT_THROW(mobula::get(never, 1ms), mobula::GetTimeoutError);
  EXPECT_TRUE(runtime->last_get.deadline.has_value());
  EXPECT_THROW(mobula::get(never, {.timeout = 1.5s}), mobula::GetTimeoutError);
  EXPECT_THROW(mobula::get(never, -1s), mobula::InvalidRequestError);
  const auto tried = mobula::try_get(never, 0s);
  ASSERT_FALSE(tried.has_value());
  EXPECT_NE(dynamic_cast<const mobula::GetTimeoutError*>(&tried.error()), nullptr);
  EXPECT_THROW(tried.value(), mobula::GetTimeoutError);
}

TEST(Get, ReturnsPlainResults) {
  Installed runtime;
  auto tried = mobula::try_get(mobula::put(std::string("x")));
  ASSERT_TRUE(tried);
  EXPECT_EQ(*tried, "x");
  EXPECT_EQ(tried->size(), 1u);
  EXPECT_EQ(std::move(tried).value(), "x");
}

TEST(Get, ReadsViewsWithoutCopy) {
  Installed runtime;
  const auto stored = mobula::put(std::vector<double>(100, 2.0));
  const auto view = mobula::get_view(stored);
  EXPECT_EQ(view.size(), 100u);
  EXPECT_EQ(view[99], 2.0);
  const auto& bytes = runtime->objects.at(stored.raw_id()).value.bytes;
  EXPECT_GE(reinterpret_cast<const std::byte*>(view.data()), bytes.data());
  EXPECT_LE(reinterpret_cast<const std::byte*>(view.end()), bytes.data() + bytes.size());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.data()) % 64, 0u);
  const auto array = mobula::get_view(mobula::put(std::array<int, 40>{7}));
  EXPECT_EQ(array[0], 7);
}

TEST(Get, PinsObjectsOfViews) {
  Installed runtime;
  View<std::string> view;
  {
    const auto stored = mobula::put(std::string(100, 'x'));
    view = mobula::get_view(stored, 1s);
  }
  EXPECT_EQ(view[99], 'x');
}

TEST(Wait, KeepsOrderAndLimitsResults) {
  Installed runtime;
  const ObjectRef<int> never(mobula::detail::Anchor::adopt(
      runtime.runtime, {mobula::detail::RefKind::object, runtime->make_pending()}));
  std::vector refs = {mobula::put(1), never, mobula::put(2), mobula::put(3)};
  const auto some = mobula::wait(refs, {.num_returns = 2, .timeout = 1s});
  ASSERT_EQ(some.ready.size(), 2u);
  EXPECT_EQ(some.ready[0], refs[0]);
  EXPECT_EQ(some.ready[1], refs[2]);
  EXPECT_EQ(some.pending[0], never);
  EXPECT_EQ(some.pending[1], refs[3]);
  EXPECT_EQ(mobula::wait(refs).ready.size(), 1u);
  const auto listed = mobula::wait({refs[0], refs[2]}, {.num_returns = 2, .timeout = 1s});
  EXPECT_EQ(listed.ready.size(), 2u) << "a list in braces";
  EXPECT_EQ(mobula::wait({refs[2]}).ready.size(), 1u);
  EXPECT_THROW(mobula::wait(refs, {.num_returns = 5}), mobula::InvalidRequestError);
  EXPECT_THROW(mobula::wait(refs, {.num_returns = 0}), mobula::InvalidRequestError);
  const auto moved = mobula::wait(std::move(refs), {.num_returns = 3});
  EXPECT_EQ(moved.ready.size(), 3u);
  EXPECT_TRUE(refs.empty());
}

TEST(Wait, FindsReadyRefsAmongMany) {
  Installed runtime;
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < 200; ++i) {
    const bool is_ready = i == 5 || i == 100 || i == 199;
    refs.push_back(is_ready ? mobula::put(i)
                            : ObjectRef<int>(mobula::detail::Anchor::adopt(
                                  runtime.runtime,
                                  {mobula::detail::RefKind::object, runtime->make_pending()})));
  }
  const auto first = mobula::wait(refs, {.num_returns = 1, .timeout = 1s});
  ASSERT_EQ(first.ready.size(), 1u);
  EXPECT_EQ(first.ready[0], refs[5]);
  ASSERT_EQ(first.pending.size(), 199u);
  EXPECT_EQ(first.pending[4], refs[4]);
  EXPECT_EQ(first.pending[5], refs[6]);
  EXPECT_EQ(first.pending[198], refs[199]);
  const auto all = mobula::wait(refs, {.num_returns = 3, .timeout = 1s});
  ASSERT_EQ(all.ready.size(), 3u);
  EXPECT_EQ(all.ready[1], refs[100]);
  EXPECT_EQ(all.ready[2], refs[199]);
  ASSERT_EQ(all.pending.size(), 197u);
  EXPECT_EQ(all.pending[99], refs[101]);
  refs.emplace_back();
  EXPECT_THROW(mobula::wait(refs), mobula::InvalidRequestError)
      << "a ref to nothing, though others are ready";
}

TEST(Cancel, PassesOptions) {
  Installed runtime;
  const auto ref = mobula::put(1);
  mobula::cancel(ref, {.force = true, .recursive = false});
  EXPECT_TRUE(runtime->cancelled_ids.contains(ref.raw_id()));
  EXPECT_EQ(runtime->last_cancel, std::pair(true, false));
}

TEST(Cluster, ListsNodesAndResources) {
  Installed runtime;
  EXPECT_EQ(mobula::nodes().front().node_id, "n");
  EXPECT_EQ(mobula::cluster_resources().at("CPU"), 2);
  EXPECT_EQ(mobula::available_resources().at("CPU"), 1);
}

TEST(Cluster, DescribesTaskToItself) {
  Installed runtime;
  mobula::detail::ContextRecord record;
  record.task_id = "t";
  record.attempt = 2;
  record.seed = 7;
  record.gpu_ids = {"3"};
  runtime->context_record = std::make_shared<const mobula::detail::ContextRecord>(record);
  const auto context = mobula::current();
  const auto copy = context;
  runtime->context_record.reset();
  EXPECT_EQ(copy.task_id, "t");
  EXPECT_EQ(copy.attempt, 2);
  EXPECT_EQ(copy.seed(), 7u);
  EXPECT_EQ(copy.gpu_ids().front(), "3");
  EXPECT_FALSE(copy.cancelled());
  runtime->is_cancelled = true;
  EXPECT_TRUE(copy.cancelled());
  EXPECT_EQ(copy.stream(), nullptr);
}

}  // namespace
