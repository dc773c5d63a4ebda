#include "transport/bus/bus.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/stat.h>

#include <string>

#include "transport/bus_fixture.h"
#include "transport/net/address.h"

namespace mobula::internal {
namespace {

using BusMessages = BusTest;
using BusAddresses = BusTest;
using BusConnections = BusTest;

TEST_F(BusMessages, CarriesAuthenticatedOriginBothWays) {
  open_both();
  ASSERT_TRUE(client_.bus->send(peer_, bytes_of("hello")));
  ASSERT_TRUE(until([&] { return server_.messages.size() == 1; }));
  const BusEnd::Message hello = server_.messages[0];
  EXPECT_EQ(hello.text, "hello");
  EXPECT_TRUE(hello.origin.accepted);
  EXPECT_EQ(hello.origin.user_id, "client");
  EXPECT_EQ(hello.origin.public_key, client_keys_.public_key);
  ASSERT_TRUE(server_.bus->send(hello.from, bytes_of("welcome")));
  ASSERT_TRUE(until([&] { return client_.messages.size() == 1; }));
  EXPECT_EQ(client_.messages[0].text, "welcome");
  EXPECT_EQ(client_.messages[0].from, peer_);
  EXPECT_FALSE(client_.messages[0].origin.accepted);
  EXPECT_EQ(client_.messages[0].origin.public_key, server_keys_.public_key);
  EXPECT_EQ(client_.connected, std::vector<PeerHandle>{peer_});
}

TEST_F(BusMessages, DeliversTenThousandInOrder) {
  open_both();
  constexpr int count = 10'000;
  for (int i = 0; i < count; ++i) {
    ASSERT_TRUE(client_.bus->send(peer_, bytes_of(fmt::format("{}", i))));
  }
  EXPECT_GT(client_.bus->outbox_bytes(peer_), 0u) << "more than libzmq takes at once";
  ASSERT_TRUE(until([&] { return server_.messages.size() == count; }));
  for (int i = 0; i < count; ++i) {
    ASSERT_EQ(server_.messages[static_cast<std::size_t>(i)].text, fmt::format("{}", i));
  }
  EXPECT_EQ(client_.bus->outbox_bytes(peer_), 0u);
  EXPECT_EQ(client_.bus->counters().sent, static_cast<std::uint64_t>(count));
  EXPECT_EQ(server_.bus->counters().received, static_cast<std::uint64_t>(count));
}

TEST_F(BusMessages, SendsRepliesOfCallbackAtOnce) {
  open_both();
  server_.on_each = [&](PeerHandle from) {
    ASSERT_TRUE(server_.bus->send(from, bytes_of(server_.messages.back().text + "!")));
  };
  int requests = 0;
  client_.on_each = [&](PeerHandle from) {
    if (++requests == 200) return;
    ASSERT_TRUE(client_.bus->send(from, bytes_of("ping")));
  };
  ASSERT_TRUE(client_.bus->send(peer_, bytes_of("ping")));
  const Time began = monotonic_now();
  ASSERT_TRUE(until([&] { return requests == 200; }));
  EXPECT_LT(monotonic_now() - began, 2s) << "an edge of libzmq's descriptor was missed";
}

TEST_F(BusMessages, SendsLargestAndRejectsLarger) {
  open_both();
  const std::vector<std::byte> largest(16u << 20, std::byte{5});
  ASSERT_TRUE(client_.bus->send(peer_, largest));
  EXPECT_EQ(client_.bus->send(peer_, std::vector<std::byte>((16u << 20) + 1)).error().code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(client_.bus->send(peer_, {}).error().code, ErrorCode::invalid_argument);
  ASSERT_TRUE(until([&] { return server_.messages.size() == 1; }));
  EXPECT_EQ(server_.messages[0].text.size(), largest.size());
}

TEST_F(BusMessages, OutboxFull_RejectsAndSlowReaderGetsRest) {
  ASSERT_TRUE(table_.allow(client_keys_.public_key, "client"));
  server_.open(*loop_, server_options());
  address_ = server_.bus->bind("127.0.0.1:0").value();
  BusOptions options = client_options();
  options.max_outbox_bytes = 1u << 20;
  options.send_high_water = 4;
  client_.open(*loop_, options);
  peer_ = client_.bus->connect(address_, server_keys_.public_key).value();
  const std::vector<std::byte> message(100'000);
  std::size_t taken = 0;
  Result<void> sent;
  // No thread runs the loop, so nothing is read.
  while ((sent = client_.bus->send(peer_, message)).ok()) ASSERT_LT(++taken, 100'000u);
  EXPECT_EQ(sent.error().code, ErrorCode::resource_exhausted);
  EXPECT_LE(client_.bus->outbox_bytes(peer_), 1u << 20);
  ASSERT_TRUE(until([&] { return server_.messages.size() == taken; }));
  EXPECT_TRUE(client_.bus->send(peer_, message).ok()) << "room again";
}

TEST_F(BusMessages, KeepsSendersOfManyClientsApart) {
  open_server();
  constexpr std::size_t count = 20;
  std::vector<std::unique_ptr<BusEnd>> clients;
  for (std::size_t i = 0; i < count; ++i) {
    const CurveKeys keys = CurveKeys::generate().value();
    ASSERT_TRUE(table_.allow(keys.public_key, fmt::format("user {}", i)));
    clients.push_back(std::make_unique<BusEnd>());
    BusOptions options;
    options.keys = keys;
    options.allow = &client_table_;
    clients.back()->open(*loop_, options);
    const PeerHandle peer = clients.back()->bus->connect(address_, server_keys_.public_key).value();
    ASSERT_TRUE(clients.back()->bus->send(peer, bytes_of(fmt::format("user {}", i))));
  }
  ASSERT_TRUE(until([&] { return server_.messages.size() == count; }));
  for (const BusEnd::Message& message : server_.messages) {
    EXPECT_EQ(message.text, message.origin.user_id);
    ASSERT_TRUE(server_.bus->send(message.from, bytes_of(message.text)));
  }
  for (std::size_t i = 0; i < count; ++i) {
    ASSERT_TRUE(until([&] { return clients[i]->messages.size() == 1; }));
    EXPECT_EQ(clients[i]->messages[0].text, fmt::format("user {}", i));
  }
}

TEST_F(BusAddresses, NoKeys_AllowsOnlyLoopback) {
  server_.open(*loop_);
  EXPECT_EQ(server_.bus->bind("0.0.0.0:0").error().code, ErrorCode::permission_denied);
  EXPECT_EQ(server_.bus->bind("[::]:0").error().code, ErrorCode::permission_denied);
  EXPECT_EQ(server_.bus->connect("192.0.2.1:80", "").error().code, ErrorCode::permission_denied);
  const std::string address = server_.bus->bind("127.0.0.1:0").value();
  client_.open(*loop_);
  const PeerHandle peer = client_.bus->connect(address, "").value();
  ASSERT_TRUE(client_.bus->send(peer, bytes_of("plain")));
  ASSERT_TRUE(until([&] { return server_.messages.size() == 1; }));
  EXPECT_EQ(server_.messages[0].origin.user_id, "");
}

TEST_F(BusAddresses, AcceptsIpv6NamesAndPaths) {
  ASSERT_TRUE(table_.allow(client_keys_.public_key, "client"));
  const TemporaryDirectory directory;
  server_.open(*loop_, server_options());
  client_.open(*loop_, client_options());
  std::vector<std::string> addresses{server_.bus->bind(directory.file("bus.sock")).value()};
  const std::string v4 = server_.bus->bind("127.0.0.1:0").value();
  addresses.push_back("localhost" + v4.substr(v4.rfind(':')));
  if (const auto v6 = server_.bus->bind("[::1]:0")) addresses.push_back(*v6);
  struct stat status {};
  ASSERT_EQ(::stat(directory.file("bus.sock").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  for (const std::string& address : addresses) {
    const PeerHandle peer = client_.bus->connect(address, server_keys_.public_key).value();
    ASSERT_TRUE(client_.bus->send(peer, bytes_of(address)));
    ASSERT_TRUE(until([&] {
      return !server_.messages.empty() && server_.messages.back().text == address;
    })) << address;
    EXPECT_EQ(client_.connected.back(), peer) << "the event names the peer at " << address;
  }
}

TEST_F(BusAddresses, DistinguishesUsedForeignAndMalformed) {
  open_server();
  BusEnd other;
  other.open(*loop_, server_options());
  const Failure used = other.bus->bind(address_).error();
  EXPECT_EQ(used.code, ErrorCode::already_exists);
  EXPECT_NE(used.text.find(address_), std::string::npos);
  EXPECT_EQ(other.bus->bind("192.0.2.1:0").error().code, ErrorCode::not_found);
  EXPECT_EQ(other.bus->bind("nonsense").error().code, ErrorCode::invalid_argument);
  const TemporaryDirectory directory;
  const std::string path = directory.file("bus.sock");
  ASSERT_TRUE(server_.bus->bind(path).ok());
  EXPECT_EQ(other.bus->bind(path).error().code, ErrorCode::already_exists);
  EXPECT_EQ(other.bus->bind(directory.file(std::string(120, 'x'))).error().code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(other.bus->connect("127.0.0.1:0", server_keys_.public_key).error().code,
            ErrorCode::invalid_argument);
  EXPECT_EQ(other.bus->connect(address_, "no key").error().code, ErrorCode::invalid_argument);
}

// One bus with keys accepts both kinds of connections, regardless of the last bind.
TEST_F(BusConnections, UnixSocket_NeedsNoKeyButTcpDoes) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("bus.sock");
  open_server();
  ASSERT_TRUE(server_.bus->bind(path).ok());
  const std::string second = server_.bus->bind("127.0.0.1:0").value();
  struct stat file {};
  ASSERT_EQ(::stat(path.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);

  client_.open(*loop_, client_options());  // its key is not in the table of the server
  const PeerHandle local = client_.bus->connect(path, "").value();
  ASSERT_TRUE(client_.bus->send(local, bytes_of("by path")));
  ASSERT_TRUE(until([&] { return server_.messages.size() == 1; }));
  EXPECT_TRUE(server_.messages[0].origin.local);
  EXPECT_EQ(server_.messages[0].origin.public_key, "");
  for (const std::string& address : {address_, second}) {
    const PeerHandle stranger = client_.bus->connect(address, server_keys_.public_key).value();
    ASSERT_TRUE(client_.bus->send(stranger, bytes_of("by tcp")));
    ASSERT_TRUE(until([&] { return client_.is_gone(stranger); }));
  }
  ASSERT_TRUE(table_.allow(client_keys_.public_key, "client"));
  const PeerHandle admitted = client_.bus->connect(second, server_keys_.public_key).value();
  ASSERT_TRUE(client_.bus->send(admitted, bytes_of("by tcp with a key")));
  ASSERT_TRUE(until([&] { return server_.messages.size() == 2; }));
  EXPECT_EQ(server_.messages[1].text, "by tcp with a key");
  EXPECT_FALSE(server_.messages[1].origin.local);
  EXPECT_EQ(server_.messages[1].origin.public_key, client_keys_.public_key);
}

TEST_F(BusConnections, RejectsPlainTcpOnBusWithPaths) {
  const TemporaryDirectory directory;
  open_server();
  ASSERT_TRUE(server_.bus->bind(directory.file("bus.sock")).ok());
  BusEnd plain;
  plain.open(*loop_, BusOptions{});
  const PeerHandle peer = plain.bus->connect(address_, "").value();
  ASSERT_TRUE(plain.bus->send(peer, bytes_of("no key at all")));
  ASSERT_TRUE(until([&] { return plain.is_gone(peer); }));
  EXPECT_TRUE(server_.messages.empty());
}

TEST_F(BusConnections, RetriesUntilServerListensAndReportsFailures) {
  ASSERT_TRUE(table_.allow(client_keys_.public_key, "client"));
  open_server();
  server_.bus.reset();  // its port is free, and rejects connections
  client_.open(*loop_, client_options());
  peer_ = client_.bus->connect(address_, server_keys_.public_key).value();
  ASSERT_TRUE(client_.bus->send(peer_, bytes_of("patient")));
  ASSERT_TRUE(until([&] { return client_.unreached.size() >= 2; }));
  EXPECT_EQ(client_.unreached[0], ProbeOutcome::refused);
  server_.open(*loop_, server_options());
  ASSERT_TRUE(server_.bus->bind(address_).ok());
  ASSERT_TRUE(until([&] { return server_.messages.size() == 1; }));
  EXPECT_EQ(client_.connected.size(), 1u);
  EXPECT_TRUE(client_.gone.empty());
}

TEST_F(BusConnections, Ended_NotifiesBothSidesAndReconnectsFresh) {
  open_both();
  ASSERT_TRUE(client_.bus->send(peer_, bytes_of("one")));
  ASSERT_TRUE(until([&] { return server_.messages.size() == 1; }));
  const PeerHandle accepted = server_.messages[0].from;
  client_.bus->disconnect(peer_);
  ASSERT_TRUE(until([&] { return server_.is_gone(accepted); }));
  EXPECT_TRUE(client_.gone.empty()) << "its owner knows";
  EXPECT_EQ(client_.bus->send(peer_, bytes_of("x")).error().code, ErrorCode::not_found);
  EXPECT_EQ(server_.bus->send(accepted, bytes_of("x")).error().code, ErrorCode::not_found);

  peer_ = client_.bus->connect(address_, server_keys_.public_key).value();
  ASSERT_TRUE(client_.bus->send(peer_, bytes_of("two")));
  ASSERT_TRUE(until([&] { return server_.messages.size() == 2; }));
  EXPECT_NE(server_.messages[1].from, accepted);
  ASSERT_TRUE(server_.bus->send(server_.messages[1].from, bytes_of("back")));
  ASSERT_TRUE(until([&] { return client_.messages.size() == 1; }));
  server_.bus.reset();
  ASSERT_TRUE(until([&] { return client_.is_gone(peer_); }));
  EXPECT_EQ(client_.gone[0].second.code, ErrorCode::unavailable);
}

// Both kinds of listeners exist before the bus.
TEST_F(BusConnections, AdoptsListenersMadeBeforeBus) {
  ASSERT_TRUE(table_.allow(client_keys_.public_key, "client"));
  const TemporaryDirectory directory;
  auto port = listen_early("127.0.0.1:0").value();
  auto path = listen_early(directory.file("early")).value();
  struct stat status {};
  ASSERT_EQ(::stat(path.address.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(listen_early(path.address).error().code, ErrorCode::already_exists);

  client_.open(*loop_, client_options());
  for (const std::string& address : {port.address, path.address}) {
    const auto peer = client_.bus->connect(address, server_keys_.public_key).value();
    ASSERT_TRUE(client_.bus->send(peer, bytes_of("early")));
    pollfd waits{(address == port.address ? port : path).socket.get(), POLLIN, 0};
    ASSERT_TRUE(until([&] { return ::poll(&waits, 1, 0) == 1; }));
  }
  server_.open(*loop_, server_options());
  ASSERT_TRUE(server_.bus->adopt(std::move(port)));
  ASSERT_TRUE(server_.bus->adopt(std::move(path)));
  ASSERT_TRUE(until([&] { return server_.messages.size() == 2; }));
  for (const auto& message : server_.messages) {
    EXPECT_EQ(message.text, "early");
    EXPECT_EQ(message.origin.public_key, message.origin.local ? "" : client_keys_.public_key);
    EXPECT_TRUE(server_.bus->send(message.from, bytes_of("reply")));
  }
  EXPECT_TRUE(until([&] { return client_.messages.size() == 2; }));
  EXPECT_NE(server_.messages[0].origin.local, server_.messages[1].origin.local);
}

// A killed process leaves its socket file behind.
TEST_F(BusConnections, ReusesSocketFileOfEndedProcess) {
  const TemporaryDirectory directory;
  const std::string path = directory.file("left");
  ASSERT_TRUE(listen_early(path));  // closed at once
  EXPECT_TRUE(listen_early(path));
}

TEST_F(BusConnections, RejectsSecondConnectionToAddress) {
  open_both();
  EXPECT_EQ(client_.bus->connect(address_, server_keys_.public_key).error().code,
            ErrorCode::already_exists);
  const std::string alias = "localhost" + address_.substr(address_.rfind(':'));
  const PeerHandle second = client_.bus->connect(alias, server_keys_.public_key).value();
  ASSERT_TRUE(until([&] { return client_.is_gone(second) || !client_.unreached.empty(); }));
}

TEST_F(BusConnections, NextIncarnation_ReceivesNoOldMessages) {
  open_both();
  ASSERT_TRUE(until([&] { return client_.connected.size() == 1; }));
  server_.bus.reset();
  // libzmq would keep these messages for the next listener at the address.
  for (int i = 0; i < 1'000; ++i) ASSERT_TRUE(client_.bus->send(peer_, bytes_of("stale")));
  ASSERT_TRUE(until([&] { return client_.is_gone(peer_); }));
  server_.open(*loop_, server_options());
  ASSERT_TRUE(server_.bus->bind(address_).ok());
  const PeerHandle next = client_.bus->connect(address_, server_keys_.public_key).value();
  ASSERT_TRUE(client_.bus->send(next, bytes_of("fresh")));
  ASSERT_TRUE(until([&] { return !server_.messages.empty(); }));
  EXPECT_EQ(server_.messages[0].text, "fresh");
}

TEST_F(BusConnections, DisconnectedPeer_IsIgnored) {
  open_both();
  ASSERT_TRUE(client_.bus->send(peer_, bytes_of("one")));
  ASSERT_TRUE(until([&] { return server_.messages.size() == 1; }));
  const PeerHandle accepted = server_.messages[0].from;
  server_.bus->disconnect(accepted);
  EXPECT_EQ(server_.bus->send(accepted, bytes_of("x")).error().code, ErrorCode::not_found);
  ASSERT_TRUE(client_.bus->send(peer_, bytes_of("two")));
  ASSERT_TRUE(until([&] { return server_.bus->counters().ignored == 1; }));
  EXPECT_EQ(server_.messages.size(), 1u);
}

TEST_F(BusConnections, Owner_MayDestroyBusInCallbacks) {
  open_both();
  server_.on_each = [&](PeerHandle) { server_.bus.reset(); };
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(client_.bus->send(peer_, bytes_of("x")));
  ASSERT_TRUE(until([&] { return server_.bus == nullptr; }));
  EXPECT_EQ(server_.messages.size(), 1u);
  ASSERT_TRUE(until([&] { return client_.is_gone(peer_); }));
}

TEST_F(BusConnections, Close_LingersForPendingMessages) {
  open_both();
  ASSERT_TRUE(until([&] { return client_.connected.size() == 1; }));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(client_.bus->send(peer_, bytes_of("last words")));
  client_.bus->close(5s);
  EXPECT_EQ(client_.bus->bind("127.0.0.1:0").error().code, ErrorCode::unavailable);
  EXPECT_EQ(client_.bus->connect(address_, server_keys_.public_key).error().code,
            ErrorCode::unavailable);
  ASSERT_TRUE(until([&] { return server_.messages.size() == 100; }));
}

}  // namespace
}  // namespace mobula::internal
