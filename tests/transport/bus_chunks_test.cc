// Large messages of a bus, in chunks.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "transport/bus/message_chunks.h"
#include "transport/bus_fixture.h"
#include "transport/raw_client.h"

namespace mobula::internal {
namespace {

constexpr std::uint32_t small_chunk = 64u << 10;

// A peer that sends the frames of a bus itself.
class ChunkClient : public RawClient {
 public:
  using RawClient::RawClient;

  // Sends one chunk of a message of zeros.
  void send_chunk(std::uint64_t message, std::size_t bytes, std::uint32_t index) {
    const ChunkHeader header{message, bytes, index, small_chunk};
    send(text_of(header.encode()), zmq::send_flags::sndmore);
    const std::string payload(header.payload_bytes(), '\0');
    for (std::size_t at = 0; at < payload.size(); at += ChunkLimits::frame_bytes) {
      const auto part = payload.substr(at, ChunkLimits::frame_bytes);
      const bool last = at + part.size() == payload.size();
      send(part, last ? zmq::send_flags::none : zmq::send_flags::sndmore);
    }
  }
};

class BusChunks : public BusTest {
 protected:
  explicit BusChunks(UnknownKeys unknown = UnknownKeys::refuse) : BusTest(unknown) {}
  void SetUp() override { ASSERT_TRUE(table_.allow(client_keys_.public_key, "client")); }

  static BusOptions with_small_chunks(BusOptions options) {
    options.chunk_bytes = small_chunk;
    return options;
  }
  void open_small_server() { open_server_with(with_small_chunks(server_options())); }
  void open_server_with(const BusOptions& options) {
    server_.open(*loop_, options);
    address_ = server_.bus->bind("127.0.0.1:0").value();
  }
  void open_client() {
    client_.open(*loop_, with_small_chunks(client_options()));
    peer_ = client_.bus->connect(address_, server_keys_.public_key).value();
  }
  std::unique_ptr<ChunkClient> connect_admitted() {
    return std::make_unique<ChunkClient>(ZMQ_DEALER, address_, "", &client_keys_,
                                         server_keys_.public_key);
  }
  bool client_is_served() {
    if (!peer_) open_client();
    const std::size_t before = server_.messages.size();
    EXPECT_TRUE(client_.bus->send(peer_, bytes_of("still here")));
    return until([&] { return server_.messages.size() > before; });
  }
};

TEST_F(BusChunks, SendInOrder) {
  open_small_server();
  open_client();
  std::vector<std::string> sent;
  for (const std::size_t size : {10u, 16u << 20, 1u, small_chunk, small_chunk + 1, 3u << 20, 5u})
    sent.emplace_back(size, static_cast<char>('a' + sent.size()));
  for (const auto& each : sent) ASSERT_TRUE(client_.bus->send(peer_, bytes_of(each)));
  ASSERT_TRUE(until([&] { return server_.messages.size() == sent.size(); }));
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_TRUE(server_.messages[i].text == sent[i]) << i;
  }
  for (const auto& each : sent)
    ASSERT_TRUE(server_.bus->send(server_.messages[0].from, bytes_of(each)));
  ASSERT_TRUE(until([&] { return client_.messages.size() == sent.size(); }));
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_TRUE(client_.messages[i].text == sent[i]) << i;
  }
  EXPECT_EQ(client_.bus->counters().sent, sent.size());
  EXPECT_EQ(server_.bus->counters().received, sent.size());
  EXPECT_EQ(server_.bus->counters().malformed + client_.bus->counters().malformed, 0u);
  EXPECT_EQ(server_.bus->counters().open_bytes, 0u);
  EXPECT_EQ(client_.bus->outbox_bytes(peer_), 0u);
}

// A TCP listener accepts small frames only, so the parts of one chunk arrive in several frames.
TEST_F(BusChunks, FrameLimits_DifferByDirection) {
  open_server_with(server_options());
  const std::string whole(ChunkLimits::frame_bytes, 'x');
  const auto raw = connect_admitted();
  raw->send(whole);
  ASSERT_TRUE(until([&] { return server_.messages.size() == 1; }));
  const std::string large(1u << 20, 'y');
  ASSERT_TRUE(server_.bus->send(server_.messages[0].from, bytes_of(large)));
  std::size_t size = 0;
  bool more = true;
  ASSERT_TRUE(until([&] { return raw->receives(&size, &more); }));
  EXPECT_EQ(size, large.size());
  EXPECT_FALSE(more);
  raw->send(whole + std::string(100, 'x'));
  ASSERT_TRUE(until([&] { return server_.gone.size() == 1; }));
  EXPECT_EQ(server_.messages.size(), 1u);
  EXPECT_TRUE(client_is_served());
}

TEST_F(BusChunks, TooManyFrames_MessageIsDropped) {
  open_small_server();
  const auto raw = connect_admitted();
  for (int i = 0; i < 1'000; ++i) raw->send("part", zmq::send_flags::sndmore);
  raw->send("last");
  raw->send("next");
  ASSERT_TRUE(until([&] { return server_.messages.size() == 1; }));
  EXPECT_EQ(server_.messages[0].text, "next");
  EXPECT_EQ(server_.bus->counters().malformed, 1u);
}

TEST_F(BusChunks, RejectsMessageInsideMessage) {
  open_small_server();
  const auto raw = connect_admitted();
  raw->send_chunk(1, 1u << 20, 0);
  raw->send("");  // a heartbeat
  ASSERT_TRUE(until([&] { return server_.bus->counters().open_bytes > 0; }));
  EXPECT_TRUE(server_.closed.empty());
  raw->send("inside");
  ASSERT_TRUE(until([&] { return server_.closed.size() == 1; }));
  EXPECT_NE(server_.closed[0].find("inside another message"), std::string::npos);
  EXPECT_EQ(server_.bus->counters().open_bytes, 0u);
  EXPECT_TRUE(server_.messages.empty());
}

// One connection has at most one incomplete message, and all of them share a limit.
TEST_F(BusChunks, ManyIncompleteMessages_MemoryIsBounded) {
  BusOptions options = with_small_chunks(server_options());
  options.max_open_bytes = 1u << 20;
  open_server_with(options);
  open_client();
  std::size_t most = 0;
  const auto watch = [&](const std::function<bool()>& done) {
    return until([&] {
      most = std::max(most, server_.bus->counters().open_bytes);
      return done();
    });
  };
  auto greedy = connect_admitted();
  for (std::uint64_t message = 1; message <= 1'000; ++message)
    greedy->send_chunk(message, 16u << 20, 0);
  ASSERT_TRUE(watch([&] { return server_.closed.size() == 1; }));
  EXPECT_NE(server_.closed[0].find("expected chunk 1 of message 1"), std::string::npos);
  greedy.reset();
  server_.closed.clear();
  std::vector<std::unique_ptr<ChunkClient>> many;
  for (int i = 0; i < 40; ++i) {
    many.push_back(connect_admitted());
    many.back()->send_chunk(1, 16u << 20, 0);
  }
  const auto stalest_closed = [&] {
    return std::count_if(server_.closed.begin(), server_.closed.end(), [](const auto& each) {
      return each.find("has waited longest") != std::string::npos;
    });
  };
  ASSERT_TRUE(watch([&] { return stalest_closed() >= 24; }));
  EXPECT_LE(most, options.max_open_bytes);
  EXPECT_GT(most, options.max_open_bytes / 2);
  EXPECT_TRUE(client_is_served());
}

TEST_F(BusChunks, StalledMessage_PeerIsClosed) {
  BusOptions options = with_small_chunks(server_options());
  options.heartbeat_interval = 20ms;
  options.heartbeat_timeout = 100ms;
  open_server_with(options);
  const auto raw = connect_admitted();
  raw->send_chunk(1, 1u << 20, 0);
  ASSERT_TRUE(until([&] {
    raw->send("");  // heartbeats do not replace the next chunk
    return server_.closed.size() == 1;
  }));
  EXPECT_NE(server_.closed[0].find("no further chunk"), std::string::npos) << server_.closed[0];
  EXPECT_EQ(server_.bus->counters().open_bytes, 0u);
}

class BusChunksUnproven : public BusChunks {
 protected:
  BusChunksUnproven() : BusChunks(UnknownKeys::unproven) {}
};

TEST_F(BusChunksUnproven, RejectsChunks) {
  ASSERT_TRUE(table_.remove(client_keys_.public_key));
  open_small_server();
  const auto raw = connect_admitted();
  raw->send_chunk(1, 1u << 20, 0);
  ASSERT_TRUE(until([&] { return server_.closed.size() == 1; }));
  EXPECT_EQ(server_.bus->counters().open_bytes, 0u);
}

}  // namespace
}  // namespace mobula::internal
