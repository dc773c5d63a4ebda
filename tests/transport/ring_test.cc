#include "transport/ring/ring.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <random>
#include <thread>

#include "transport/local/shared_memory.h"
#include "transport/ring/doorbell.h"

namespace mobula::internal {
namespace {

constexpr std::size_t max_record = 1u << 20;

SharedMemory make_memory() {
  const Fd file = SharedMemory::create_file(ring_memory_bytes, "ring-test").value();
  return SharedMemory::map(file.get(), ring_memory_bytes).value();
}

// Content of record `number`: its length and every byte follow from the number.
std::vector<std::byte> record_of(std::uint64_t number) {
  std::mt19937_64 draw(number);
  const std::size_t longest = number % 50 == 0 ? 200'000 : number % 7 == 0 ? 9'000 : 300;
  std::vector<std::byte> bytes(1 + draw() % longest);
  std::memset(bytes.data(), static_cast<int>(draw() % 256), bytes.size());
  bytes.front() = static_cast<std::byte>(number);
  bytes.back() = static_cast<std::byte>(number >> 8);
  return bytes;
}

class RingTest : public ::testing::Test {
 protected:
  RingHeader& header() { return *reinterpret_cast<RingHeader*>(memory_.data()); }
  std::byte* data() { return memory_.data() + sizeof(RingHeader); }
  SharedMemory memory_ = make_memory();
  RingWriter writer_{memory_.data()};
  RingReader reader_{memory_.data(), max_record};
  std::vector<std::byte> record_;
};
using Ring = RingTest;
using BrokenRing = RingTest;

TEST_F(Ring, ReadsRecordsOfAllLengthsInOrder) {
  EXPECT_FALSE(reader_.read(record_).value());
  std::uint64_t read = 0;
  for (std::uint64_t number = 0; number < 3'000; ++number) {
    const auto sent = record_of(number);
    std::size_t at = 0;
    while ((at = writer_.write(sent, at)) < sent.size()) {
      // Longer than the ring: the reader takes pieces before the record is complete.
      while (reader_.read(record_).value()) ASSERT_EQ(record_, record_of(read++));
    }
  }
  while (reader_.read(record_).value()) ASSERT_EQ(record_, record_of(read++));
  EXPECT_EQ(read, 3'000u);
}

TEST_F(Ring, Full_RejectsAndReportsSpace) {
  const std::vector<std::byte> record(1'000, std::byte{7});
  std::size_t written = 0;
  while (writer_.write(record) == record.size()) ++written;
  EXPECT_GT(written, 50u);
  EXPECT_FALSE(writer_.request_space());
  while (reader_.read(record_).value()) --written;
  EXPECT_EQ(written, 0u);
  EXPECT_TRUE(reader_.take_hunger());
  EXPECT_FALSE(reader_.take_hunger()) << "told once";
  EXPECT_EQ(writer_.write(record), record.size());
  EXPECT_TRUE(writer_.request_space());
  EXPECT_FALSE(reader_.take_hunger()) << "no writer waits";
}

TEST_F(BrokenRing, DetectsInvalidWriterStateWhenReading) {
  const auto breaks = [&](std::uint64_t written, std::uint64_t head) {
    header().written.store(0);
    header().taken.store(0);
    std::memcpy(data(), &head, sizeof(head));
    RingReader reader(memory_.data(), max_record);
    header().written.store(written);
    std::vector<std::byte> record;
    const auto read = reader.read(record);
    return !read.ok() && read.error().code == ErrorCode::corrupt && !reader.read(record).ok();
  };
  EXPECT_TRUE(breaks(ring_capacity + 1, 8));
  EXPECT_TRUE(breaks(std::uint64_t{0} - 1, 8));
  EXPECT_TRUE(breaks(4, 1)) << "less than a length";
  EXPECT_TRUE(breaks(64, 0));
  EXPECT_TRUE(breaks(64, 57)) << "more than is there";
  EXPECT_TRUE(breaks(64, ring_capacity));
  EXPECT_TRUE(breaks(64, std::uint64_t{1} << 62));
  EXPECT_TRUE(breaks(64, (std::uint64_t{1} << 63) | 57));
  EXPECT_FALSE(breaks(64, 56));
}

TEST_F(BrokenRing, EndlessRecord_IsBounded) {
  const std::vector<std::byte> long_one(max_record + 1);
  std::size_t at = 0;
  Result<bool> read = false;
  while (read.ok() && at < long_one.size()) {
    at = writer_.write(long_one, at);
    read = reader_.read(record_);
  }
  EXPECT_EQ(read.error().code, ErrorCode::corrupt);
}

TEST_F(BrokenRing, DetectsInvalidReaderStateWhenWriting) {
  const std::vector<std::byte> record(1'000);
  while (writer_.write(record) == record.size()) {
  }
  header().taken.store(ring_capacity * 2);
  EXPECT_EQ(writer_.write(record), 0u);
  EXPECT_TRUE(writer_.broken());
}

TEST_F(BrokenRing, RandomBytes_NeitherCrashNorHang) {
  std::mt19937_64 draw(42);
  for (int round = 0; round < 2'000; ++round) {
    RingReader reader(memory_.data(), max_record);
    header().written.store(draw() % (ring_capacity + 64));
    for (std::size_t i = 0; i < ring_capacity; i += 8) {
      const std::uint64_t word = draw() % 4 == 0 ? draw() : draw() % 512;
      std::memcpy(data() + i, &word, 8);
    }
    int records = 0;
    for (auto read = reader.read(record_); read.ok() && read.value(); read = reader.read(record_)) {
      ASSERT_LT(++records, 10'000);
    }
  }
}

// Two threads with one doorbell each, as in two processes: no record is lost, and no thread blocks
// forever.
struct Side {
  Side()
      : files(DoorbellFiles::create().value()),
        bell(Doorbell::open(files.copy().value()).value()) {}
  DoorbellFiles files;
  Doorbell bell;
};

// Blocks until a ring, as a waiting thread does.
void wait_rung(Doorbell& bell) {
  bell.announce(Doorbell::Sleep::on_word);
  if (!bell.rung()) bell.sleep(std::nullopt);
  bell.announce(Doorbell::Sleep::awake);
  bell.collect([](std::size_t) {});
}

void send_all(RingWriter& writer, Doorbell& own, const DoorbellRinger& peer, std::uint64_t count) {
  for (std::uint64_t number = 0; number < count; ++number) {
    const auto record = record_of(number);
    std::size_t at = 0;
    while ((at = writer.write(record, at)) < record.size()) {
      peer.ring(3);
      while (!writer.request_space()) wait_rung(own);
    }
    peer.ring(3);
  }
}

std::uint64_t take_all(RingReader& reader, Doorbell& own, const DoorbellRinger& peer,
                       std::uint64_t count) {
  std::vector<std::byte> record;
  for (std::uint64_t number = 0; number < count;) {
    const auto read = reader.read(record);
    if (!read.ok()) return number;
    if (read.value()) {
      if (record != record_of(number)) return number;
      ++number;
      if (reader.take_hunger()) peer.ring(5);
      continue;
    }
    if (reader.take_hunger()) peer.ring(5);
    wait_rung(own);
  }
  return count;
}

TEST_F(Ring, SleepingThreads_LoseNothing) {
  Side sends, takes;
  const auto to_sender = DoorbellRinger::open(sends.files.copy().value()).value();
  const auto to_taker = DoorbellRinger::open(takes.files.copy().value()).value();
  constexpr std::uint64_t count = 20'000;
  std::thread sender([&] { send_all(writer_, sends.bell, to_taker, count); });
  EXPECT_EQ(take_all(reader_, takes.bell, to_sender, count), count);
  sender.join();
}

// kill -9 of the writer at any time: the reader sees complete records in order, and then nothing.
TEST_F(Ring, WriterKilled_HoldsWholeRecordsOnly) {
  for (int round = 0; round < 30; ++round) {
    SharedMemory memory = make_memory();
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      RingWriter writer(memory.data());
      for (std::uint64_t number = 0;; ++number) {
        const auto record = record_of(number);
        for (std::size_t at = 0; (at = writer.write(record, at)) < record.size();) {
        }
      }
    }
    RingReader reader(memory.data(), max_record);
    const std::uint64_t kill_at = static_cast<std::uint64_t>(round) * 7;
    std::uint64_t number = 0;
    bool killed = false;
    for (;;) {
      const auto read = reader.read(record_);
      ASSERT_TRUE(read.ok()) << read.error().text;
      if (read.value()) {
        ASSERT_EQ(record_, record_of(number)) << "round " << round << ", record " << number;
        ++number;
      } else if (killed) {
        break;
      }
      if (!killed && number >= kill_at) {
        ASSERT_EQ(::kill(child, SIGKILL), 0);
        ASSERT_EQ(::waitpid(child, nullptr, 0), child);
        killed = true;
      }
    }
    EXPECT_GE(number, kill_at);
  }
}

TEST(DoorbellTest, ReportsEachRungRingOnce) {
  Side side;
  const auto ringer = DoorbellRinger::open(side.files.copy().value()).value();
  EXPECT_FALSE(side.bell.rung());
  for (const std::size_t index : {0u, 63u, 64u, 4095u, 64u}) ringer.ring(index);
  EXPECT_TRUE(side.bell.rung());
  std::vector<std::size_t> seen;
  side.bell.collect([&](std::size_t index) { seen.push_back(index); });
  EXPECT_EQ(seen, (std::vector<std::size_t>{0, 63, 64, 4095}));
  EXPECT_FALSE(side.bell.rung());
}

TEST(DoorbellTest, SignalsEventOnlyForParkedSleeper) {
  Side side;
  const auto ringer = DoorbellRinger::open(side.files.copy().value()).value();
  const auto event_count = [&] {
    std::uint64_t count = 0;
    return ::read(side.bell.event(), &count, sizeof(count)) == sizeof(count) ? count : 0;
  };
  ringer.ring(1);
  EXPECT_EQ(event_count(), 0u) << "awake";
  side.bell.announce(Doorbell::Sleep::on_event);
  ringer.ring(1);
  ringer.ring(2);
  EXPECT_EQ(event_count(), 1u) << "woken once";
  side.bell.announce(Doorbell::Sleep::on_event);
  side.bell.ring_self();
  EXPECT_EQ(event_count(), 1u);
  EXPECT_TRUE(side.bell.take_self());
  EXPECT_FALSE(side.bell.take_self());
}

TEST(DoorbellTest, WakesSleeperForEachRinger) {
  Side side;
  const auto ringer = DoorbellRinger::open(side.files.copy().value()).value();
  for (int round = 0; round < 2'000; ++round) {
    std::thread other([&] { round % 2 == 0 ? ringer.ring(9) : side.bell.ring_self(); });
    while (!side.bell.rung()) {
      side.bell.announce(Doorbell::Sleep::on_word);
      if (!side.bell.rung()) side.bell.sleep(std::nullopt);
    }
    side.bell.announce(Doorbell::Sleep::awake);
    side.bell.collect([](std::size_t) {});
    side.bell.take_self();
    other.join();
  }
}

TEST(SharedMemoryTest, RejectsWrongSizeOrMissingSeals) {
  const Fd file = SharedMemory::create_file(8192, "test").value();
  EXPECT_EQ(SharedMemory::map(file.get(), 4096).error().code, ErrorCode::invalid_argument);
  EXPECT_NE(::ftruncate(file.get(), 4096), 0) << "sealed";
  const Fd open(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(open.get(), 8192), 0);
  EXPECT_EQ(SharedMemory::map(open.get(), 8192).error().code, ErrorCode::permission_denied);
  EXPECT_FALSE(SharedMemory::map(-1, 8192).ok());
}

}  // namespace
}  // namespace mobula::internal
