// The spans in the reply of a process: all of the latest, or one task with concurrent calls.
#include "client/engine/callee/span_answer.h"

#include <gtest/gtest.h>

#include <vector>

namespace mobula::internal::client {
namespace {

struct Ran {
  TaskId task;
  CopyOnWrite<CallForm> form;
  Time began;
  Time ended;
  bool failed = false;
};
struct RanCalls : std::vector<Ran> {
  static std::uint64_t forgotten() { return 3; }
};

class SpanAnswers : public testing::Test {
 protected:
  static Time at(int milliseconds) { return Time::from_ns(std::int64_t{milliseconds} * 1'000'000); }
  SpanAnswers() {
    CallForm form;
    form.name = "f";
    // In sequence, 100 ms each, and one concurrent with the third.
    for (unsigned i = 0; i < 6; ++i) {
      const int begin = static_cast<int>(i) * 1000;
      ran.push_back({TaskId::of(i + 1), form, at(begin), at(begin + 100), false});
    }
    ran.push_back({TaskId::of(9), form, at(2080), at(2300), false});
    for (unsigned i = 0; i < 3; ++i)
      owned.add({TaskId::of(i + 1), form, at(1), at(2), at(3), false, {}});
  }
  SpansReply answer(SpansRequest query) {
    SpanAnswer reply(at(10'000), 77, query);
    reply.add(owned);
    reply.add_ran(ran);
    return reply.take();
  }

  RanCalls ran;
  OwnedCalls owned;
};

TEST_F(SpanAnswers, ReturnsLatestSpansUpToLimit) {
  const SpansReply reply = answer({1, 2, {}, {}});
  EXPECT_EQ(reply.request, 1u);
  ASSERT_EQ(reply.ran.size(), 2u);
  EXPECT_EQ(reply.ran[1].task, TaskId::of(9));
  EXPECT_EQ(reply.ran_forgotten, 3u + 5u);
  EXPECT_EQ(reply.owned.size(), 2u);
  EXPECT_EQ(reply.ran[1].began, 7920ms) << "back from the answer";
  EXPECT_EQ(reply.names, std::vector<std::string>{"f"});
}

TEST_F(SpanAnswers, TaskQuery_IncludesConcurrentTasks) {
  const SpansReply reply = answer({1, 100, TaskId::of(3), {}});
  ASSERT_EQ(reply.ran.size(), 2u);
  EXPECT_EQ(reply.ran[0].task, TaskId::of(3));
  EXPECT_EQ(reply.ran[1].task, TaskId::of(9));
  ASSERT_EQ(reply.owned.size(), 1u);
  EXPECT_EQ(reply.owned[0].task, TaskId::of(3));
  const SpansReply unknown = answer({1, 100, TaskId::of(77), {}});
  EXPECT_TRUE(unknown.ran.empty());
  EXPECT_TRUE(unknown.owned.empty());
}

}  // namespace
}  // namespace mobula::internal::client
