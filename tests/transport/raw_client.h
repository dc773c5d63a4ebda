// Clients that obey no rule of a bus: plain TCP connections and sockets of libzmq.
// Thread: owner.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <zmq.hpp>

#include "base/fd.h"
#include "transport/bus/curve.h"
#include "transport/net/address.h"

namespace mobula::internal {

// `source`: the address to connect from, for example 127.0.0.2; empty for any.
inline Fd connect_raw(const std::string& address, const std::string& source = {}) {
  const SocketAddress where = *Address::parse(address)->numeric();
  Fd socket(::socket(where.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!source.empty()) {
    const SocketAddress from = *Address::parse(source + ":0")->numeric();
    EXPECT_EQ(::bind(socket.get(), from.get(), from.size), 0);
  }
  EXPECT_EQ(::connect(socket.get(), where.get(), where.size), 0);
  return socket;
}

// A libzmq client that obeys no rule of the bus. Its handshake carries `metadata` properties.
class RawClient {
 public:
  RawClient(int type, const std::string& address, const std::string& routing_id = {},
            const CurveKeys* keys = nullptr, const std::string& server_key = {}, int metadata = 0)
      : socket_(context_, type) {
    socket_.set(zmq::sockopt::linger, 0);
    for (int i = 0; i < metadata; ++i) {
      constexpr int zmq_metadata = 95;  // zmq.h names it in draft builds only
      const std::string property = "X-" + std::to_string(i) + ":1";
      EXPECT_EQ(zmq_setsockopt(socket_, zmq_metadata, property.data(), property.size()), 0);
    }
    socket_.set(zmq::sockopt::sndhwm, 0);  // no limit
    if (!routing_id.empty()) socket_.set(zmq::sockopt::routing_id, routing_id);
    if (keys != nullptr) {
      socket_.set(zmq::sockopt::curve_publickey, keys->public_key);
      socket_.set(zmq::sockopt::curve_secretkey, keys->secret_key);
      socket_.set(zmq::sockopt::curve_serverkey, server_key);
    }
    connect(address);
  }
  // Makes one more connection. A DEALER makes one to each address alone.
  void connect(const std::string& address) { socket_.connect("tcp://" + address); }

  void send(std::string_view text, zmq::send_flags flags = zmq::send_flags::none) {
    EXPECT_TRUE(socket_.send(zmq::buffer(text), flags | zmq::send_flags::dontwait));
  }
  // Makes close() wait for messages that libzmq has not sent yet.
  void linger(int milliseconds) { socket_.set(zmq::sockopt::linger, milliseconds); }
  bool receives() {
    std::array<char, 64> text{};
    return socket_.recv(zmq::buffer(text), zmq::recv_flags::dontwait).has_value();
  }
  // Also returns the size of the frame, and whether further frames of the message follow.
  bool receives(std::size_t* size, bool* more) {
    std::array<char, 64> text{};
    const int count = zmq_recv(socket_, text.data(), text.size(), ZMQ_DONTWAIT);
    int follows = 0;
    std::size_t length = sizeof(follows);
    zmq_getsockopt(socket_, ZMQ_RCVMORE, &follows, &length);
    *size = static_cast<std::size_t>(std::max(count, 0));
    *more = follows != 0;
    return count >= 0;
  }

 private:
  zmq::context_t context_;
  zmq::socket_t socket_;
};

}  // namespace mobula::internal
