// The budget of spinning threads, and the permits of a killed process.
#include "transport/ring/spin_budget.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>
#include <tuple>
#include <vector>

#include "transport/child_fixture.h"

namespace mobula::internal {
namespace {

class SpinPageTest : public ::testing::Test {
 protected:
  SpinBudget open() const { return SpinBudget::open(file_.get()).value(); }

  Fd file_ = SpinBudget::create_file().value();
  SpinBudget page_ = open();
};

TEST_F(SpinPageTest, AllowsNoSpinnersAtFirst) {
  EXPECT_FALSE(page_.take(1));
  EXPECT_EQ(page_.longest(), Duration(0));
}

TEST_F(SpinPageTest, GrantsPermitsUpToBudget) {
  page_.set_permits(2);
  const SpinBudget other = open();
  {
    const auto first = page_.take(7);
    const auto second = other.take(7);
    EXPECT_TRUE(first);
    EXPECT_TRUE(second);
    EXPECT_FALSE(page_.take(9));
    EXPECT_EQ(page_.taken(), 2u);
    page_.set_permits(1);
  }
  EXPECT_EQ(page_.taken(), 0u);
  const auto one = page_.take(9);
  EXPECT_TRUE(one);
  EXPECT_FALSE(other.take(8));
}

TEST_F(SpinPageTest, ReportsRequestOnce) {
  EXPECT_FALSE(page_.take_requested());
  EXPECT_FALSE(open().take(3));  // no permit, but the request counts
  EXPECT_TRUE(page_.take_requested());
  EXPECT_FALSE(page_.take_requested());
}

TEST_F(SpinPageTest, StaysWithinItsOwnLimits) {
  page_.set_permits(100'000);
  page_.set_longest(3600s);
  EXPECT_EQ(page_.permits(), SpinBudget::max_tickets);
  EXPECT_EQ(page_.longest(), SpinBudget::longest_allowed);
  page_.set_longest(50us);
  EXPECT_EQ(page_.longest(), 50us);
}

// The kernel ends it between taking and returning the permit.
TEST_F(SpinPageTest, ReclaimsPermitOfKilledProcess) {
  page_.set_permits(1);
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  {
    Child child([&] {
      const auto ticket = open().take(5);
      const char done = ticket ? 'y' : 'n';
      std::ignore = ::write(pipe[1], &done, 1);
      for (;;) ::pause();
    });
    char said = 0;
    ASSERT_EQ(::read(pipe[0], &said, 1), 1);
    ASSERT_EQ(said, 'y');
  }
  ::close(pipe[0]);
  ::close(pipe[1]);
  EXPECT_FALSE(page_.take(6));
  page_.take_away(4);  // another process
  EXPECT_FALSE(page_.take(6));
  page_.take_away(5);
  EXPECT_TRUE(page_.take(6));
}

TEST_F(SpinPageTest, ManyThreads_NeverExceedBudget) {
  constexpr int permits = 3;
  page_.set_permits(permits);
  std::atomic<int> spinning{0}, most{0}, got{0};
  std::vector<std::thread> threads;
  for (std::uint64_t each = 1; each <= 8; ++each) {
    threads.emplace_back([&, each] {
      const SpinBudget mine = open();
      for (int i = 0; i < 5'000; ++i) {
        const auto ticket = mine.take(each);
        if (!ticket) continue;
        ++got;
        const int now = ++spinning;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        --spinning;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_LE(most, permits);
  EXPECT_GT(got, 0);
  EXPECT_EQ(page_.taken(), 0u);
}

}  // namespace
}  // namespace mobula::internal
