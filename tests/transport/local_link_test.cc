#include "transport/local/local_link.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "transport/bytes_fixture.h"
#include "transport/child_fixture.h"
#include "transport/loop_fixture.h"

namespace mobula::internal {
namespace {

// One end of a link, with its received frames.
struct End {
  std::vector<LocalFrame> frames;
  std::optional<Failure> closed;
  std::unique_ptr<LocalLink> link;

  void open(EventLoop& loop, Fd socket, LocalLinkOptions options = {}) {
    link = LocalLink::open(loop, std::move(socket),
                           {.on_frame = [this](LocalFrame f) { frames.push_back(std::move(f)); },
                            .on_closed = [this](const Failure& why) { closed = why; }},
                           options)
               .value();
  }
};

class LocalLinkTest : public ::testing::Test {
 protected:
  void open_both(LocalLinkOptions options = {}) {
    auto pair = make_local_pair().value();
    a_.open(*loop_, std::move(pair.first), options);
    b_.open(*loop_, std::move(pair.second), options);
  }

  const std::unique_ptr<EventLoop> loop_ = make_loop();
  End a_;
  End b_;
};

using LocalLinkFrames = LocalLinkTest;
using LocalLinkFaults = LocalLinkTest;
using LocalLinkPeers = LocalLinkTest;

TEST_F(LocalLinkFrames, DeliversTenThousandInOrder) {
  open_both();
  constexpr std::size_t count = 10'000;
  for (std::size_t i = 0; i < count; ++i) {
    // Sizes around the limits of headers and reads.
    const std::string text =
        fmt::format("{}:{}", i, std::string(i % 97 == 0 ? 70'000 : i % 50, 'x'));
    ASSERT_TRUE(a_.link->send(bytes_of(text)));
    if (i % 100 == 0) loop_->turn(0ms);
  }
  ASSERT_TRUE(turn_until(*loop_, [&] { return b_.frames.size() == count; }));
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(text_of(b_.frames[i].bytes).starts_with(fmt::format("{}:", i)));
  }
  EXPECT_EQ(a_.link->queued_bytes(), 0u);
}

TEST_F(LocalLinkFrames, AcceptsEmptyAndLargest) {
  open_both();
  const std::vector<std::byte> largest(16u << 20, std::byte{7});
  ASSERT_TRUE(a_.link->send({}));
  ASSERT_TRUE(a_.link->send(largest));
  ASSERT_TRUE(turn_until(*loop_, [&] { return b_.frames.size() == 2; }));
  EXPECT_TRUE(b_.frames[0].bytes.empty());
  EXPECT_EQ(b_.frames[1].bytes, largest);
  EXPECT_EQ(a_.link->send(std::vector<std::byte>((16u << 20) + 1)).error().code,
            ErrorCode::invalid_argument);
}

TEST_F(LocalLinkFrames, DeliversDescriptorsWithTheirFrames) {
  open_both();
  // Queued behind bytes that the kernel does not accept at once, so that descriptors also wait in
  // the queue.
  ASSERT_TRUE(a_.link->send(std::vector<std::byte>(4u << 20)));
  for (int i = 0; i < 20; ++i) {
    std::vector<Fd> fds;
    for (int k = 0; k < i % 4; ++k) {
      Fd file(::memfd_create("test", MFD_CLOEXEC));
      const std::string text = fmt::format("{}/{}", i, k);
      ASSERT_EQ(::write(file.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
      fds.push_back(std::move(file));
    }
    ASSERT_TRUE(a_.link->send(bytes_of(fmt::format("{}", i)), std::move(fds)));
  }
  ASSERT_TRUE(turn_until(*loop_, [&] { return b_.frames.size() == 21; }));
  for (int i = 0; i < 20; ++i) {
    const LocalFrame& frame = b_.frames[static_cast<std::size_t>(i) + 1];
    EXPECT_EQ(text_of(frame.bytes), fmt::format("{}", i));
    ASSERT_EQ(frame.fds.size(), static_cast<std::size_t>(i % 4));
    for (std::size_t k = 0; k < frame.fds.size(); ++k) {
      std::array<char, 16> text{};
      const ssize_t size = ::pread(frame.fds[k].get(), text.data(), text.size(), 0);
      EXPECT_EQ(std::string(text.data(), static_cast<std::size_t>(size)),
                fmt::format("{}/{}", i, k));
      EXPECT_NE(::fcntl(frame.fds[k].get(), F_GETFD) & FD_CLOEXEC, 0);
    }
  }
}

TEST_F(LocalLinkFrames, QueueFull_RejectsWholeFrames) {
  auto pair = make_local_pair().value();
  a_.open(*loop_, std::move(pair.first), {.max_queued_bytes = 1u << 20});
  const std::vector<std::byte> frame(100'000);
  std::size_t taken = 0;
  Result<void> sent;
  while ((sent = a_.link->send(frame)).ok()) ++taken;
  EXPECT_EQ(sent.error().code, ErrorCode::resource_exhausted);
  EXPECT_LE(a_.link->queued_bytes(), (1u << 20) + 8 * taken);
  b_.open(*loop_, std::move(pair.second));
  ASSERT_TRUE(turn_until(*loop_, [&] { return b_.frames.size() == taken; }));
  EXPECT_TRUE(a_.link->send(frame).ok()) << "room again";
}

// A peer that always has more small frames to send does not delay the frame of another peer.
TEST_F(LocalLinkPeers, ManySmallFrames_OthersAreServed) {
  auto flooded = make_local_pair().value();
  auto quiet = make_local_pair().value();
  std::string frames;
  for (int i = 0; i < 1'000; ++i) {
    std::array<std::byte, LocalFrameHeader::size> header{};
    LocalFrameHeader{1, 0}.write(header);
    frames += text_of(header) + "x";
  }
  std::size_t received = 0;
  std::size_t sent = 0;
  const auto top_up = [&] {
    for (;;) {
      const auto rest = std::string_view(frames).substr(sent % frames.size());
      const auto count =
          ::send(flooded.first.get(), rest.data(), rest.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      if (count <= 0) return;
      sent += static_cast<std::size_t>(count);
    }
  };
  const auto link = LocalLink::open(*loop_, std::move(flooded.second),
                                    {.on_frame =
                                         [&](LocalFrame) {
                                           if (++received % 1'000 == 0) top_up();
                                         },
                                     .on_closed = nullptr})
                        .value();
  std::optional<std::size_t> received_before;
  const auto other = LocalLink::open(*loop_, std::move(quiet.second),
                                     {.on_frame = [&](LocalFrame) { received_before = received; },
                                      .on_closed = nullptr})
                         .value();
  a_.open(*loop_, std::move(quiet.first));
  top_up();
  ASSERT_TRUE(a_.link->send(bytes_of("word")));
  ASSERT_TRUE(turn_until(*loop_, [&] { return received_before.has_value(); }));
  EXPECT_LT(*received_before, 20'000u);
}

TEST_F(LocalLinkPeers, End_FollowsAllFrames) {
  open_both();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(a_.link->send(bytes_of("x")));
  a_.link.reset();
  ASSERT_TRUE(turn_until(*loop_, [&] { return b_.closed.has_value(); }));
  EXPECT_EQ(b_.frames.size(), 100u);
  EXPECT_EQ(b_.closed->code, ErrorCode::unavailable);
  EXPECT_EQ(b_.link->send(bytes_of("y")).error().code, ErrorCode::unavailable);
}

TEST_F(LocalLinkPeers, PeerClosed_QueuedFramesAreStillRead) {
  open_both();
  ASSERT_TRUE(b_.link->send(bytes_of("never read")));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(a_.link->send(bytes_of("x")));
  a_.link.reset();
  EXPECT_EQ(b_.link->send(bytes_of("y")).error().code, ErrorCode::unavailable);
  ASSERT_TRUE(turn_until(*loop_, [&] { return b_.closed.has_value(); }));
  EXPECT_EQ(b_.frames.size(), 100u);
}

TEST_F(LocalLinkPeers, PeerKilled_EndsAfterLastWholeFrame) {
  auto pair = make_local_pair().value();
  Child child([&] {
    pair.second.reset();
    const std::vector<std::byte> frame(50'000, std::byte{1});
    while (send_frame(pair.first, frame, {}, monotonic_now() + 10s)) {
    }
  });
  pair.first.reset();
  b_.open(*loop_, std::move(pair.second));
  ASSERT_TRUE(turn_until(*loop_, [&] { return b_.frames.size() > 100; }));
  child.kill();
  ASSERT_TRUE(turn_until(*loop_, [&] { return b_.closed.has_value(); }));
  EXPECT_EQ(b_.closed->code, ErrorCode::unavailable);
  for (const LocalFrame& frame : b_.frames) EXPECT_EQ(frame.bytes.size(), 50'000u);
}

TEST_F(LocalLinkPeers, Owner_MayDestroyLinkInCallback) {
  auto pair = make_local_pair().value();
  int frames = 0;
  std::unique_ptr<LocalLink> link = LocalLink::open(*loop_, std::move(pair.second),
                                                    {.on_frame =
                                                         [&](LocalFrame) {
                                                           ++frames;
                                                           link.reset();
                                                         },
                                                     .on_closed = [](const Failure&) { FAIL(); }})
                                        .value();
  a_.open(*loop_, std::move(pair.first));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(a_.link->send(bytes_of("x")));
  ASSERT_TRUE(turn_until(*loop_, [&] { return a_.closed.has_value(); }));
  EXPECT_EQ(frames, 1);
}

TEST_F(LocalLinkPeers, ReadsCredentialsFromKernel) {
  const auto pair = make_local_pair().value();
  const auto peer = credentials_of(pair.first).value();
  EXPECT_EQ(peer.pid, ::getpid());
  EXPECT_EQ(peer.uid, ::geteuid());
  EXPECT_EQ(peer.gid, ::getegid());
}

TEST_F(LocalLinkFaults, OversizedHeader_ClosesWithoutAllocation) {
  auto pair = make_local_pair().value();
  b_.open(*loop_, std::move(pair.second), {.limits = {.max_bytes = 1000}});
  std::array<std::byte, 8> header;
  LocalFrameHeader{0x7fffffff, 0}.write(header);
  ASSERT_EQ(::write(pair.first.get(), header.data(), header.size()), 8);
  ASSERT_TRUE(turn_until(*loop_, [&] { return b_.closed.has_value(); }));
  EXPECT_EQ(b_.closed->code, ErrorCode::corrupt);
  EXPECT_NE(b_.closed->text.find("1000"), std::string::npos);
}

TEST_F(LocalLinkFaults, MissingDescriptors_AreCorrupt) {
  auto pair = make_local_pair().value();
  b_.open(*loop_, std::move(pair.second));
  std::array<std::byte, 8> header;
  LocalFrameHeader{0, 2}.write(header);
  ASSERT_EQ(::write(pair.first.get(), header.data(), header.size()), 8);
  ASSERT_TRUE(turn_until(*loop_, [&] { return b_.closed.has_value(); }));
  EXPECT_EQ(b_.closed->code, ErrorCode::corrupt);
}

TEST_F(LocalLinkFaults, UnannouncedDescriptors_CloseLink) {
  auto pair = make_local_pair().value();
  b_.open(*loop_, std::move(pair.second), {.limits = {.max_fds = 3}});
  std::vector<Fd> one;
  one.emplace_back(::memfd_create("test", MFD_CLOEXEC));
  std::array<std::byte, 8> header;
  LocalFrameHeader{1'000, 0}.write(header);
  ASSERT_TRUE(send_some(pair.first.get(), header, {}, one));
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(send_some(pair.first.get(), std::span(header).first(1), {}, one));
  }
  ASSERT_TRUE(turn_until(*loop_, [&] { return b_.closed.has_value(); }));
  EXPECT_EQ(b_.closed->code, ErrorCode::corrupt);
}

TEST_F(LocalLinkFaults, Garbage_ClosesOnlyItsLink) {
  auto pair = make_local_pair().value();
  b_.open(*loop_, std::move(pair.second));
  const std::string garbage = "GET / HTTP/1.1\r\nHost: x\r\n\r\n" + std::string(1000, '\xff');
  ASSERT_EQ(::write(pair.first.get(), garbage.data(), garbage.size()),
            static_cast<ssize_t>(garbage.size()));
  ASSERT_TRUE(turn_until(*loop_, [&] { return b_.closed.has_value(); }));
  EXPECT_EQ(b_.closed->code, ErrorCode::corrupt);
  EXPECT_TRUE(b_.frames.empty());
}

TEST(LocalFrame, BlockingExchange_LeavesNextFrame) {
  const auto pair = make_local_pair().value();
  const Time deadline = monotonic_now() + 5s;
  std::vector<Fd> fds;
  fds.emplace_back(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_TRUE(send_frame(pair.first, bytes_of("one"), fds, deadline));
  ASSERT_TRUE(send_frame(pair.first, bytes_of("two"), {}, deadline));
  const auto one = receive_frame(pair.second, deadline);
  EXPECT_EQ(text_of(one->bytes), "one");
  EXPECT_EQ(one->fds.size(), 1u);
  const auto two = receive_frame(pair.second, deadline);
  EXPECT_EQ(text_of(two->bytes), "two");
  EXPECT_TRUE(two->fds.empty());
}

TEST(LocalFrame, Receive_EndsAtDeadlineAndEndOfStream) {
  auto pair = make_local_pair().value();
  EXPECT_EQ(receive_frame(pair.second, monotonic_now() + 20ms).error().code, ErrorCode::timed_out);
  pair.first.reset();
  EXPECT_EQ(receive_frame(pair.second, monotonic_now() + 5s).error().code, ErrorCode::unavailable);
}

TEST(LocalFrame, BlockingSend_EndsAtDeadline) {
  const auto pair = make_local_pair().value();
  const std::vector<std::byte> large(8u << 20);
  EXPECT_EQ(send_frame(pair.first, large, {}, monotonic_now() + 50ms).error().code,
            ErrorCode::timed_out);
}

TEST(LocalFrame, BlockingReceive_RejectsBeyondLimits) {
  const auto pair = make_local_pair().value();
  const Time deadline = monotonic_now() + 5s;
  ASSERT_TRUE(send_frame(pair.first, bytes_of("four"), {}, deadline));
  EXPECT_EQ(receive_frame(pair.second, deadline, {.max_bytes = 3}).error().code,
            ErrorCode::corrupt);
}

}  // namespace
}  // namespace mobula::internal
