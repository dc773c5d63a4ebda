#include "client/engine/ring_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>

#include "client/engine/ring_records.h"
#include "transport/local/shared_memory.h"

namespace mobula::internal::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::byte> bytes_of(std::string_view text) {
  std::vector<std::byte> bytes(text.size());
  std::ranges::transform(text, bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

// One process with a doorbell, which stores the frames that it receives.
struct Side {
  explicit Side(unsigned number)
      : id(ProcessId::of(number)), files(DoorbellFiles::create().value()) {
    auto own = files.copy().value();
    std::vector<Fd> fds;
    fds.push_back(std::move(own.page));
    fds.push_back(std::move(own.event));
    EXPECT_TRUE(links.use_doorbell(std::move(fds)).ok());
    const auto keep = [this](ProcessId, std::span<const std::byte> bytes) {
      received.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    };
    hearer = {keep, read_each(keep)};
  }
  std::vector<OpenRingReply> collect() { return links.collect(hearer); }
  DoorbellSleep sleep() const {
    const auto page = SharedMemory::map(files.page.get(), doorbell_page_bytes).value();
    return static_cast<DoorbellSleep>(reinterpret_cast<DoorbellPage*>(page.data())->sleep.load());
  }

  ProcessId id;
  DoorbellFiles files;
  RingLinks links;
  RingLinks::Hearer hearer;
  std::vector<std::string> received;
};

class RingLinksTest : public ::testing::Test {
 protected:
  static std::vector<Fd> files_for(const Fd& memory, const Side& peer) {
    auto bell = peer.files.copy().value();
    std::vector<Fd> fds;
    fds.push_back(copy_of(memory).value());
    fds.push_back(std::move(bell.page));
    fds.push_back(std::move(bell.event));
    return fds;
  }
  // Opens a pair from the caller to the executor, with a separate index at each end.
  void open(std::uint64_t ring, std::uint32_t callers_index = 3,
            std::uint32_t executors_index = 5) {
    memory_ = SharedMemory::create_file(2 * ring_memory_bytes, "ring-links-test").value();
    ASSERT_TRUE(caller_.links
                    .open({executor_.id, true, callers_index, executors_index, ring},
                          files_for(memory_, executor_))
                    .ok());
    ASSERT_TRUE(executor_.links
                    .open({caller_.id, false, executors_index, callers_index, ring},
                          files_for(memory_, caller_))
                    .ok());
  }
  // The header of calls, or of replies, writable like in a malicious peer.
  RingHeader& header(SharedMemory& memory, bool replies) const {
    return *reinterpret_cast<RingHeader*>(memory.data() + (replies ? ring_memory_bytes : 0));
  }
  SharedMemory map() const {
    return SharedMemory::map(memory_.get(), 2 * ring_memory_bytes).value();
  }

  bool call(std::string_view text) { return caller_.links.call(executor_.id, bytes_of(text)); }
  bool reply(std::string_view text) { return executor_.links.reply(caller_.id, bytes_of(text)); }

  Side caller_{1};
  Side executor_{2};
  Fd memory_;
};

TEST_F(RingLinksTest, CarriesCallsAndReplies) {
  EXPECT_FALSE(call("nobody"));
  open(1);
  EXPECT_TRUE(call("one"));
  EXPECT_TRUE(call("two"));
  EXPECT_THAT(executor_.collect(), IsEmpty());
  EXPECT_THAT(executor_.received, ElementsAre("one", "two"));
  EXPECT_TRUE(reply("done"));
  EXPECT_THAT(caller_.collect(), IsEmpty());
  EXPECT_THAT(caller_.received, ElementsAre("done"));
  EXPECT_FALSE(executor_.links.call(caller_.id, bytes_of("not this way round")));
  EXPECT_FALSE(caller_.links.reply(executor_.id, bytes_of("nor this")));
}

TEST_F(RingLinksTest, TakesCallsFromCommands) {
  open(1);
  const CallerFrame frame;
  std::vector<Command> commands;
  commands.emplace_back(SendToExecutor{ProcessId::of(9), frame});
  commands.emplace_back(SendToExecutor{executor_.id, frame});
  commands.emplace_back(CloseStream{executor_.id});
  commands.emplace_back(SendToExecutor{executor_.id, frame});
  caller_.links.send(commands);
  EXPECT_EQ(std::get<SendToExecutor>(commands[0]).executor, ProcessId::of(9)) << "it has no ring";
  EXPECT_TRUE(std::get<SendToExecutor>(commands[1]).executor.empty()) << "it was sent";
  EXPECT_EQ(std::get<SendToExecutor>(commands[3]).executor, executor_.id) << "its stream is closed";
  EXPECT_THAT(executor_.collect(), IsEmpty());
  EXPECT_EQ(executor_.received.size(), 1u);
}

// More than the capacity in total, and one record above the capacity.
TEST_F(RingLinksTest, KeepsOrderOfQueuedFrames) {
  open(1);
  std::vector<std::string> sent;
  for (int i = 0; i < 40; ++i) {
    sent.push_back(std::to_string(i) + std::string(i == 20 ? 150'000 : 5'000, 'x'));
    ASSERT_TRUE(call(sent.back()));
  }
  for (int turns = 0; turns < 1'000 && executor_.received.size() < sent.size(); ++turns) {
    ASSERT_THAT(executor_.collect(), IsEmpty());
    ASSERT_THAT(caller_.collect(), IsEmpty());  // notices the free space
  }
  EXPECT_EQ(executor_.received, sent);
}

TEST_F(RingLinksTest, ReportsReaderThatCorruptsRing) {
  open(1);
  EXPECT_TRUE(call("before"));
  auto memory = map();
  header(memory, false).taken.store(std::uint64_t{1} << 60);
  // The writer reads the reader's count when its copy shows no free space.
  const std::string large(ring_capacity / 2, 'x');
  EXPECT_TRUE(call(large));
  EXPECT_FALSE(call(large));
  EXPECT_FALSE(call("short"));
  const auto closed = caller_.links.close_calls_to(executor_.id);
  ASSERT_TRUE(closed);
  EXPECT_EQ(closed->ring, 1u);
  EXPECT_FALSE(caller_.links.calls(executor_.id));
}

TEST_F(RingLinksTest, WriterCorruptsRing_ClosesIt) {
  open(7);
  auto memory = map();
  EXPECT_TRUE(reply("lost"));  // rings the bell
  header(memory, true).written.store(std::uint64_t{1} << 60);
  const auto broken = caller_.collect();
  ASSERT_EQ(broken.size(), 1u);
  EXPECT_EQ(broken[0].ring, 7u);
  EXPECT_EQ(broken[0].peer, executor_.id);
  EXPECT_FALSE(caller_.links.calls(executor_.id));
  EXPECT_THAT(caller_.received, IsEmpty());
}

// The peer opens its end first and uses it.
TEST_F(RingLinksTest, DoorbellBeforeOpen_ReadsAfterOpen) {
  memory_ = SharedMemory::create_file(2 * ring_memory_bytes, "ring-links-test").value();
  ASSERT_TRUE(
      caller_.links.open({executor_.id, true, 3, 5, 1}, files_for(memory_, executor_)).ok());
  EXPECT_TRUE(call("early"));
  EXPECT_THAT(executor_.collect(), IsEmpty());
  EXPECT_THAT(executor_.received, IsEmpty());
  ASSERT_TRUE(executor_.links.open({caller_.id, false, 5, 3, 1}, files_for(memory_, caller_)).ok());
  EXPECT_THAT(executor_.collect(), IsEmpty());
  EXPECT_THAT(executor_.received, ElementsAre("early"));
}

// The bell is rung for an index that is unused now, or reused.
TEST_F(RingLinksTest, ReadsNothingAfterClose) {
  open(1);
  EXPECT_TRUE(call("late"));
  EXPECT_TRUE(executor_.links.close(1));
  EXPECT_FALSE(executor_.links.close(1));
  EXPECT_THAT(executor_.collect(), IsEmpty());
  EXPECT_THAT(executor_.received, IsEmpty());
  EXPECT_FALSE(reply("nobody"));
  open(2);
  EXPECT_TRUE(call("newer"));
  EXPECT_THAT(executor_.collect(), IsEmpty());
  EXPECT_THAT(executor_.received, ElementsAre("newer"));
}

TEST_F(RingLinksTest, CollectsAllWithoutDoorbell) {
  open(1);
  EXPECT_TRUE(call("one"));
  EXPECT_THAT(executor_.links.collect_all(executor_.hearer), IsEmpty());
  EXPECT_THAT(executor_.received, ElementsAre("one"));
}

// Until the caller waits for a reply, or the ring is full.
TEST_F(RingLinksTest, DefersWakeOfCoalescingProcess) {
  open(1);
  const auto sleep_coalesced = [this] {
    executor_.links.doorbell()->announce(Doorbell::Sleep::coalesced);
  };
  sleep_coalesced();
  EXPECT_TRUE(call("one"));
  EXPECT_TRUE(call("two"));
  EXPECT_EQ(executor_.sleep(), DoorbellSleep::coalesced);
  caller_.links.flush_deferred_wakes();
  EXPECT_EQ(executor_.sleep(), DoorbellSleep::awake);
  executor_.collect();
  EXPECT_THAT(executor_.received, ElementsAre("one", "two"));

  sleep_coalesced();
  EXPECT_TRUE(call("three"));
  executor_.links.doorbell()->announce(Doorbell::Sleep::on_event);  // the coalesced wake-up is over
  caller_.links.flush_deferred_wakes();
  EXPECT_EQ(executor_.sleep(), DoorbellSleep::on_event) << "it has looked before";

  sleep_coalesced();
  EXPECT_TRUE(call(std::string(150'000, 'x')));
  EXPECT_EQ(executor_.sleep(), DoorbellSleep::awake) << "the ring is full";
}

TEST_F(RingLinksTest, WakesProcessFromCoalescedSleep) {
  open(1);
  const auto& bell = executor_.links.doorbell();
  bell->announce(Doorbell::Sleep::coalesced);
  std::thread sleeper([&] { bell->sleep_coalesced(3600s); });
  EXPECT_TRUE(call("one"));
  caller_.links.flush_deferred_wakes();
  sleeper.join();
}

TEST_F(RingLinksTest, ForgetsCoalescingPeerWithRing) {
  open(1);
  executor_.links.doorbell()->announce(Doorbell::Sleep::coalesced);
  EXPECT_TRUE(call("one"));
  EXPECT_TRUE(caller_.links.close(1));
  caller_.links.flush_deferred_wakes();
  EXPECT_EQ(executor_.sleep(), DoorbellSleep::coalesced) << "its memory is gone from here";
}

TEST_F(RingLinksTest, RejectsInvalidIndicesOrDescriptors) {
  const Fd memory = SharedMemory::create_file(2 * ring_memory_bytes, "ring-links-test").value();
  const auto refuses = [&](OpenRingReply opened, std::vector<Fd> fds) {
    return !caller_.links.open(opened, std::move(fds)).ok();
  };
  EXPECT_TRUE(refuses({executor_.id, true, max_rings, 0, 1}, files_for(memory, executor_)));
  EXPECT_TRUE(refuses({executor_.id, true, 0, max_rings, 1}, files_for(memory, executor_)));
  EXPECT_TRUE(refuses({executor_.id, true, 0, 0, 1}, {}));
  const Fd small = SharedMemory::create_file(4096, "ring-links-test").value();
  EXPECT_TRUE(refuses({executor_.id, true, 0, 0, 1}, files_for(small, executor_)));
  EXPECT_FALSE(caller_.links.calls(executor_.id));
}

}  // namespace
}  // namespace mobula::internal::client
