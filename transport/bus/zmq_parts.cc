#include "transport/bus/zmq_parts.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace mobula::internal {
namespace {

// Maximum of unread events of a monitor. At the limit, the I/O thread of libzmq blocks.
constexpr int max_events = 100'000;

// Repeats a call that a signal interrupted. Returns true on success.
template <class Call>
bool succeeds(Call call) {
  int rc = -1;
  do {
    rc = call();
  } while (rc < 0 && zmq_errno() == EINTR);
  return rc >= 0;
}

}  // namespace

Failure zmq_failure(std::string what, int error) {
  // libzmq has its own error numbers above those of the system.
  if (error < ZMQ_HAUSNUMERO) return errno_failure(std::move(what), error);
  return failure(ErrorCode::unavailable, fmt::format("{}: {}", what, zmq_strerror(error)));
}

Result<zmq::socket_t> open_socket(zmq::context_t& context, zmq::socket_type type) {
  try {
    zmq::socket_t socket(context, type);
    set_option(socket, zmq::sockopt::linger, 0);
    return socket;
  } catch (const zmq::error_t& error) {
    return zmq_failure("make a ZeroMQ socket", error.num());
  }
}

Result<zmq::socket_t> open_monitor(zmq::context_t& context, zmq::socket_t& socket,
                                   const std::string& name, int events) {
  const std::string endpoint = "inproc://" + name;
  if (zmq_socket_monitor(socket.handle(), endpoint.c_str(), events) != 0) {
    return zmq_failure("monitor a ZeroMQ socket", zmq_errno());
  }
  auto reader = open_socket(context, zmq::socket_type::pair);
  if (!reader) return reader;
  set_option(*reader, zmq::sockopt::rcvhwm, max_events);
  try {
    reader->connect(endpoint);
  } catch (const zmq::error_t& error) {
    return zmq_failure("read the monitor of a ZeroMQ socket", error.num());
  }
  return reader;
}

void close_monitor(zmq::socket_t& socket) {
  if (socket) zmq_socket_monitor(socket.handle(), nullptr, 0);
}

bool receive(zmq::socket_t& socket, zmq::message_t& message) {
  return succeeds([&] { return zmq_msg_recv(message.handle(), socket.handle(), ZMQ_DONTWAIT); });
}

bool send(zmq::socket_t& socket, zmq::message_t& message, int flags) {
  return succeeds(
      [&] { return zmq_msg_send(message.handle(), socket.handle(), flags | ZMQ_DONTWAIT); });
}

bool send(zmq::socket_t& socket, std::string_view bytes, int flags) {
  return succeeds(
      [&] { return zmq_send(socket.handle(), bytes.data(), bytes.size(), flags | ZMQ_DONTWAIT); });
}

// Two frames: the event (16 bits) with its value (32 bits), and the endpoint.
std::optional<ZmqEvent> receive_event(zmq::socket_t& monitor) {
  zmq::message_t head;
  if (!receive(monitor, head)) return std::nullopt;
  MOBULA_CHECK(head.size() == 6 && head.more(), "an event of a ZeroMQ monitor");
  std::uint16_t event = 0;
  std::int32_t value = 0;
  std::memcpy(&event, bytes_of(head).data(), sizeof(event));
  std::memcpy(&value, bytes_of(head).data() + sizeof(event), sizeof(value));
  zmq::message_t endpoint;
  MOBULA_CHECK(receive(monitor, endpoint), "the second frame of a message arrives with the first");
  return ZmqEvent{event, value, endpoint.to_string()};
}

std::span<const std::byte> bytes_of(const zmq::message_t& message) {
  return {message.data<std::byte>(), message.size()};
}

std::string_view property_of(zmq::message_t& message, const char* name) {
  const char* const value = zmq_msg_gets(message.handle(), name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

int source_fd_of(zmq::message_t& message) { return zmq_msg_get(message.handle(), ZMQ_SRCFD); }

}  // namespace mobula::internal
