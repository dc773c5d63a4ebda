// Memory of a bus for connections that have not proven a key.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <malloc.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "sanitizers.h"
#include "transport/bus/message_chunks.h"
#include "transport/bus_fixture.h"
#include "transport/child_fixture.h"
#include "transport/curve_attacker.h"
#include "transport/local/local_link.h"
#include "transport/raw_client.h"

namespace mobula::internal {
namespace {

std::size_t resident_bytes_of(pid_t pid) {
  std::ifstream in(fmt::format("/proc/{}/statm", pid));
  std::size_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Bytes that wait in the kernel for the process that listens at `port`.
std::size_t unread_bytes_at(std::uint16_t port) {
  std::ifstream in("/proc/net/tcp");
  std::size_t sum = 0;
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::istringstream fields(line);
    std::string number, local, remote, state, queues;
    fields >> number >> local >> remote >> state >> queues;
    const auto of = std::stoul(local.substr(local.rfind(':') + 1), nullptr, 16);
    if (of == port && state == "01") sum += std::stoul(queues.substr(9), nullptr, 16);
  }
  return sum;
}

// The owner of this bus is busy, so that its checks close no connection. The frames of the
// attackers lack their last byte.
TEST_F(BusTest, SlowHandshakes_Hold64KibEach) {
  if (sanitized) GTEST_SKIP() << "a sanitizer adds to the memory of a process";
  constexpr std::size_t connections = 60;
  const auto pipe = make_local_pair().value();
  Child child([&] {
    leave_loop_to_parent();
    server_.open(*loop_, server_options());
    const std::string address = server_.bus->bind("127.0.0.1:0").value();
    ::malloc_trim(0);  // so that no connection reuses memory
    ASSERT_TRUE(send_frame(pipe.second, bytes_of(address), {}, monotonic_now() + 5s));
    ::pause();
  });
  const auto address = text_of(receive_frame(pipe.first, monotonic_now() + 10s)->bytes);
  const auto port = static_cast<std::uint16_t>(std::stoul(address.substr(address.rfind(':') + 1)));
  const std::size_t before = resident_bytes_of(child.pid());
  std::string bytes("\xff\0\0\0\0\0\0\0\1\x7f\3\0CURVE", 17);
  bytes.resize(64, '\0');
  bytes += std::string("\6\0\0\0\0\0\0", 7);
  bytes += static_cast<char>(ChunkLimits::frame_bytes >> 8);
  bytes += '\0';
  bytes += std::string(ChunkLimits::frame_bytes - 1, 'x');
  std::vector<Fd> attackers;
  for (std::size_t i = 0; i < connections; ++i) {
    attackers.push_back(connect_raw(address));
    ASSERT_EQ(::send(attackers.back().get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  const auto all_taken = [&] {
    for (const Fd& each : attackers) {
      int unsent = 0;
      if (::ioctl(each.get(), SIOCOUTQ, &unsent) != 0 || unsent > 0) return false;
    }
    return unread_bytes_at(port) == 0;
  };
  ASSERT_TRUE(until(all_taken));
  const std::size_t each = (resident_bytes_of(child.pid()) - before) / connections;
  std::cout << each << " bytes per connection\n";
  EXPECT_GE(each, ChunkLimits::frame_bytes) << "libzmq holds the frames";
  EXPECT_LE(each, std::size_t{64} << 10);
}

bool closed_for_handshake(const BusEnd& server) {
  return std::ranges::any_of(server.closed, [](const std::string& each) {
    return each.find("bytes of a handshake arrived before a key was proven; the limit is 2048") !=
           std::string::npos;
  });
}

// The bus of a head admits only known keys. The buses of agents and executors first admit any key.
class BusMemory : public BusTest, public ::testing::WithParamInterface<UnknownKeys> {
 protected:
  BusMemory() : BusTest(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(Tables, BusMemory,
                         ::testing::Values(UnknownKeys::refuse, UnknownKeys::unproven));

// libzmq keeps each property in about 112 bytes until the connection ends, that is 0.5 MiB for a
// frame, although the key is unknown.
TEST_P(BusMemory, ClosesHandshakeWithMetadata) {
  open_server();
  CurveAttacker attacker(address_, client_keys_, server_keys_.public_key);
  attacker.shake_hands(CurveAttacker::metadata(4'000));
  ASSERT_TRUE(until([&] { return !server_.closed.empty(); }));
  EXPECT_TRUE(closed_for_handshake(server_)) << server_.closed.front();
}

// A first message that proves nothing does not hide the metadata.
TEST_F(UnprovenBusTest, FirstMessage_HidesNoMetadata) {
  open_server();
  server_.on_each = [&](PeerHandle from) { server_.bus->disconnect(from); };
  RawClient attacker(ZMQ_DEALER, address_, "", &client_keys_, server_keys_.public_key, 2'000);
  attacker.send("x");
  ASSERT_TRUE(until([&] { return !server_.closed.empty(); }));
  EXPECT_EQ(server_.messages.size(), 1u);
  EXPECT_TRUE(closed_for_handshake(server_)) << server_.closed.front();
}

// Each byte of a handshake arrives alone, so that no check finds a frame that is complete.
TEST_P(BusMemory, ClosesHandshakeThatGrows) {
  open_server();
  const Fd attacker = connect_raw(address_);
  std::string bytes("\xff\0\0\0\0\0\0\0\1\x7f\3\0CURVE", 17);
  bytes.resize(64, '\0');
  bytes += std::string("\6\0\0\0\0\0\0\x80\0", 9);  // announces 32 KiB
  bytes.resize(4'096, 'x');
  std::size_t sent = 0;
  ASSERT_TRUE(until([&] {
    const auto part = std::min<std::size_t>(64, bytes.size() - sent);
    if (part > 0) (void)::send(attacker.get(), bytes.data() + sent, part, MSG_NOSIGNAL);
    sent += part;
    return !server_.closed.empty();
  }));
  EXPECT_TRUE(closed_for_handshake(server_)) << server_.closed.front();
}

// A peer that proves its key with its first message may send many bytes after it.
TEST_P(BusMemory, HonestPeer_SendsAtOnce) {
  if (GetParam() == UnknownKeys::refuse) {
    ASSERT_TRUE(table_.allow(client_keys_.public_key, "client"));
  }
  open_server();
  server_.on_each = [&](PeerHandle from) { server_.bus->trust(from); };
  client_.open(*loop_, client_options());
  peer_ = client_.bus->connect(address_, server_keys_.public_key).value();
  const std::vector<std::byte> message(20'000);
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(client_.bus->send(peer_, message));
  ASSERT_TRUE(until([&] { return server_.messages.size() == 50; }));
  EXPECT_TRUE(server_.closed.empty()) << server_.closed.front();
}

}  // namespace
}  // namespace mobula::internal
