// Calls on the sockets and messages of cppzmq that return results instead of exceptions.
// Thread: owner for a socket, any for a context. Errors: results that name the failed call. Not:
// part of any interface; only sources that call libzmq include this header.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <zmq.hpp>

#include "base/result.h"

namespace mobula::internal {

Failure zmq_failure(std::string what, int error);

// A socket without linger.
Result<zmq::socket_t> open_socket(zmq::context_t& context, zmq::socket_type type);
// Returns the reading end of the events about the connections of `socket`. `name` is unique in the
// context. zmq::monitor_t cannot limit its unread events or give its descriptor to an event loop.
Result<zmq::socket_t> open_monitor(zmq::context_t& context, zmq::socket_t& socket,
                                   const std::string& name, int events);
// Ends the events about the connections of `socket`, if it is open.
void close_monitor(zmq::socket_t& socket);

// Options and values are constants of this code, so a rejection ends the process.
template <class Option, class Value>
void set_option(zmq::socket_t& socket, Option option, const Value& value) noexcept {
  socket.set(option, value);
}
template <class Option>
auto option_of(const zmq::socket_t& socket, Option option) noexcept {
  return socket.get(option);
}

// These calls never block. They return false if no message is available or if it cannot be sent now
// (zmq_errno). zmq::socket_t would throw for a peer that has disconnected.
bool receive(zmq::socket_t& socket, zmq::message_t& message);
bool send(zmq::socket_t& socket, zmq::message_t& message, int flags = 0);
bool send(zmq::socket_t& socket, std::string_view bytes, int flags = 0);

// An event of the monitor of a socket.
struct ZmqEvent {
  int event = 0;
  std::int64_t value = 0;
  std::string endpoint;
};
std::optional<ZmqEvent> receive_event(zmq::socket_t& monitor);

std::span<const std::byte> bytes_of(const zmq::message_t& message);
// A property of the connection on which the message arrived; empty if unset.
std::string_view property_of(zmq::message_t& message, const char* name);
// The descriptor of the connection on which the message arrived, or -1.
int source_fd_of(zmq::message_t& message);

}  // namespace mobula::internal
