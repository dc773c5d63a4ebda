// The functions registered by this test program.
#include "client/console/program_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/console/call_options.h"
#include "client/console/type_text.h"
#include "mobula/mobula.h"

namespace table_test {

int twice(int x) { return 2 * x; }
namespace inner {
std::string twice(const std::string& text) { return text + text; }
double half(double x) { return x / 2; }
}  // namespace inner

class Account {
 public:
  explicit Account(int start) : value_(start) {}
  Account(int start, int more) : value_(start + more) {}
  int deposit(int by) { return value_ += by; }

 private:
  int value_;
};

// Never called: naming the functions registers them.
void name_them() {
  static_cast<void>(mobula::task<twice>.remote(1));
  static_cast<void>(mobula::task<inner::twice>.remote(std::string()));
  static_cast<void>(mobula::task<inner::half>.remote(1.0));
  auto account = mobula::actor<Account>.remote(1);
  static_cast<void>(mobula::actor<Account>.remote(1, 2));
  static_cast<void>(account.call<&Account::deposit>(1));
}
auto* const volatile named = &name_them;

}  // namespace table_test

namespace mobula::internal::runtime::console {
namespace {

using ::testing::HasSubstr;

TEST(ProgramTable, FindsFunctionsByNameSuffix) {
  const ProgramTable table;
  const auto half = table.function("half");
  ASSERT_TRUE(half.ok()) << half.error().text;
  EXPECT_EQ((*half)->name, "table_test::inner::half");
  EXPECT_EQ(type_text(*(*half)->parameters.front()), "float64");
  EXPECT_EQ(type_text(*(*half)->result), "float64");
  EXPECT_TRUE(table.function("table_test::inner::twice").ok());
  EXPECT_THAT(table.function("twice").error().text, HasSubstr("whole name"));
  EXPECT_EQ(table.function("haf").error().code, ErrorCode::not_found);
  EXPECT_THAT(table.function("haf").error().text,
              HasSubstr("did you mean 'table_test::inner::half'"));
}

TEST(ProgramTable, ChoosesConstructorByArgumentCount) {
  const ProgramTable table;
  const auto one = table.constructor("Account", 1);
  const auto two = table.constructor("Account", 2);
  ASSERT_TRUE(one.ok());
  ASSERT_TRUE(two.ok());
  EXPECT_NE(*one, *two);
  EXPECT_THAT(table.constructor("Account", 3).error().text, HasSubstr("1 or 2"));
  const auto deposit = table.method(**one, "deposit");
  ASSERT_TRUE(deposit.ok());
  EXPECT_EQ((*deposit)->name, "deposit");
  EXPECT_THAT(table.method(**one, "deposi").error().text, HasSubstr("did you mean 'deposit'"));
}

TEST(CallOptions, AcceptsOptionsOfApi) {
  const auto task = task_options(
      Json::parse(R"({"num_gpus": 0.5, "resources": {"lab": 1}, "max_retries": 0, "name": "n"})"));
  ASSERT_TRUE(task.ok()) << task.error().text;
  EXPECT_EQ(task->num_gpus.value(), 0.5);
  EXPECT_EQ(task->resources.at("lab").value(), 1);
  EXPECT_EQ(task->max_retries, 0);
  const auto actor = actor_options(Json::parse(R"({"lifetime": "detached", "max_restarts": -1})"));
  ASSERT_TRUE(actor.ok());
  EXPECT_EQ(actor->lifetime, Lifetime::detached);
  EXPECT_THAT(task_options(Json::parse(R"({"num_gpu": 1})")).error().text, HasSubstr("num_gpus"));
  EXPECT_THAT(task_options(Json::parse(R"({"num_gpus": "1"})")).error().text,
              HasSubstr("does not fit"));
  EXPECT_THAT(actor_options(Json::parse(R"({"lifetime": "long"})")).error().text,
              HasSubstr("does not fit"));
  EXPECT_EQ(*method_options(Json::parse(R"({"max_task_retries": 2})"))->max_task_retries, 2);
}

}  // namespace
}  // namespace mobula::internal::runtime::console
