// Unit tests of the parts of transports.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "transport/bytes_fixture.h"
#include "transport/loop_fixture.h"
#include "transport/tensor/arena.h"
#include "transport/tensor/blob.h"
#include "transport/tensor/copy_threads.h"
#include "transport/tensor/first_touch.h"
#include "transport/tensor/offer_versions.h"
#include "transport/tensor/receive_pool.h"
#include "transport/tensor/shm/shm_wire.h"
#include "transport/tensor/tcp/tcp_wire.h"

namespace mobula::internal {
namespace {

TEST(DirectArena, ReusesReturnedMemoryAndClosesBlocks) {
  int closed = 0;
  Arena arena({.block_bytes = 2u << 20, .max_bytes = 8u << 20, .kept_bytes = 2u << 20},
              [&](FileKey) { ++closed; });
  auto first = arena.take(1'000).value();
  auto second = arena.take(1'000).value();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second.bytes().data()) % 256, 0u);
  EXPECT_EQ(first.file().fd, second.file().fd);
  EXPECT_NE(first.file().offset, second.file().offset);
  const std::byte* const domain = first.bytes().data();
  first = ArenaBytes();
  auto again = arena.take(900).value();
  EXPECT_EQ(again.bytes().data(), domain) << "touched pages first";
  {
    const auto large = arena.take(5u << 20).value();
    EXPECT_FALSE(arena.take(4u << 20)) << "beyond its limit";
    EXPECT_EQ(arena.block_bytes(), 8u << 20);
  }
  EXPECT_EQ(closed, 1);
  EXPECT_EQ(arena.block_bytes(), 2u << 20);
  again = ArenaBytes();
  second = ArenaBytes();
  EXPECT_EQ(arena.used_bytes(), 0u);
  EXPECT_EQ(closed, 1) << "one block is kept";
  EXPECT_TRUE(arena.take(2u << 20)) << "in one piece again";
}

TEST(DirectArena, RejectsForeignWriteAndShrink) {
  Arena arena;
  const auto bytes = arena.take(100).value();
  const int fd = bytes.file().fd;
  EXPECT_NE(::ftruncate(fd, 0), 0);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  EXPECT_EQ(::pwrite(fd, "x", 1, 0), -1);
  // A file that could shrink is rejected.
  const Fd loose(::memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(loose.get(), 4096), 0);
  EXPECT_EQ(ReadMapping::map(loose.get(), 4096).error().code, ErrorCode::permission_denied);
  const Fd other(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  EXPECT_FALSE(ReadMapping::map(other.get(), 4096));
}

TEST(DirectLedger, OfferEnded_ReaderLearnsIt) {
  auto ledger = OfferVersions::create(2).value();
  const auto reader = ReadMapping::map(ledger.fd(), ledger.size_bytes()).value();
  const OfferVersion first = ledger.take(), second = ledger.take();
  EXPECT_TRUE(ledger.full());
  EXPECT_TRUE(*offer_stands(*reader, first));
  ledger.end(first);
  EXPECT_FALSE(*offer_stands(*reader, first));
  EXPECT_TRUE(*offer_stands(*reader, second));
  const OfferVersion third = ledger.take();
  EXPECT_EQ(third.slot, first.slot);
  EXPECT_TRUE(*offer_stands(*reader, third));
  EXPECT_FALSE(*offer_stands(*reader, first)) << "its slot is another's now";
  EXPECT_FALSE(offer_stands(*reader, {1u << 20, 0}));
  EXPECT_FALSE(offer_stands(*reader, {~0ull, 0}));
}

TEST(DirectFirstTouch, ChoosesSmallPagesWhenHugeOnesAreSlow) {
  constexpr std::uint64_t chunk = 4u << 20;
  HugePageChoice choice;
  EXPECT_TRUE(choice.huge(chunk));
  choice.note(1'400us, chunk);
  EXPECT_TRUE(choice.huge(chunk)) << "as fast as small pages";
  choice.note(1'600us, chunk);
  for (std::uint64_t bytes = 0; bytes < HugePageChoice::small_bytes; bytes += chunk)
    ASSERT_FALSE(choice.huge(chunk)) << bytes;
  EXPECT_TRUE(choice.huge(chunk)) << "the next attempt";
  choice.note(9'000us, 4096);
  EXPECT_TRUE(choice.huge(chunk)) << "too few bytes for a measurement";
}

// Counts resident pages before and after.
TEST(DirectFirstTouch, PopulatesWholePages) {
  constexpr std::size_t page = 4096, pages = 64;
  void* const at =
      ::mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(at, MAP_FAILED);
  if (::madvise(at, page, 23) != 0) GTEST_SKIP() << "MADV_POPULATE_WRITE needs Linux 5.14";
  const auto resident = [&] {
    std::vector<unsigned char> map(pages);
    EXPECT_EQ(::mincore(at, pages * page, map.data()), 0);
    return std::count_if(map.begin(), map.end(), [](unsigned char each) { return each & 1U; });
  };
  FirstTouch touch;
  const std::span all(static_cast<std::byte*>(at), pages * page);
  touch.populate(all.subspan(page, 100));
  touch.populate({});
  EXPECT_EQ(resident(), 1) << "only the page that the test populated";
  touch.populate(all.subspan(8 * page - 1, 4 * page + 2));
  EXPECT_EQ(resident(), 5);
  touch.populate(all);
  EXPECT_EQ(resident(), static_cast<std::ptrdiff_t>(pages));
  ::munmap(at, pages * page);
}

TEST(DirectReceivePool, ReusesTouchedMemoryUpToLimit) {
  ReceivePool pool({.kept_bytes = 8u << 20, .max_bytes = 32u << 20});
  const std::byte* domain = nullptr;
  {
    const auto buffer = pool.take(3u << 20).value();
    EXPECT_FALSE(buffer.warm());
    EXPECT_EQ(buffer.bytes().size(), 3u << 20);
    domain = buffer.bytes().data();
  }
  {
    const auto buffer = pool.take((3u << 20) - 5).value();
    EXPECT_TRUE(buffer.warm());
    EXPECT_EQ(buffer.bytes().data(), domain);
    EXPECT_FALSE(pool.take(30u << 20)) << "beyond its limit";
    const auto large = pool.take(16u << 20).value();
  }
  EXPECT_LE(pool.kept_bytes(), 8u << 20);
  EXPECT_EQ(pool.all_bytes(), pool.kept_bytes()) << "buffers that are not kept are freed";
  const auto loop = make_loop();
  const auto copies = CopyThreads::create(*loop).value();
  pool.prepare(1u << 20, *copies);
  const auto before = pool.kept_bytes();
  EXPECT_TRUE(turn_until(*loop, [&] { return pool.kept_bytes() > before; }));
  EXPECT_TRUE(pool.take(1u << 20).value().warm());
}

// The large copy writes the same memory repeatedly, so that only `stop` ends it within the test.
TEST(DirectCopies, AlternatesAndStopsBetweenSlices) {
  const auto loop = make_loop();
  const auto copies = CopyThreads::create(*loop, {.threads = 1, .slice_bytes = 4096}).value();
  std::vector<std::byte> from(40u << 20, std::byte{7}), to(from.size()), small(100);
  std::byte last{};
  int ended = 0;
  bool stopped = false;
  Copy large;
  large.pieces.assign(100'000, {to.data(), from.data(), to.size()});
  large.pieces.push_back({&last, from.data(), 1});
  large.ended = [&](const CopyEnd& end) {
    ++ended;
    stopped = !end.result && end.result.error().code == ErrorCode::cancelled;
    EXPECT_EQ(small[99], std::byte{7}) << "the small one was served in between";
  };
  const auto number = copies->start(std::move(large)).value();
  Copy little;
  little.pieces.push_back({small.data(), from.data(), small.size()});
  little.ended = [&](const CopyEnd& end) {
    ++ended;
    EXPECT_TRUE(end.result);
    copies->stop(number);
  };
  ASSERT_TRUE(copies->start(std::move(little)));
  EXPECT_TRUE(turn_until(*loop, [&] { return ended == 2; }));
  EXPECT_TRUE(stopped);
  EXPECT_EQ(last, std::byte{});
}

TEST(DirectCopies, ReportsErrorOfCrossProcessCopy) {
  Copy copy;
  std::byte here{};
  copy.pieces.push_back({&here, reinterpret_cast<const std::byte*>(16), 1});
  copy.process = ::getpid();
  EXPECT_EQ(copy_now(copy).error().code, ErrorCode::corrupt);
  copy.process = 0x3fffff;  // above the pid range of this machine
  EXPECT_EQ(copy_now(copy).error().code, ErrorCode::unavailable);
}

// Truncated or changed input is rejected or decoded, without any other effect.
template <class Decode>
void survives(const Blob& honest, const Decode& decode) {
  EXPECT_TRUE(decode(honest));
  for (std::size_t size = 0; size < honest.size(); ++size) {
    EXPECT_FALSE(decode(Blob(honest.begin(), honest.begin() + static_cast<std::ptrdiff_t>(size))));
  }
  for (std::size_t at = 0; at < honest.size(); ++at) {
    for (const int value : {0x00, 0x7f, 0x80, 0xff}) {
      Blob changed = honest;
      changed[at] = static_cast<std::byte>(value);
      (void)decode(changed);
    }
  }
  Blob longer = honest;
  longer.push_back(std::byte{});
  EXPECT_FALSE(decode(longer));
}

TEST(DirectWire, RejectsTruncatedOrOversizedFrames) {
  const DirectLimits limits;
  ShmTicket shm;
  shm.pieces = {{ShmFileRef{3, DirectToken::random()}, 5, 7}, {std::nullopt, 1, 2}};
  const Hash128 key = random_bits();
  survives(shm.encode(key),
           [&](const Blob& bytes) { return ShmTicket::decode(bytes, limits).ok(); });
  EXPECT_TRUE(check_ticket_sum(shm.encode(key), key));
  EXPECT_FALSE(check_ticket_sum(shm.encode(key), random_bits()));
  TcpTicket tcp;
  tcp.sizes = {1, 2, 3};
  tcp.right.key = random_secret();
  survives(tcp.encode(), [&](const Blob& bytes) { return TcpTicket::decode(bytes, limits).ok(); });
  survives(ShmEndpoint{DirectKind::shm, ProcessId::of(1), {}, "/x/y"}.encode(),
           [](const Blob& bytes) { return ShmEndpoint::decode(bytes).ok(); });
  survives(TcpEndpoint{ProcessId::of(1), "127.0.0.1:1"}.encode(),
           [](const Blob& bytes) { return TcpEndpoint::decode(bytes).ok(); });
  const auto message = [](const Blob& bytes) { return decode_shm_message(bytes).ok(); };
  survives(encode(ShmHello{DirectKind::shm, ProcessId::of(1), ProcessId::of(2), 3}), message);
  survives(encode(ShmFileRequest{{1, DirectToken::random()}}), message);
  survives(encode(ShmWelcome{random_bits(), 1, random_bits()}), message);
  survives(encode(ShmFile{1, 2}), message);
  survives(encode(ShmRefusal{1, failure(ErrorCode::not_found, "x")}), message);
  survives(encode(ShmForget{1}), message);
}

}  // namespace
}  // namespace mobula::internal
