// Buses that record the calls of their callbacks, and keys for them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "transport/bus/bus.h"
#include "transport/bytes_fixture.h"
#include "transport/loop_fixture.h"

namespace mobula::internal {

struct BusEnd {
  struct Message {
    PeerHandle from;
    PeerOrigin origin;
    std::string text;
  };

  void open(EventLoop& loop, BusOptions options = {}) {
    bus = Bus::create(
              loop, std::move(options),
              {.on_message =
                   [this](PeerHandle from, const PeerOrigin& origin, auto bytes) {
                     messages.push_back({from, origin, text_of(bytes)});
                     if (on_each) on_each(from);
                   },
               .on_connected = [this](PeerHandle peer) { connected.push_back(peer); },
               .on_gone =
                   [this](PeerHandle peer, const Failure& why) {
                     gone.emplace_back(peer, why);
                     messages_at_gone = messages.size();
                   },
               .on_unreached = [this](PeerHandle, ProbeOutcome seen) { unreached.push_back(seen); },
               .on_closed = [this](
                                const std::string& source,
                                const std::string& why) { closed.push_back(source + ": " + why); }})
              .value();
  }

  bool is_gone(PeerHandle peer) const {
    return std::any_of(gone.begin(), gone.end(),
                       [&](const auto& each) { return each.first == peer; });
  }

  std::vector<Message> messages;
  std::function<void(PeerHandle)> on_each;
  std::vector<PeerHandle> connected;
  std::vector<std::pair<PeerHandle, Failure>> gone;
  std::vector<ProbeOutcome> unreached;
  std::vector<std::string> closed;
  std::size_t messages_at_gone = 0;
  std::unique_ptr<Bus> bus;
};

// A server and a client with keys. The key of the client is admitted as "client".
class BusTest : public ::testing::Test {
 protected:
  explicit BusTest(UnknownKeys unknown = UnknownKeys::refuse) : table_(unknown) {}

  BusOptions server_options() const {
    BusOptions options;
    options.keys = server_keys_;
    options.allow = &table_;
    return options;
  }
  BusOptions client_options() const {
    BusOptions options;
    options.keys = client_keys_;
    options.allow = &client_table_;
    return options;
  }

  void open_server(const std::string& address = "127.0.0.1:0") {
    server_.open(*loop_, server_options());
    address_ = server_.bus->bind(address).value();
  }
  void open_both() {
    ASSERT_TRUE(table_.allow(client_keys_.public_key, "client"));
    open_server();
    client_.open(*loop_, client_options());
    peer_ = client_.bus->connect(address_, server_keys_.public_key).value();
  }
  // For a forked process, which shares the epoll set of the inherited loop.
  void leave_loop_to_parent() {
    static_cast<void>(loop_.release());
    loop_ = make_loop();
  }
  bool until(const std::function<bool()>& condition, Duration limit = 30s) {
    return turn_until(*loop_, condition, limit);
  }

  const CurveKeys server_keys_ = CurveKeys::generate().value();
  const CurveKeys client_keys_ = CurveKeys::generate().value();
  mutable AllowTable table_;
  mutable AllowTable client_table_;
  std::unique_ptr<EventLoop> loop_ = make_loop();
  BusEnd server_;
  BusEnd client_;
  std::string address_;
  PeerHandle peer_;  // handle of the server at the client
};

// The server admits unknown keys until it has authenticated their first message.
class UnprovenBusTest : public BusTest {
 protected:
  UnprovenBusTest() : BusTest(UnknownKeys::unproven) {}
};

}  // namespace mobula::internal
