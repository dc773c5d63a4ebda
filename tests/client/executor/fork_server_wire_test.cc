#include "protocol/messages/fork_server_wire.h"

#include <gtest/gtest.h>

#include <array>

namespace mobula::internal {
namespace {

ForkRequest sample_request() {
  return ForkRequest{ProcessId::of(1),
                     SlotId::of(2),
                     0xfedcba9876543210ULL,
                     4242,
                     {{"CUDA_VISIBLE_DEVICES", "0,1"}, {"EMPTY", ""}}};
}

TEST(ForkServerWire, RestoresMessages) {
  EXPECT_EQ(decode_fork_request(encode(sample_request())), sample_request());
  const ForkReply reply{ProcessId::of(3), 77, "no memory"};
  EXPECT_EQ(decode_fork_reply(encode(reply)), reply);
  const ForkServerHello hello{fork_server_wire_version, "two threads"};
  EXPECT_EQ(decode_fork_server_hello(encode(hello)), hello);
}

TEST(ForkServerWire, RejectsTruncationAndTrailingBytes) {
  const std::string packet = encode(sample_request());
  for (std::size_t size = 0; size < packet.size(); ++size) {
    EXPECT_FALSE(decode_fork_request(std::string_view(packet).substr(0, size))) << size;
  }
  EXPECT_FALSE(decode_fork_request(packet + "x"));
}

TEST(ForkServerWire, RejectsOtherKind) {
  EXPECT_FALSE(decode_fork_reply(encode(sample_request())));
  EXPECT_FALSE(decode_fork_server_hello(encode(ForkReply{})));
}

TEST(ForkServerWire, RejectsCountBeyondPacket) {
  std::string packet = encode(ForkRequest{});
  for (std::size_t i = packet.size() - 4; i < packet.size(); ++i) packet[i] = '\xff';
  EXPECT_FALSE(decode_fork_request(packet));
}

TEST(ForkServerWire, CarriesDescriptors) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Fd a(ends[0]);
  Fd b(ends[1]);
  const std::array<int, 2> sent{a.get(), b.get()};
  ASSERT_TRUE(send_packet(a.get(), "hello", sent, 0).ok());
  auto packet = receive_packet(b.get(), 0);
  ASSERT_TRUE(packet.ok());
  EXPECT_EQ(packet->bytes, "hello");
  EXPECT_EQ(packet->fds.size(), 2u);
  const auto none = receive_packet(b.get(), MSG_DONTWAIT);
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::resource_exhausted);
  packet->fds.clear();
  b.reset();
  const auto refused = send_packet(a.get(), "hello", {}, 0);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::unavailable);
}

TEST(ForkServerWire, RejectsOversizedEnvironmentWithSize) {
  const std::string large(fork_server_packet_limit + 1, 'x');
  const auto sent = send_packet(0, large, {}, 0);
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace mobula::internal
