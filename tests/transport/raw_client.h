// Clients that obey no rule of a bus: plain TCP connections and sockets of libzmq.
// Thread: owner.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <zmq.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

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

// A libzmq client that obeys no rule of the bus.
class RawClient {
 public:
  RawClient(int type, const std::string& address, const std::string& routing_id = {},
            const CurveKeys* keys = nullptr, const std::string& server_key = {})
      : context_(zmq_ctx_new()), socket_(zmq_socket(context_, type)) {
    const int none = 0;
    zmq_setsockopt(socket_, ZMQ_LINGER, &none, sizeof(none));
    zmq_setsockopt(socket_, ZMQ_SNDHWM, &none, sizeof(none));  // no limit
    if (!routing_id.empty()) {
      zmq_setsockopt(socket_, ZMQ_ROUTING_ID, routing_id.data(), routing_id.size());
    }
    if (keys != nullptr) {
      zmq_setsockopt(socket_, ZMQ_CURVE_PUBLICKEY, keys->public_key.data(), curve_key_size);
      zmq_setsockopt(socket_, ZMQ_CURVE_SECRETKEY, keys->secret_key.data(), curve_key_size);
      zmq_setsockopt(socket_, ZMQ_CURVE_SERVERKEY, server_key.data(), curve_key_size);
    }
    connect(address);
  }
  // Makes one more connection. A DEALER makes one to each address alone.
  void connect(const std::string& address) {
    EXPECT_EQ(zmq_connect(socket_, ("tcp://" + address).c_str()), 0);
  }
  ~RawClient() {
    zmq_close(socket_);
    zmq_ctx_term(context_);
  }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void send(std::string_view text, int flags = 0) {
    EXPECT_EQ(zmq_send(socket_, text.data(), text.size(), flags | ZMQ_DONTWAIT),
              static_cast<int>(text.size()));
  }
  // Makes close() wait for messages that libzmq has not sent yet.
  void linger(int milliseconds) {
    zmq_setsockopt(socket_, ZMQ_LINGER, &milliseconds, sizeof(milliseconds));
  }
  bool receives() {
    std::array<char, 64> text{};
    return zmq_recv(socket_, text.data(), text.size(), ZMQ_DONTWAIT) >= 0;
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
  void* context_;
  void* socket_;
};

}  // namespace mobula::internal
