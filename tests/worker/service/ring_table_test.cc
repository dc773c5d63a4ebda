#include "worker/ring_table.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <memory>
#include <vector>

#include "protocol/codec/messages.h"
#include "transport/loop_fixture.h"
#include "transport/ring/ring.h"

namespace mobula::internal::worker {
namespace {

// A process at its end of a link.
struct Member {
  Member(EventLoop& loop, ProcessLinks& links, unsigned number) : id(ProcessId::of(number)) {
    auto pair = make_local_pair().value();
    link = links.adopt(std::move(pair.first)).value();
    LocalLink::Callbacks callbacks;
    callbacks.on_frame = [this](LocalFrame frame) {
      auto message = decode<AgentToProcess>(frame.bytes).value();
      if (auto* opened = std::get_if<OpenRingReply>(&message)) {
        rings.push_back({*opened, std::move(frame.fds)});
      } else if (std::holds_alternative<UseDoorbell>(message)) {
        bell_files = std::move(frame.fds);
      } else if (auto* over = std::get_if<RingEnded>(&message)) {
        ended.push_back(over->ring);
      }
    };
    callbacks.on_closed = [](const Failure&) {};
    end = LocalLink::open(loop, std::move(pair.second), std::move(callbacks)).value();
  }

  struct Opened {
    OpenRingReply message;
    std::vector<Fd> fds;
  };
  const ProcessId id;
  LinkId link = 0;
  std::unique_ptr<LocalLink> end;
  std::vector<Opened> rings;
  std::vector<Fd> bell_files;
  std::vector<std::uint64_t> ended;
};

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  return std::distance(begin(files), end(files));
}

class RingTableTest : public ::testing::Test {
 protected:
  Member& joins(unsigned number, JobId job = JobId::of(1), bool is_actor = false) {
    members_.push_back(std::make_unique<Member>(*loop_, links_, number));
    table_.joined(members_.back()->link, members_.back()->id, job, is_actor);
    return *members_.back();
  }
  bool until(const std::function<bool()>& condition) { return turn_until(*loop_, condition, 20s); }
  // Requests a ring and waits for the reply.
  void open(Member& from, const Member& to) {
    const std::size_t before = from.rings.size();
    table_.open(from.link, to.id);
    ASSERT_TRUE(until([&] { return from.rings.size() > before; }));
  }

  std::unique_ptr<EventLoop> loop_ = make_loop();
  ProcessLinks links_{
      *loop_,
      {.connected = [](LinkId, std::string, std::int64_t) {},
       .on_message = [](LinkId, ProcessToAgent) {},
       .lost = [this](LinkId link, const std::optional<EndCause>&) { table_.left(link); }}};
  RingTable table_{links_, 3};
  std::vector<std::unique_ptr<Member>> members_;
};

TEST_F(RingTableTest, CarriesCallsAndRepliesWithRightDoorbell) {
  Member& caller = joins(1);
  Member& executor = joins(2);
  open(caller, executor);
  ASSERT_TRUE(until([&] { return executor.rings.size() == 1; }));
  auto& calls = caller.rings[0];
  auto& called = executor.rings[0];
  EXPECT_TRUE(calls.message.calls);
  EXPECT_FALSE(called.message.calls);
  EXPECT_EQ(calls.message.peer, executor.id);
  EXPECT_EQ(called.message.peer, caller.id);
  EXPECT_EQ(calls.message.ring, called.message.ring);
  EXPECT_EQ(calls.message.peer_index, called.message.index);

  auto writes = SharedMemory::map(calls.fds[0].get(), 2 * ring_memory_bytes).value();
  auto reads = SharedMemory::map(called.fds[0].get(), 2 * ring_memory_bytes).value();
  const std::vector<std::byte> sent(100, std::byte{9});
  EXPECT_EQ(RingWriter(writes.data()).write(sent), sent.size());
  std::vector<std::byte> got;
  EXPECT_TRUE(RingReader(reads.data(), 1000).read(got).value());
  EXPECT_EQ(got, sent);

  auto bell =
      Doorbell::open({std::move(executor.bell_files[0]), std::move(executor.bell_files[1])});
  DoorbellRinger::open({std::move(calls.fds[1]), std::move(calls.fds[2])})
      .value()
      .ring(calls.message.peer_index);
  std::vector<std::size_t> rung;
  bell->collect([&](std::size_t index) { rung.push_back(index); });
  EXPECT_EQ(rung, std::vector<std::size_t>{called.message.index});
}

TEST_F(RingTableTest, RepeatedRequest_MakesOneRing) {
  Member& caller = joins(1);
  Member& executor = joins(2);
  open(caller, executor);
  table_.open(caller.link, executor.id);
  table_.open_for(caller.id, executor.id);
  open(executor, caller);  // its own calls use another pair
  EXPECT_EQ(table_.size(), 2u);
}

TEST_F(RingTableTest, RejectsOtherJobsStrangersAndItself) {
  Member& caller = joins(1);
  Member& other = joins(2, JobId::of(2));
  open(caller, other);
  EXPECT_EQ(caller.rings.back().message.ring, 0u);
  EXPECT_EQ(caller.rings.back().message.peer, other.id);
  EXPECT_TRUE(caller.rings.back().fds.empty());
  open(caller, caller);
  EXPECT_EQ(caller.rings.back().message.ring, 0u);
  table_.open(caller.link, ProcessId::of(77));
  ASSERT_TRUE(until([&] { return caller.rings.size() == 3; }));
  EXPECT_EQ(caller.rings.back().message.ring, 0u);
  table_.open(4711, caller.id);  // no such link
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(RingTableTest, OtherJobCallsActor_HasRing) {
  Member& client = joins(1, JobId::of(2));
  Member& service = joins(2, JobId::of(1), true);
  open(client, service);
  EXPECT_NE(client.rings.back().message.ring, 0u);
  // The service itself cannot call that client by ring.
  open(service, client);
  EXPECT_EQ(service.rings.back().message.ring, 0u);
}

TEST_F(RingTableTest, LimitsIndicesAndReusesThemAfterRelease) {
  Member& caller = joins(1);
  std::vector<Member*> executors;
  for (unsigned i = 0; i < 4; ++i) executors.push_back(&joins(10 + i));
  for (unsigned i = 0; i < 3; ++i) open(caller, *executors[i]);
  open(caller, *executors[3]);
  EXPECT_EQ(caller.rings.back().message.ring, 0u) << "three are the limit";

  table_.left(executors[1]->link);
  ASSERT_TRUE(until([&] { return caller.ended.size() == 1; }));
  EXPECT_EQ(caller.ended[0], caller.rings[1].message.ring);
  open(caller, *executors[3]);
  EXPECT_EQ(caller.rings.back().message.ring, 0u) << "it may still look there";

  table_.closed(caller.link, caller.ended[0]);
  open(caller, *executors[3]);
  EXPECT_NE(caller.rings.back().message.ring, 0u);
  EXPECT_EQ(caller.rings.back().message.index, caller.rings[1].message.index);
  EXPECT_EQ(table_.size(), 3u);
}

TEST_F(RingTableTest, ClosedPair_EndsOnceAndIsForgottenAfterBoth) {
  Member& caller = joins(1);
  Member& executor = joins(2);
  open(caller, executor);
  const std::uint64_t ring = caller.rings[0].message.ring;
  table_.closed(caller.link, ring);
  table_.closed(caller.link, ring);
  table_.closed(executor.link, 99);
  ASSERT_TRUE(until([&] { return executor.ended.size() == 1; }));
  EXPECT_EQ(table_.size(), 1u);
  open(caller, executor);  // a new one in the meantime
  EXPECT_NE(caller.rings.back().message.ring, ring);
  table_.closed(executor.link, ring);
  EXPECT_EQ(table_.size(), 1u);
  table_.left(caller.link);
  table_.left(executor.link);
  EXPECT_EQ(table_.size(), 0u);
}

// A process may exit between its start and the report of that start.
TEST_F(RingTableTest, RejectsProcessWithClosedLink) {
  Member& caller = joins(1);
  Member late(*loop_, links_, 2);
  links_.close(late.link);
  const auto before = open_descriptors();
  table_.joined(late.link, late.id, JobId::of(1));
  EXPECT_EQ(open_descriptors(), before) << "the kept descriptor is not closed";
  open(caller, late);
  EXPECT_EQ(caller.rings.back().message.ring, 0u);
  EXPECT_EQ(table_.size(), 0u);
}

// A process receives the spin page with its doorbell.
TEST_F(RingTableTest, SharesSpinPageAndReturnsPermits) {
  const auto limit = SpinGovernor::create(*loop_, {}).value();
  table_.limit_spinners(*limit);
  Member& one = joins(1);
  Member& two = joins(2);
  ASSERT_TRUE(until([&] { return one.bell_files.size() == 3 && two.bell_files.size() == 3; }));
  const auto page = SpinBudget::open(one.bell_files[2].get()).value();
  page.set_permits(1);
  const auto ticket = page.take(spin_number(one.id));
  const auto others = SpinBudget::open(two.bell_files[2].get()).value();
  EXPECT_EQ(others.taken(), 1u);
  table_.left(two.link);
  EXPECT_EQ(others.taken(), 1u);
  table_.left(one.link);
  EXPECT_EQ(others.taken(), 0u);
}

// The queue to an executor that does not read is so full that the next message closes its link.
TEST_F(RingTableTest, DisconnectedByRingMessage_IsNoPeer) {
  const auto send = [&](const Member& to, std::size_t bytes) {
    links_.send(to.link, EndExecutor{true, std::string(bytes, 'x'), false});
    return links_.is_open(to.link);
  };
  unsigned number = 10;
  std::vector<std::pair<std::size_t, int>> fill;  // (message size, count that fits)
  const auto filled = [&]() -> Member& {
    Member& member = joins(number++);
    for (const auto& [bytes, count] : fill) {
      for (int i = 0; i < count; ++i) EXPECT_TRUE(send(member, bytes));
    }
    return member;
  };
  for (const std::size_t bytes :
       {std::size_t{1} << 20, std::size_t{1} << 14, std::size_t{1} << 8, std::size_t{0}}) {
    Member& tried = filled();
    int count = 0;
    while (send(tried, bytes)) ++count;
    fill.emplace_back(bytes, count);
  }
  Member& executor = filled();
  Member& caller = joins(1);
  open(caller, executor);
  EXPECT_FALSE(links_.is_open(executor.link));
  EXPECT_EQ(caller.rings.back().message.ring, 0u) << "none";
  EXPECT_EQ(table_.size(), 0u);
  for (unsigned other = 2; other < 5; ++other) {
    open(caller, joins(other));
    EXPECT_NE(caller.rings.back().message.ring, 0u) << "its places are free";
  }
}

}  // namespace
}  // namespace mobula::internal::worker
