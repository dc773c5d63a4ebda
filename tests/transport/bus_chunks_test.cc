// Large messages of a bus: chunks, and whole messages to and from the previous release.
#include <gtest/gtest.h>
#include <zmq.h>

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

  void announce(std::uint32_t chunk_bytes = small_chunk) {
    send_header({ChunkKind::announcement, 0, 0, 0, chunk_bytes});
    send("");
  }
  // Sends one chunk of a message of zeros.
  void send_chunk(std::uint64_t message, std::size_t bytes, std::uint32_t index) {
    const ChunkHeader header{ChunkKind::chunk, message, bytes, index, small_chunk};
    send_header(header);
    send(std::string(header.payload_bytes(), '\0'));
  }

 private:
  void send_header(const ChunkHeader& header) {
    send(text_of(header.encode()), zmq::send_flags::sndmore);
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

// Each side sends no larger chunk than the other one accepts.
TEST_F(BusChunks, UnequalChunkSizes_SmallerOneApplies) {
  open_small_server();
  client_.open(*loop_, client_options());
  peer_ = client_.bus->connect(address_, server_keys_.public_key).value();
  const std::string text(200'000, 'x');
  ASSERT_TRUE(client_.bus->send(peer_, bytes_of(text)));
  ASSERT_TRUE(until([&] { return server_.messages.size() == 1 || !server_.closed.empty(); }));
  ASSERT_EQ(server_.messages.size(), 1u);
  ASSERT_TRUE(server_.bus->send(server_.messages[0].from, bytes_of(text)));
  ASSERT_TRUE(until([&] { return client_.messages.size() == 1; }));
}

TEST_F(BusChunks, RejectsWholeMessageOfChunkPeer) {
  open_small_server();
  const auto raw = connect_admitted();
  raw->announce();
  raw->send("hello");
  ASSERT_TRUE(until([&] { return server_.messages.size() == 1; }));
  raw->send(std::string(16u << 20, 'x'));
  ASSERT_TRUE(until([&] { return server_.gone.size() == 1; }));
  ASSERT_EQ(server_.closed.size(), 1u);
  EXPECT_NE(server_.closed[0].find("a frame has 16777216 bytes"), std::string::npos)
      << server_.closed[0];
  EXPECT_EQ(server_.messages.size(), 1u);
  EXPECT_TRUE(client_is_served());
}

TEST_F(BusChunks, RejectsMessageInsideMessage) {
  open_small_server();
  const auto raw = connect_admitted();
  raw->announce();
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
  const auto greedy = connect_admitted();
  greedy->announce();
  for (std::uint64_t message = 1; message <= 1'000; ++message)
    greedy->send_chunk(message, 16u << 20, 0);
  ASSERT_TRUE(watch([&] { return server_.closed.size() == 1; }));
  EXPECT_NE(server_.closed[0].find("expected chunk 1 of message 1"), std::string::npos);
  std::vector<std::unique_ptr<ChunkClient>> many;
  for (int i = 0; i < 40; ++i) {
    many.push_back(connect_admitted());
    many.back()->announce();
    many.back()->send_chunk(1, 16u << 20, 0);
  }
  ASSERT_TRUE(watch([&] { return server_.closed.size() >= 25; }));
  EXPECT_NE(server_.closed.back().find("has waited longest"), std::string::npos);
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
  raw->announce();
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
  raw->announce();
  raw->send_chunk(1, 1u << 20, 0);
  ASSERT_TRUE(until([&] { return server_.closed.size() == 1; }));
  EXPECT_EQ(server_.bus->counters().open_bytes, 0u);
}

// The previous release announces nothing, and sends and accepts whole messages.
TEST_F(BusChunks, PreviousReleaseConnects_WholeMessages) {
  open_small_server();
  RawClient old(ZMQ_DEALER, address_, "", &client_keys_, server_keys_.public_key);
  const std::string large(4u << 20, 'x');
  old.send(large);
  ASSERT_TRUE(until([&] { return server_.messages.size() == 1; }));
  EXPECT_TRUE(server_.messages[0].text == large);
  ASSERT_TRUE(server_.bus->send(server_.messages[0].from, bytes_of(large)));
  std::size_t size = 0;
  bool more = true;
  ASSERT_TRUE(until([&] { return old.receives(&size, &more); }));
  EXPECT_EQ(size, large.size()) << "an announcement is sent only in reply to one";
  EXPECT_FALSE(more);
}

// A bus of the previous release drops the announcement, and sends a heartbeat every 2 s to each
// connection from which it read a message.
TEST_F(BusChunks, PreviousReleaseListens_WholeMessages) {
  void* const context = zmq_ctx_new();
  void* const old = zmq_socket(context, ZMQ_ROUTER);
  const int none = 0;
  zmq_setsockopt(old, ZMQ_LINGER, &none, sizeof(none));
  ASSERT_EQ(zmq_bind(old, "tcp://127.0.0.1:*"), 0);
  std::array<char, 64> endpoint{};
  std::size_t endpoint_size = endpoint.size();
  zmq_getsockopt(old, ZMQ_LAST_ENDPOINT, endpoint.data(), &endpoint_size);
  client_.open(*loop_, {});
  const PeerHandle peer = client_.bus->connect(endpoint.data() + 6, "").value();
  const std::string large(4u << 20, 'x');
  ASSERT_TRUE(client_.bus->send(peer, bytes_of(large)));
  ASSERT_TRUE(client_.bus->send(peer, bytes_of("behind")));

  std::vector<std::vector<std::size_t>> messages;  // sizes of their frames
  std::string route;
  const auto received = [&](std::size_t count) {
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    while (zmq_msg_recv(&frame, old, ZMQ_DONTWAIT) >= 0) {
      route.assign(static_cast<char*>(zmq_msg_data(&frame)), zmq_msg_size(&frame));
      messages.emplace_back();
      while (zmq_msg_more(&frame) != 0) {
        zmq_msg_recv(&frame, old, 0);
        messages.back().push_back(zmq_msg_size(&frame));
      }
    }
    zmq_msg_close(&frame);
    return messages.size() >= count;
  };
  ASSERT_TRUE(until([&] { return received(2); }));
  EXPECT_EQ(messages[0], (std::vector<std::size_t>{ChunkHeader::size, 0})) << "the announcement";
  EXPECT_EQ(messages[1], std::vector<std::size_t>{0}) << "an empty message asks for a heartbeat";
  ASSERT_GE(zmq_send(old, route.data(), route.size(), ZMQ_SNDMORE), 0);
  ASSERT_GE(zmq_send(old, "", 0, 0), 0);
  ASSERT_TRUE(until([&] { return received(4); }));
  EXPECT_EQ(messages[2], std::vector<std::size_t>{large.size()});
  EXPECT_EQ(messages[3], std::vector<std::size_t>{6});
  zmq_close(old);
  client_.bus.reset();
  zmq_ctx_term(context);
}

}  // namespace
}  // namespace mobula::internal
