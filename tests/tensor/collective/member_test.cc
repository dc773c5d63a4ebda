// Members of collective groups in one process, each with its own registry and acceptor, over real
// sockets and shared memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/random.h"
#include "sanitizers.h"
#include "tensor/collective/group_registry.h"
#include "transport/net/tcp.h"

namespace mobula::internal::collective {
namespace {

constexpr Duration wait_timeout = 30s;

Limits within(Duration span) { return {.deadline = monotonic_now() + span, .cancelled = nullptr}; }

Operation sum_of(std::int64_t count) {
  return {.kind = OperationKind::all_reduce, .dtype = DType::int32, .shape = {count}};
}

std::vector<std::int32_t> numbers(std::int64_t count, std::uint32_t rank) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<std::int32_t>(i * 7 + rank * 13);
  return all;
}

class Members : public testing::Test {
 protected:
  Members() {
    std::string pattern = "/tmp/mobula-members-XXXXXX";
    directory_ = ::mkdtemp(pattern.data());
  }
  ~Members() override {
    members_.clear();
    desks_.clear();
    std::filesystem::remove_all(directory_);
  }

  GroupRegistry& registry(std::uint32_t rank, bool trusts = false) {
    while (desks_.size() <= rank) {
      AcceptorOptions options{.socket = directory_ + "/" + std::to_string(desks_.size())};
      if (trusts) options.fabric = "rack";
      desks_.push_back(std::make_unique<GroupRegistry>(GroupRegistryOptions{.acceptor = options}));
    }
    return *desks_[rank];
  }

  static Membership membership(std::uint32_t rank, std::uint32_t size, Reach reach,
                               std::uint8_t number = 1) {
    Membership group;
    group.id[0] = static_cast<std::byte>(number);
    group.name = "group " + std::to_string(number);
    group.rank = rank;
    group.reach = reach;
    group.key[3] = static_cast<std::byte>(number);
    group.timeout = wait_timeout;
    for (std::uint32_t i = 0; i < size; ++i) group.actors.push_back("a" + std::to_string(i));
    return group;
  }

  void form(std::uint32_t size, Reach reach, bool trusts = false, std::uint8_t number = 1) {
    std::vector<MemberEndpoint> endpoints;
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      auto endpoint = registry(rank, trusts).join(membership(rank, size, reach, number));
      ASSERT_TRUE(endpoint.ok()) << endpoint.error().text;
      endpoints.push_back(*endpoint);
    }
    const GroupId id = membership(0, size, reach, number).id;
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      auto connected = registry(rank).connect(id, endpoints, monotonic_now() + wait_timeout);
      ASSERT_TRUE(connected.ok()) << connected.error().text;
    }
    members_.clear();
    for (std::uint32_t rank = 0; rank < size; ++rank) {
      members_.push_back(registry(rank).find(id));
      ASSERT_NE(members_.back(), nullptr);
    }
  }

  // Runs `body` for each member on a separate thread.
  template <class Body>
  void all(Body body) {
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
      threads.emplace_back([&body, this, rank] { body(*members_[rank], rank); });
    }
    for (auto& each : threads) each.join();
  }

  static std::optional<Refusal> reduce(Member& member, std::uint32_t rank, std::int64_t count,
                                       std::vector<std::int32_t>& to, const Limits& limits) {
    const auto mine = numbers(count, rank);
    const auto bytes = std::as_bytes(std::span(mine));
    return member.run(
        sum_of(count), {.operand = bytes},
        [&](const Operation& agreed, bool) -> Result<Memory> {
          to.assign(static_cast<std::size_t>(agreed.elements()), 0);
          return Memory{bytes, std::as_writable_bytes(std::span(to)), {}};
        },
        limits);
  }

  void expect_sums(std::int64_t count) {
    std::vector<std::vector<std::int32_t>> got(members_.size());
    std::vector<std::string> refused(members_.size());
    all([&](Member& member, std::uint32_t rank) {
      if (auto why = reduce(member, rank, count, got[rank], within(wait_timeout)))
        refused[rank] = why->text;
    });
    std::vector<std::int32_t> sum(static_cast<std::size_t>(count), 0);
    for (std::uint32_t rank = 0; rank < members_.size(); ++rank) {
      const auto each = numbers(count, rank);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += each[i];
    }
    for (std::size_t rank = 0; rank < members_.size(); ++rank) {
      EXPECT_EQ(refused[rank], "");
      EXPECT_TRUE(got[rank] == sum) << "rank " << rank << ", " << count;
    }
  }

  std::string directory_;
  std::vector<std::unique_ptr<GroupRegistry>> desks_;
  std::vector<std::shared_ptr<Member>> members_;
};

TEST_F(Members, ReducesOverSharedMemory) {
  form(3, Reach::shm);
  EXPECT_TRUE(members_[0]->shares_memory_with(2));
  for (const std::int64_t count : {0, 1, 1000, 3'000'001}) expect_sums(count);
}

TEST_F(Members, ReducesOverEncryptedAndPlainTcp) {
  form(4, Reach::tcp);
  EXPECT_FALSE(members_[0]->shares_memory_with(2));
  for (const std::int64_t count : {1, 2000, 1'000'001}) expect_sums(count);
  members_.clear();
  desks_.clear();
  form(4, Reach::tcp, true);
  for (const std::int64_t count : {1, 2000, 1'000'001}) expect_sums(count);
}

TEST_F(Members, ReportsTransferredBytes) {
  for (const Reach reach : {Reach::shm, Reach::tcp}) {
    form(3, reach);
    std::vector<Journey> journeys(3);
    const auto round = [&](std::int64_t count) {
      all([&](Member& member, std::uint32_t rank) {
        const auto mine = numbers(count, rank);
        std::vector<std::int32_t> to(mine.size());
        const auto bytes = std::as_bytes(std::span(mine));
        const auto refused = member.run(
            sum_of(count), {.operand = bytes},
            [&](const Operation&, bool) -> Result<Memory> {
              return Memory{bytes, std::as_writable_bytes(std::span(to)), {}};
            },
            within(wait_timeout), &journeys[rank]);
        EXPECT_EQ(refused, std::nullopt);
      });
    };
    round(300'000);
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(journeys[rank].path, reach == Reach::shm ? DirectPath::shm : DirectPath::tcp);
      EXPECT_EQ(journeys[rank].encrypted, reach == Reach::tcp);
      EXPECT_EQ(journeys[rank].way, MemberCore::Way::plan);
      // two thirds, twice, around a ring of three
      EXPECT_EQ(journeys[rank].bytes_received, 4u * 400'000);
      EXPECT_EQ(journeys[rank].bytes_sent, 4u * 400'000);
      EXPECT_GT(journeys[rank].moved, Duration(0));
    }
    EXPECT_EQ(journeys[1].others, "ranks 0, 2");
    round(10);
    for (const auto& each : journeys) {
      EXPECT_EQ(each.way, MemberCore::Way::words);
      EXPECT_EQ(each.bytes_received, 80u);
      EXPECT_EQ(each.bytes_sent, 80u);
    }
    members_.clear();
    desks_.clear();
  }
}

TEST_F(Members, SeparatesTwoGroupsOfSameProcesses) {
  form(2, Reach::any, false, 1);
  const auto first = members_;
  form(2, Reach::any, false, 2);
  std::thread other([&] {
    std::vector<std::int32_t> to;
    EXPECT_EQ(reduce(*first[0], 0, 70'000, to, within(wait_timeout)), std::nullopt);
  });
  expect_sums(50'000);
  std::vector<std::int32_t> to;
  EXPECT_EQ(reduce(*first[1], 1, 70'000, to, within(wait_timeout)), std::nullopt);
  other.join();
}

TEST_F(Members, Mismatch_ReachesAllAndKeepsGroup) {
  form(3, Reach::any);
  std::vector<std::optional<Refusal>> refused(3);
  all([&](Member& member, std::uint32_t rank) {
    std::vector<std::int32_t> to;
    refused[rank] = reduce(member, rank, rank == 2 ? 10 : 20'000, to, within(wait_timeout));
  });
  for (const auto& each : refused) {
    ASSERT_TRUE(each.has_value());
    EXPECT_EQ(each->kind, Refusal::Kind::mismatch);
    EXPECT_THAT(each->ranks, testing::ElementsAre(2));
  }
  expect_sums(20'000);
}

TEST_F(Members, AbsentMember_NamedToAllOthers) {
  form(3, Reach::any);
  std::vector<std::optional<Refusal>> refused(3);
  all([&](Member& member, std::uint32_t rank) {
    std::vector<std::int32_t> to;
    if (rank != 1)
      refused[rank] =
          reduce(member, rank, 10, to, within(rank == 0 ? Duration(50ms) : wait_timeout));
  });
  ASSERT_TRUE(refused[0] && refused[2]);
  EXPECT_EQ(refused[0]->kind, Refusal::Kind::timed_out);
  EXPECT_THAT(refused[0]->ranks, testing::ElementsAre(1));
  EXPECT_EQ(refused[2]->kind, Refusal::Kind::broken);
  EXPECT_THAT(refused[2]->ranks, testing::ElementsAre(1)) << refused[2]->text;
  std::vector<std::int32_t> to;
  const auto late = reduce(*members_[1], 1, 10, to, within(wait_timeout));
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(late->kind, Refusal::Kind::broken);
  EXPECT_TRUE(members_[1]->over());
}

TEST_F(Members, MemberLeaves_OthersOperationFails) {
  form(3, Reach::tcp);
  const GroupId id = members_[0]->group().id;
  std::vector<std::optional<Refusal>> refused(3);
  std::atomic<int> rounds{0};
  std::thread leaving([&] {
    while (rounds.load() < 5) std::this_thread::yield();
    registry(2).leave(id);
  });
  all([&](Member& member, std::uint32_t rank) {
    std::vector<std::int32_t> to;
    while (!refused[rank]) {
      refused[rank] = reduce(member, rank, 100'000, to, within(wait_timeout));
      ++rounds;
    }
  });
  leaving.join();
  EXPECT_EQ(refused[2]->kind, Refusal::Kind::destroyed);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(refused[static_cast<std::size_t>(rank)]->kind, Refusal::Kind::broken);
    EXPECT_THAT(refused[static_cast<std::size_t>(rank)]->ranks, testing::ElementsAre(2));
  }
  EXPECT_TRUE(registry(2).has_left(id));
  EXPECT_EQ(registry(2).find(id), nullptr);
}

TEST_F(Members, CancelledCall_BreaksGroupWithReason) {
  form(2, Reach::any);
  std::vector<std::optional<Refusal>> refused(2);
  all([&](Member& member, std::uint32_t rank) {
    std::vector<std::int32_t> to;
    Limits limits = within(wait_timeout);
    if (rank == 0) limits.cancelled = [] { return true; };
    if (rank == 0) {
      refused[rank] = reduce(member, rank, 10, to, limits);
    } else {
      Operation other = sum_of(10);
      while (!member.over()) std::this_thread::yield();
      refused[rank] = member.run(
          other, {}, [](const Operation&, bool) -> Result<Memory> { return Memory{}; }, limits);
    }
  });
  EXPECT_EQ(refused[0]->kind, Refusal::Kind::cancelled);
  EXPECT_EQ(refused[1]->kind, Refusal::Kind::broken);
  EXPECT_THAT(refused[1]->ranks, testing::ElementsAre(0));
}

TEST_F(Members, MemberOutOfMemory_EndsOther) {
  form(2, Reach::any);
  std::vector<std::optional<Refusal>> refused(2);
  all([&](Member& member, std::uint32_t rank) {
    std::vector<std::int32_t> to;
    if (rank == 0) {
      refused[rank] = reduce(member, rank, 100'000, to, within(wait_timeout));
    } else {
      const auto mine = numbers(100'000, 1);
      refused[rank] = member.run(
          sum_of(100'000), {.operand = std::as_bytes(std::span(mine))},
          [](const Operation&, bool) -> Result<Memory> {
            return failure(ErrorCode::resource_exhausted, "reserve memory: no memory is left");
          },
          within(wait_timeout));
    }
  });
  EXPECT_THAT(refused[0]->text, testing::HasSubstr("reserve memory: no memory is left"));
  EXPECT_THAT(refused[0]->ranks, testing::ElementsAre(1));
}

TEST_F(Members, GroupOver_NameIsFree) {
  form(2, Reach::any);
  EXPECT_EQ(registry(0).join(membership(0, 2, Reach::any)).error().code, ErrorCode::already_exists);
  Membership same = membership(0, 2, Reach::any, 2);
  same.name = "group 1";
  EXPECT_EQ(registry(0).join(same).error().code, ErrorCode::already_exists);
  registry(1).leave(members_[1]->group().id);
  members_[1].reset();
  Result<MemberEndpoint> joined = failure(ErrorCode::already_exists, "join group: no attempt yet");
  for (const Time end = monotonic_now() + wait_timeout; !joined && monotonic_now() < end;) {
    members_.clear();
    joined = registry(0).join(same);
  }
  EXPECT_TRUE(joined.ok());
}

TEST_F(Members, RejectsForeignPeers) {
  auto endpoint = registry(0).join(membership(0, 2, Reach::tcp));
  ASSERT_TRUE(endpoint.ok());
  // A different key.
  Membership other = membership(1, 2, Reach::tcp);
  other.key[0] = std::byte{99};
  auto there = registry(1).join(other);
  ASSERT_TRUE(there.ok());
  // The lower rank connects and detects that its peer has a different key.
  auto connected =
      registry(0).connect(other.id, {*endpoint, *there}, monotonic_now() + wait_timeout);
  ASSERT_FALSE(connected.ok());
  EXPECT_EQ(registry(0).find(other.id), nullptr);
  EXPECT_EQ(registry(1).find(other.id), nullptr);
  // Invalid input and silence delay no other peer.
  const auto address = Address::parse(endpoint->address)->numeric();
  ASSERT_TRUE(address.has_value());
  auto nonsense = begin_connect(*address);
  auto silence = begin_connect(*address);
  ASSERT_TRUE(nonsense.ok() && silence.ok());
  const std::string text(200, 'x');
  while (::send(nonsense->get(), text.data(), text.size(), MSG_NOSIGNAL) < 0 &&
         (errno == EAGAIN || errno == ENOTCONN)) {
  }
  registry(1).leave(other.id);
  auto anew = registry(1).join(membership(1, 2, Reach::tcp));
  ASSERT_TRUE(anew.ok());
  ASSERT_TRUE(
      registry(0).connect(other.id, {*endpoint, *anew}, monotonic_now() + wait_timeout).ok());
  EXPECT_NE(registry(0).find(other.id), nullptr);
}

// By seed, members are slow, request another operation, or leave; their observations must be
// consistent.
TEST_F(Members, RandomFaults_AreConsistent) {
  constexpr std::uint32_t size = 4;
  constexpr int rounds = 12;
  for (std::uint8_t seed = 1; seed <= histories(20); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    form(size, seed % 2 == 0 ? Reach::tcp : Reach::any, false, seed);
    Random random(seed);
    // requests another operation in one round
    const auto odd = static_cast<std::uint32_t>(random.below(size));
    const auto leaver = static_cast<std::uint32_t>(random.below(size));  // leaves before a round
    const auto slow = static_cast<std::uint32_t>(random.below(size));    // is late
    const int odd_round = static_cast<int>(random.below(rounds));
    const int last_round = static_cast<int>(random.below(rounds + 4));
    std::vector<std::int64_t> counts;
    for (int i = 0; i < rounds; ++i)
      counts.push_back(static_cast<std::int64_t>(random.below(i % 3 == 0 ? 200'000 : 500) + 1));
    std::vector<std::vector<std::optional<Refusal>>> seen(size);
    std::vector<std::vector<std::int32_t>> last(size);
    all([&](Member& member, std::uint32_t rank) {
      for (int round = 0; round < rounds; ++round) {
        if (rank == leaver && round == last_round) registry(rank).leave(member.group().id);
        for (int i = 0; rank == slow && i < 50; ++i) std::this_thread::yield();
        const std::int64_t more = rank == odd && round == odd_round ? 1 : 0;
        std::vector<std::int32_t> to;
        seen[rank].push_back(reduce(member, rank, counts[static_cast<std::size_t>(round)] + more,
                                    to, within(wait_timeout)));
        if (!seen[rank].back()) last[rank] = std::move(to);
      }
    });
    for (int round = 0; round < rounds; ++round) {
      for (std::uint32_t rank = 0; rank < size; ++rank) {
        const auto& one = seen[rank][static_cast<std::size_t>(round)];
        if (round >= last_round) {
          ASSERT_TRUE(one.has_value());
          EXPECT_EQ(one->kind, rank == leaver ? Refusal::Kind::destroyed : Refusal::Kind::broken)
              << one->text;
          EXPECT_THAT(one->ranks, testing::ElementsAre(leaver)) << one->text;
        } else if (round == odd_round) {
          ASSERT_TRUE(one.has_value());
          EXPECT_EQ(one->kind, Refusal::Kind::mismatch) << one->text;
          EXPECT_THAT(one->ranks, testing::ElementsAre(odd)) << one->text;
        } else {
          EXPECT_FALSE(one.has_value()) << one->text;
        }
      }
    }
    for (std::uint32_t rank = 1; rank < size; ++rank) EXPECT_TRUE(last[rank] == last[0]);
    for (std::uint32_t rank = 0; rank < size; ++rank)
      registry(rank).leave(members_[rank]->group().id);
  }
}

TEST_F(Members, LimitsNumberOfGroups) {
  Result<MemberEndpoint> joined = failure(ErrorCode::corrupt, "");
  std::size_t count = 0;
  for (; count < 300; ++count) {
    Membership group = membership(0, 2, Reach::tcp, static_cast<std::uint8_t>(count % 256));
    group.id[1] = static_cast<std::byte>(count / 256 + 1);
    group.name = "";
    joined = registry(0).join(std::move(group));
    if (!joined) break;
  }
  EXPECT_EQ(count, 256u);
  EXPECT_EQ(joined.error().code, ErrorCode::resource_exhausted);
}

}  // namespace
}  // namespace mobula::internal::collective
