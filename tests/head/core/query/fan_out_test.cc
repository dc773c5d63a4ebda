#include "head/core/query/fan_out.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace mobula::internal::head {
namespace {

using Queries = FanOut<int, std::string>;

constexpr Time deadline = Time::from_ns(1000);

class FanOutTest : public testing::Test {
 protected:
  std::uint64_t send_query(std::string query, Queries::Targets targets, Time until = deadline) {
    const std::uint64_t number = queries.next_number();
    const auto finished = queries.add(number, std::move(query), std::move(targets), until,
                                      [&](int target) { sent.push_back(target); });
    EXPECT_FALSE(finished.has_value());
    return number;
  }
  // Merges a reply, and returns whether the query is finished.
  bool reply(std::uint64_t number, int target, const std::string& text) {
    std::string* query = queries.accept_reply(number, target);
    if (query == nullptr) return false;
    *query += text;
    const auto finished = queries.finish_if_complete(number);
    if (finished) last = finished->query;
    return finished.has_value();
  }

  Queries queries{2};
  std::vector<int> sent;
  std::string last;
};

TEST_F(FanOutTest, FinishesAfterAllReplies) {
  const auto number = send_query("q:", {{2, "two"}, {1, "one"}});
  EXPECT_EQ(sent, (std::vector<int>{1, 2}));
  EXPECT_EQ(queries.next_deadline(), deadline);
  EXPECT_FALSE(reply(number, 2, "b"));
  EXPECT_TRUE(reply(number, 1, "a"));
  EXPECT_EQ(last, "q:ba");
  EXPECT_EQ(queries.size(), 0u);
  EXPECT_EQ(queries.next_deadline(), std::nullopt);
}

TEST_F(FanOutTest, NoTargets_FinishesAtOnce) {
  const auto finished =
      queries.add(queries.next_number(), "q", {}, deadline, [](int) { FAIL() << "no target"; });
  ASSERT_TRUE(finished.has_value());
  EXPECT_EQ(finished->query, "q");
  EXPECT_EQ(queries.size(), 0u);
}

TEST_F(FanOutTest, IgnoresRepeatedAndForeignReplies) {
  const auto number = send_query("q:", {{1, "one"}, {2, "two"}});
  EXPECT_FALSE(reply(number, 1, "a"));
  EXPECT_EQ(queries.accept_reply(number, 1), nullptr) << "repeated";
  EXPECT_EQ(queries.accept_reply(number, 3), nullptr) << "never asked";
  EXPECT_EQ(queries.accept_reply(number + 1, 2), nullptr) << "unknown query";
  EXPECT_TRUE(reply(number, 2, "b"));
  EXPECT_EQ(queries.accept_reply(number, 2), nullptr) << "finished query";
}

TEST_F(FanOutTest, EnoughReplies_NoTargetIsSilent) {
  const auto number = send_query("q:", {{1, "one"}, {2, "two"}});
  ASSERT_NE(queries.accept_reply(number, 1), nullptr);
  const auto finished = queries.finish_if_complete(number, true);
  ASSERT_TRUE(finished.has_value());
  EXPECT_TRUE(finished->silent.empty());
}

TEST_F(FanOutTest, DeadlinePassed_NamesSilentTargets) {
  const auto early = send_query("early:", {{1, "one"}, {2, "two"}});
  send_query("late:", {{1, "one"}}, Time::from_ns(2000));
  EXPECT_TRUE(queries.is_full());
  EXPECT_FALSE(reply(early, 1, "a"));
  EXPECT_TRUE(queries.expire(Time::from_ns(999)).empty());
  const auto expired = queries.expire(deadline);
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_EQ(expired.front().query, "early:a");
  EXPECT_EQ(expired.front().silent, (Queries::Targets{{2, "two"}}));
  EXPECT_EQ(queries.next_deadline(), Time::from_ns(2000));
  EXPECT_FALSE(queries.is_full());
}

TEST_F(FanOutTest, TargetEnds_FinishesQueriesThatOnlyWaitForIt) {
  const auto first = send_query("first:", {{1, "one"}, {2, "two"}});
  send_query("second:", {{1, "one"}, {3, "three"}});
  EXPECT_FALSE(reply(first, 2, "b"));
  const auto finished = queries.remove_target(1);
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_EQ(finished.front().query, "first:b");
  EXPECT_TRUE(finished.front().silent.empty());
  EXPECT_EQ(queries.remove_target(3).size(), 1u);
}

TEST_F(FanOutTest, FailedSendRemovesTarget_SendsToOthers) {
  std::vector<std::string> finished;
  const auto number = queries.next_number();
  const auto at_once =
      queries.add(number, "q", {{1, "one"}, {2, "two"}}, deadline, [&](int target) {
        sent.push_back(target);
        for (auto& each : queries.remove_target(target)) finished.push_back(each.query);
      });
  EXPECT_FALSE(at_once.has_value());
  EXPECT_EQ(sent, (std::vector<int>{1, 2}));
  EXPECT_EQ(finished, (std::vector<std::string>{"q"}));
}

}  // namespace
}  // namespace mobula::internal::head
