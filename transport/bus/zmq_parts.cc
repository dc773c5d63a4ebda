#include "transport/bus/zmq_parts.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace mobula::internal {
namespace {

// The default of libzmq, set explicitly. Each socket of a context counts, connections do not.
constexpr int max_sockets = 1023;
// Maximum of unread events of a monitor. At the limit, the I/O thread of libzmq blocks.
constexpr int max_events = 100'000;

}  // namespace

Failure zmq_failure(std::string what) {
  const int error = zmq_errno();
  // libzmq has its own error numbers above those of the system.
  if (error < ZMQ_HAUSNUMERO) return errno_failure(std::move(what), error);
  return failure(ErrorCode::unavailable, fmt::format("{}: {}", what, zmq_strerror(error)));
}

ZmqMessage::ZmqMessage(std::span<const std::byte> bytes) {
  MOBULA_CHECK(zmq_msg_init_size(&message_, bytes.size()) == 0, "memory for a message");
  if (!bytes.empty()) std::memcpy(zmq_msg_data(&message_), bytes.data(), bytes.size());
}

std::string_view ZmqMessage::property(const char* name) {
  const char* const value = zmq_msg_gets(&message_, name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

void ZmqSocket::close() {
  if (socket_ != nullptr) zmq_close(std::exchange(socket_, nullptr));
}

void ZmqSocket::set(int option, int value) {
  const int rc = zmq_setsockopt(socket_, option, &value, sizeof(value));
  MOBULA_CHECK(rc == 0,
               fmt::format("ZeroMQ option {} = {}: {}", option, value, zmq_strerror(zmq_errno())));
}

void ZmqSocket::set(int option, std::int64_t value) {
  const int rc = zmq_setsockopt(socket_, option, &value, sizeof(value));
  MOBULA_CHECK(rc == 0,
               fmt::format("ZeroMQ option {} = {}: {}", option, value, zmq_strerror(zmq_errno())));
}

void ZmqSocket::set(int option, std::string_view value) {
  const int rc = zmq_setsockopt(socket_, option, value.data(), value.size());
  MOBULA_CHECK(rc == 0, fmt::format("ZeroMQ option {}: {}", option, zmq_strerror(zmq_errno())));
}

int ZmqSocket::fd() const {
  int fd = -1;
  std::size_t size = sizeof(fd);
  MOBULA_CHECK(zmq_getsockopt(socket_, ZMQ_FD, &fd, &size) == 0, "descriptor of a ZeroMQ socket");
  return fd;
}

std::string ZmqSocket::last_endpoint() const {
  std::array<char, 512> text{};
  std::size_t size = text.size();
  MOBULA_CHECK(zmq_getsockopt(socket_, ZMQ_LAST_ENDPOINT, text.data(), &size) == 0,
               "endpoint of a bound ZeroMQ socket");
  return text.data();
}

bool ZmqSocket::receive(ZmqMessage& message) {
  int rc = -1;
  do {
    rc = zmq_msg_recv(message.get(), socket_, ZMQ_DONTWAIT);
  } while (rc < 0 && zmq_errno() == EINTR);
  return rc >= 0;
}

bool ZmqSocket::send(ZmqMessage& message, int flags) {
  int rc = -1;
  do {
    rc = zmq_msg_send(message.get(), socket_, flags | ZMQ_DONTWAIT);
  } while (rc < 0 && zmq_errno() == EINTR);
  return rc >= 0;
}

bool ZmqSocket::send(std::string_view bytes, int flags) {
  int rc = -1;
  do {
    rc = zmq_send(socket_, bytes.data(), bytes.size(), flags | ZMQ_DONTWAIT);
  } while (rc < 0 && zmq_errno() == EINTR);
  return rc >= 0;
}

// Two frames: the event (16 bits) with its value (32 bits), and the endpoint.
std::optional<ZmqEvent> ZmqSocket::receive_event() {
  ZmqMessage head;
  if (!receive(head)) return std::nullopt;
  MOBULA_CHECK(head.size() == 6 && head.more(), "an event of a ZeroMQ monitor");
  std::uint16_t event = 0;
  std::int32_t value = 0;
  std::memcpy(&event, head.bytes().data(), sizeof(event));
  std::memcpy(&value, head.bytes().data() + sizeof(event), sizeof(value));
  ZmqMessage endpoint;
  MOBULA_CHECK(receive(endpoint), "the second frame of a message is there with the first");
  return ZmqEvent{event, value, std::string(endpoint.text())};
}

ZmqContext::ZmqContext(int io_threads) : context_(zmq_ctx_new()) {
  MOBULA_CHECK(context_ != nullptr, "a ZeroMQ context");
  zmq_ctx_set(context_, ZMQ_IO_THREADS, io_threads);
  zmq_ctx_set(context_, ZMQ_MAX_SOCKETS, max_sockets);
}

ZmqContext::~ZmqContext() {
  while (zmq_ctx_term(context_) != 0 && zmq_errno() == EINTR) {
  }
}

Result<ZmqSocket> ZmqContext::socket(int type) {
  ZmqSocket made(zmq_socket(context_, type));
  if (!made) return zmq_failure("make a ZeroMQ socket");
  made.set(ZMQ_LINGER, 0);
  return made;
}

Result<ZmqSocket> ZmqContext::monitor(ZmqSocket& socket, const std::string& name, int events) {
  const std::string endpoint = "inproc://" + name;
  if (zmq_socket_monitor(socket.get(), endpoint.c_str(), events) != 0) {
    return zmq_failure("monitor a ZeroMQ socket");
  }
  auto reader = this->socket(ZMQ_PAIR);
  if (!reader) return reader;
  reader->set(ZMQ_RCVHWM, max_events);
  if (zmq_connect(reader->get(), endpoint.c_str()) != 0) {
    return zmq_failure("read the monitor of a ZeroMQ socket");
  }
  return reader;
}

}  // namespace mobula::internal
