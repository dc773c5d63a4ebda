#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "transport/bus_fixture.h"
#include "transport/child_fixture.h"
#include "transport/local/local_link.h"
#include "transport/raw_client.h"

namespace mobula::internal {
namespace {

using BusDeaths = BusTest;
using BusIntruders = BusTest;

std::string received(const Fd& pipe) {
  return text_of(receive_frame(pipe, monotonic_now() + 10s)->bytes);
}

// A child that connects a bus to `address` and sends numbered messages forever.
void flood(const std::string& address, const BusOptions& options, const std::string& server_key) {
  const auto loop = make_loop();
  BusEnd end;
  end.open(*loop, options);
  const PeerHandle peer = end.bus->connect(address, server_key).value();
  for (std::uint64_t i = 0;; ++i) {
    std::string text = fmt::format("{}", i);
    text.resize(1'000, '.');
    while (!end.bus->send(peer, bytes_of(text))) loop->turn(10ms);
    if (i % 100 == 0) loop->turn(0ms);
  }
}

TEST_F(BusDeaths, ClientKilled_EndsAfterLastMessage) {
  ASSERT_TRUE(table_.allow(client_keys_.public_key, "client"));
  for (int round = 0; round < 5; ++round) {
    // The fork happens while this process has one thread. Otherwise sanitizers permit no threads in
    // the child.
    const auto pipe = make_local_pair().value();
    Child child([&] { flood(received(pipe.second), client_options(), server_keys_.public_key); });
    open_server();
    ASSERT_TRUE(send_frame(pipe.first, bytes_of(address_), {}, monotonic_now() + 5s));
    ASSERT_TRUE(until([&] { return server_.messages.size() > 2'000; }));
    child.kill();
    const Time killed = monotonic_now();
    ASSERT_TRUE(until([&] { return server_.gone.size() == 1; }));
    EXPECT_LT(monotonic_now() - killed, 2s);
    EXPECT_EQ(server_.messages_at_gone, server_.messages.size());
    turn_for(*loop_, 50ms);
    EXPECT_EQ(server_.messages_at_gone, server_.messages.size()) << "nothing comes afterwards";
    for (std::size_t i = 0; i < server_.messages.size(); ++i) {
      ASSERT_TRUE(server_.messages[i].text.starts_with(fmt::format("{}.", i))) << "in order";
    }
    server_ = BusEnd{};
  }
}

TEST_F(BusDeaths, ServerKilled_ClientIsNotifiedAndRetries) {
  ASSERT_TRUE(table_.allow(client_keys_.public_key, "client"));
  const auto pipe = make_local_pair().value();
  Child child([&] {
    leave_loop_to_parent();
    open_server();
    server_.on_each = [&](PeerHandle from) {
      ASSERT_TRUE(server_.bus->send(from, bytes_of("reply")));
    };
    ASSERT_TRUE(send_frame(pipe.second, bytes_of(address_), {}, monotonic_now() + 5s));
    loop_->run();
  });
  address_ = received(pipe.first);
  client_.open(*loop_, client_options());
  peer_ = client_.bus->connect(address_, server_keys_.public_key).value();
  ASSERT_TRUE(client_.bus->send(peer_, bytes_of("x")));
  ASSERT_TRUE(until([&] { return client_.messages.size() == 1; }));
  child.kill();
  ASSERT_TRUE(until([&] { return client_.is_gone(peer_); }));
  const Time lost = monotonic_now();
  peer_ = client_.bus->connect(address_, server_keys_.public_key).value();
  ASSERT_TRUE(until([&] { return !client_.unreached.empty(); }));
  EXPECT_EQ(client_.unreached[0], ProbeOutcome::refused);
  EXPECT_GE(monotonic_now() - lost, 90ms) << "the first pause";
  EXPECT_LT(monotonic_now() - lost, 2s);
}

// libzmq 4.3.4 hung once at the end of its context, after the peer of a loaded ipc socket was
// killed.
TEST_F(BusDeaths, PeerKilledUnderLoad_ClosesWithoutHang) {
  const TemporaryDirectory directory;
  for (int round = 0; round < 5; ++round) {
    const std::string path = directory.file(fmt::format("bus-{}.sock", round));
    Child child([&] {
      leave_loop_to_parent();
      server_.open(*loop_);
      ASSERT_TRUE(server_.bus->bind(path).ok());
      for (;;) loop_->turn(1ms);
    });
    client_.open(*loop_);
    peer_ = client_.bus->connect(path, "").value();
    ASSERT_TRUE(until([&] { return client_.connected.size() == 1; }));
    const std::vector<std::byte> message(50'000);
    for (int i = 0; i < 500; ++i) {
      if (!client_.bus->send(peer_, message)) break;
    }
    child.kill();
    for (int i = 0; i < 100; ++i) {
      if (!client_.bus->send(peer_, message)) break;
    }
    const Time began = monotonic_now();
    client_.bus.reset();
    EXPECT_LT(monotonic_now() - began, 2s);
    client_ = BusEnd{};
  }
}

TEST_F(BusDeaths, PeerStopped_CutAfterHeartbeatTimeout) {
  ASSERT_TRUE(table_.allow(client_keys_.public_key, "client"));
  const auto pipe = make_local_pair().value();
  Child child([&] {
    leave_loop_to_parent();
    address_ = received(pipe.second);
    BusOptions options = client_options();
    options.heartbeat_interval = 100ms;
    options.heartbeat_timeout = 1s;
    client_.open(*loop_, options);
    peer_ = client_.bus->connect(address_, server_keys_.public_key).value();
    ASSERT_TRUE(client_.bus->send(peer_, bytes_of("here")));
    loop_->run();
  });
  BusOptions options = server_options();
  options.heartbeat_interval = 100ms;
  options.heartbeat_timeout = 1s;
  server_.open(*loop_, options);
  address_ = server_.bus->bind("127.0.0.1:0").value();
  ASSERT_TRUE(send_frame(pipe.first, bytes_of(address_), {}, monotonic_now() + 5s));
  ASSERT_TRUE(until([&] { return server_.messages.size() == 1; }));
  turn_for(*loop_, 1500ms);
  EXPECT_TRUE(server_.gone.empty()) << "idle is not silent";
  ::kill(child.pid(), SIGSTOP);
  ASSERT_TRUE(until([&] { return server_.gone.size() == 1; }));
}

TEST_F(BusIntruders, RejectsUnknownKeyAndNotifiesPeer) {
  open_server();
  client_.open(*loop_, client_options());
  peer_ = client_.bus->connect(address_, server_keys_.public_key).value();
  ASSERT_TRUE(client_.bus->send(peer_, bytes_of("let me in")));
  ASSERT_TRUE(until([&] { return client_.is_gone(peer_); }));
  EXPECT_EQ(client_.gone[0].second.code, ErrorCode::permission_denied)
      << client_.gone[0].second.text;
  EXPECT_TRUE(client_.connected.empty());
  EXPECT_TRUE(server_.messages.empty());
  EXPECT_EQ(table_.counters().refused, 1u);
  EXPECT_NE(table_.counters().last_refused.find(client_keys_.public_key), std::string::npos);

  ASSERT_TRUE(table_.allow(client_keys_.public_key, "client"));
  peer_ = client_.bus->connect(address_, server_keys_.public_key).value();
  ASSERT_TRUE(client_.bus->send(peer_, bytes_of("admitted later")));
  ASSERT_TRUE(until([&] { return server_.messages.size() == 1; }));
}

TEST_F(BusIntruders, WrongServerKey_RejectsConnection) {
  ASSERT_TRUE(table_.allow(client_keys_.public_key, "client"));
  open_server();
  client_.open(*loop_, client_options());
  peer_ = client_.bus->connect(address_, CurveKeys::generate()->public_key).value();
  ASSERT_TRUE(client_.bus->send(peer_, bytes_of("secret")));
  ASSERT_TRUE(until([&] { return client_.is_gone(peer_); }));
  EXPECT_TRUE(server_.messages.empty());
}

TEST_F(BusIntruders, Garbage_GetsNothingAndHarmsNoPeer) {
  open_both();
  std::vector<Fd> intruders;
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100'000, '\xff'), std::string(64, '\0'),
        std::string("\xff\0\0\0\0\0\0\0\1\x7f\3\0CURVE", 17)}) {
    intruders.push_back(connect_raw(address_));
    [[maybe_unused]] const auto written =
        ::send(intruders.back().get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
  }
  RawClient plain(ZMQ_DEALER, address_);
  plain.send("plain");
  ASSERT_TRUE(client_.bus->send(peer_, bytes_of("still here")));
  ASSERT_TRUE(until([&] { return server_.messages.size() == 1; }));
  turn_for(*loop_, 100ms);
  EXPECT_EQ(server_.messages.size(), 1u);
  EXPECT_FALSE(plain.receives());
}

TEST_F(BusIntruders, RejectsOversizedMultipartAndForgedRouting) {
  ASSERT_TRUE(table_.allow(client_keys_.public_key, "client"));
  BusOptions options = server_options();
  options.max_message_bytes = 1'000;
  server_.open(*loop_, options);
  address_ = server_.bus->bind("127.0.0.1:0").value();
  {
    RawClient raw(ZMQ_DEALER, address_, "", &client_keys_, server_keys_.public_key);
    raw.send("one", zmq::send_flags::sndmore);
    raw.send("two");
    ASSERT_TRUE(until([&] { return server_.bus->counters().malformed == 1; }));
    raw.send("good");
    ASSERT_TRUE(until([&] { return server_.messages.size() == 1; }));
    raw.send(std::string(1'001, 'x'));
    ASSERT_TRUE(until([&] { return server_.bus->counters().malformed == 2; }));
    raw.send(std::string(1'200, 'x'));
    ASSERT_TRUE(until([&] { return server_.gone.size() == 1; })) << "its connection is cut";
  }
  RawClient chosen(ZMQ_DEALER, address_, "me", &client_keys_, server_keys_.public_key);
  chosen.send("with an id of my own");
  ASSERT_TRUE(until([&] { return server_.bus->counters().malformed == 3; }));
  EXPECT_EQ(server_.messages.size(), 1u);
}

// The routing ids of a ROUTER are a zero byte and four more bytes, which an admitted peer may guess
// and claim.
TEST_F(BusIntruders, RejectsForgedPeerHandle) {
  ASSERT_TRUE(table_.allow(client_keys_.public_key, "victim"));
  const CurveKeys thief_keys = CurveKeys::generate().value();
  ASSERT_TRUE(table_.allow(thief_keys.public_key, "thief"));
  open_server();
  const std::string route("\0same", 5);
  auto victim = std::make_unique<RawClient>(ZMQ_DEALER, address_, route, &client_keys_,
                                            server_keys_.public_key);
  victim->send("one");
  ASSERT_TRUE(until([&] { return server_.messages.size() == 1; }));
  const PeerHandle handle = server_.messages[0].from;
  EXPECT_EQ(server_.messages[0].origin.user_id, "victim");
  {
    RawClient thief(ZMQ_DEALER, address_, route, &thief_keys, server_keys_.public_key);
    thief.send("mine");
    ASSERT_TRUE(until([&] { return table_.counters().admitted == 2; }));
    turn_for(*loop_, 50ms);
    EXPECT_EQ(server_.messages.size(), 1u) << "not heard while the victim is there";
    ASSERT_TRUE(server_.bus->send(handle, bytes_of("secret")));
    ASSERT_TRUE(until([&] { return victim->receives(); }));
    EXPECT_FALSE(thief.receives());
  }
  victim.reset();
  // The socket ignores a second peer with this route until it has seen the end of the first.
  std::unique_ptr<RawClient> thief;
  ASSERT_TRUE(until([&] {
    thief.reset();
    thief = std::make_unique<RawClient>(ZMQ_DEALER, address_, route, &thief_keys,
                                        server_keys_.public_key);
    thief->send("mine now");
    turn_for(*loop_, 200ms);
    return server_.messages.size() >= 2;
  }));
  EXPECT_NE(server_.messages[1].from, handle);
  EXPECT_EQ(server_.messages[1].origin.user_id, "thief");
  EXPECT_TRUE(server_.is_gone(handle)) << "told before the next message";
  EXPECT_EQ(server_.bus->send(handle, bytes_of("secret")).error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace mobula::internal
