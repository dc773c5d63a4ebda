// Owners of the contexts, sockets, and messages of libzmq.
// Thread: owner for a socket, any for a context. Errors: results that name the failed call. Not:
// part of any interface; only sources of this directory that call libzmq include this header.
#pragma once

#include <zmq.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace mobula::internal {

Failure zmq_failure(std::string what);

class ZmqMessage {
 public:
  ZmqMessage() { zmq_msg_init(&message_); }
  explicit ZmqMessage(std::span<const std::byte> bytes);
  ZmqMessage(ZmqMessage&& other) noexcept : ZmqMessage() {
    zmq_msg_move(&message_, &other.message_);
  }
  ZmqMessage& operator=(ZmqMessage&& other) noexcept {
    zmq_msg_move(&message_, &other.message_);
    return *this;
  }
  ZmqMessage(const ZmqMessage&) = delete;
  ZmqMessage& operator=(const ZmqMessage&) = delete;
  ~ZmqMessage() { zmq_msg_close(&message_); }

  zmq_msg_t* get() { return &message_; }
  std::size_t size() { return zmq_msg_size(&message_); }
  std::span<const std::byte> bytes() {
    return {static_cast<const std::byte*>(zmq_msg_data(&message_)), size()};
  }
  std::string_view text() { return {static_cast<const char*>(zmq_msg_data(&message_)), size()}; }
  bool more() { return zmq_msg_more(&message_) != 0; }
  // A property of the connection on which the message arrived; empty if unset.
  std::string_view property(const char* name);
  // The descriptor of the connection on which the message arrived, or -1.
  int source_fd() { return zmq_msg_get(&message_, ZMQ_SRCFD); }

 private:
  zmq_msg_t message_;
};

// An event of the monitor of a socket.
struct ZmqEvent {
  int event = 0;
  std::int64_t value = 0;
  std::string endpoint;
};

class ZmqSocket {
 public:
  ZmqSocket() = default;
  explicit ZmqSocket(void* socket) : socket_(socket) {}
  ZmqSocket(ZmqSocket&& other) noexcept : socket_(std::exchange(other.socket_, nullptr)) {}
  ZmqSocket& operator=(ZmqSocket&& other) noexcept {
    close();
    socket_ = std::exchange(other.socket_, nullptr);
    return *this;
  }
  ZmqSocket(const ZmqSocket&) = delete;
  ZmqSocket& operator=(const ZmqSocket&) = delete;
  ~ZmqSocket() { close(); }

  void* get() const { return socket_; }
  explicit operator bool() const { return socket_ != nullptr; }
  void close();

  // Options and values are constants of this code, so a rejection is a broken invariant.
  void set(int option, int value);
  void set(int option, std::int64_t value);
  void set(int option, std::string_view value);
  int fd() const;
  std::string last_endpoint() const;

  // These calls never block. They return false if no message is available or if it cannot be sent
  // now (errno).
  bool receive(ZmqMessage& message);
  bool send(ZmqMessage& message, int flags = 0);
  bool send(std::string_view bytes, int flags = 0);
  std::optional<ZmqEvent> receive_event();

 private:
  void* socket_ = nullptr;
};

class ZmqContext {
 public:
  explicit ZmqContext(int io_threads);
  // Waits until the sockets of the context are closed, including their linger.
  ~ZmqContext();
  ZmqContext(const ZmqContext&) = delete;
  ZmqContext& operator=(const ZmqContext&) = delete;

  void* get() const { return context_; }
  Result<ZmqSocket> socket(int type);
  // Returns the reading end of the events about the connections of `socket`. `name` is unique in
  // the context.
  Result<ZmqSocket> monitor(ZmqSocket& socket, const std::string& name, int events);

 private:
  void* context_;
};

}  // namespace mobula::internal
