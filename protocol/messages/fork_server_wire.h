// Packets between an agent and the processes that it starts, over an inherited SOCK_SEQPACKET pair:
// a fork server, which forks executors, or an executor that was started directly. One packet is one
// message; file descriptors accompany it. Little-endian.
// Thread: any.
// Not: compatibility. Both ends have the same build, and the hello checks it. Decoders validate
// their input.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/id.h"
#include "base/result.h"

namespace mobula::internal {

// Environment variables of a started program: the kind of start, and the file descriptor of the
// socket.
inline constexpr const char* fork_server_fd_variable = "MOBULA_FORK_SERVER_FD";
inline constexpr const char* executor_fd_variable = "MOBULA_EXECUTOR_FD";
// Identify an executor and all processes that it starts, in hex. A fork server has zeros in them,
// so that a forked executor can overwrite the value that /proc/PID/environ shows.
inline constexpr const char* slot_variable = "MOBULA_SLOT";
inline constexpr const char* process_variable = "MOBULA_PROCESS";

inline constexpr std::uint32_t fork_server_wire_version = 2;
inline constexpr std::size_t fork_server_packet_limit = 64 * 1024;
inline constexpr std::size_t fork_server_fd_limit = 2;

// Agent to fork server or executor, with the file descriptors {link, log}: become this executor.
struct ForkRequest {
  ProcessId process;
  SlotId slot;
  std::uint64_t seed = 0;
  std::int32_t agent_pid = 0;
  std::vector<std::pair<std::string, std::string>> environment;  // overrides inherited variables
  friend bool operator==(const ForkRequest&, const ForkRequest&) = default;
};

// Reply to the agent: the pid of the executor, or the error.
struct ForkReply {
  ProcessId process;
  std::int32_t pid = 0;
  std::string error;
  friend bool operator==(const ForkReply&, const ForkReply&) = default;
};

// The first packet of a fork server: it is ready, or this program cannot be forked.
struct ForkServerHello {
  std::uint32_t version = fork_server_wire_version;
  std::string refusal;
  friend bool operator==(const ForkServerHello&, const ForkServerHello&) = default;
};

namespace fork_server_wire {

enum class Kind : unsigned char { hello = 'H', request = 'Q', reply = 'R' };

class Writer {
 public:
  explicit Writer(Kind kind) { out_.push_back(static_cast<char>(kind)); }
  void number(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) out_.push_back(static_cast<char>(value >> (8 * i)));
  }
  void bits(Hash128 value) {
    number(value.high, 8);
    number(value.low, 8);
  }
  void text(std::string_view value) {
    number(value.size(), 4);
    out_.append(value);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

// Returns zeros and empty strings past the end, and records that.
class Reader {
 public:
  Reader(std::string_view packet, Kind kind) : rest_(packet) {
    failed_ = number(1) != static_cast<unsigned char>(kind);
  }
  std::uint64_t number(int bytes) {
    const std::string_view raw = take(static_cast<std::size_t>(bytes));
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < raw.size(); ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(raw[i])) << (8 * i);
    }
    return value;
  }
  Hash128 bits() {
    const std::uint64_t high = number(8);
    return Hash128{high, number(8)};
  }
  std::string text() { return std::string(take(static_cast<std::size_t>(number(4)))); }
  bool failed() const { return failed_; }
  // Returns true if every read succeeded and no byte is left.
  bool complete() const { return !failed_ && rest_.empty(); }

 private:
  std::string_view take(std::size_t size) {
    if (size > rest_.size()) {
      failed_ = true;
      rest_ = {};
    }
    const std::string_view taken = rest_.substr(0, size);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace fork_server_wire

inline std::string encode(const ForkRequest& message) {
  fork_server_wire::Writer out(fork_server_wire::Kind::request);
  out.bits(message.process.bits());
  out.bits(message.slot.bits());
  out.number(message.seed, 8);
  out.number(static_cast<std::uint32_t>(message.agent_pid), 4);
  out.number(message.environment.size(), 4);
  for (const auto& [name, value] : message.environment) {
    out.text(name);
    out.text(value);
  }
  return out.take();
}

inline std::optional<ForkRequest> decode_fork_request(std::string_view packet) {
  fork_server_wire::Reader in(packet, fork_server_wire::Kind::request);
  ForkRequest message;
  message.process = ProcessId(in.bits());
  message.slot = SlotId(in.bits());
  message.seed = in.number(8);
  message.agent_pid = static_cast<std::int32_t>(in.number(4));
  const std::uint64_t count = in.number(4);
  for (std::uint64_t i = 0; i < count && !in.failed(); ++i) {
    std::string name = in.text();
    message.environment.emplace_back(std::move(name), in.text());
  }
  if (!in.complete()) return std::nullopt;
  return message;
}

inline std::string encode(const ForkReply& message) {
  fork_server_wire::Writer out(fork_server_wire::Kind::reply);
  out.bits(message.process.bits());
  out.number(static_cast<std::uint32_t>(message.pid), 4);
  out.text(message.error);
  return out.take();
}

inline std::optional<ForkReply> decode_fork_reply(std::string_view packet) {
  fork_server_wire::Reader in(packet, fork_server_wire::Kind::reply);
  ForkReply message;
  message.process = ProcessId(in.bits());
  message.pid = static_cast<std::int32_t>(in.number(4));
  message.error = in.text();
  if (!in.complete()) return std::nullopt;
  return message;
}

inline std::string encode(const ForkServerHello& message) {
  fork_server_wire::Writer out(fork_server_wire::Kind::hello);
  out.number(message.version, 4);
  out.text(message.refusal);
  return out.take();
}

inline std::optional<ForkServerHello> decode_fork_server_hello(std::string_view packet) {
  fork_server_wire::Reader in(packet, fork_server_wire::Kind::hello);
  ForkServerHello message;
  message.version = static_cast<std::uint32_t>(in.number(4));
  message.refusal = in.text();
  if (!in.complete()) return std::nullopt;
  return message;
}

struct ForkServerPacket {
  std::string bytes;  // empty: the other end is closed
  std::vector<Fd> fds;
};

// Sends one packet with at most fork_server_fd_limit file descriptors. `flags` are those of
// sendmsg, such as MSG_DONTWAIT. Errors: resource_exhausted for EAGAIN and for too many file
// descriptors in flight (nothing is sent); unavailable if the other end is closed.
inline Result<void> send_packet(int socket, std::string_view bytes, std::span<const int> fds,
                                int flags) {
  if (bytes.size() > fork_server_packet_limit || fds.size() > fork_server_fd_limit) {
    return failure(ErrorCode::invalid_argument,
                   "a packet to a fork server may have " +
                       std::to_string(fork_server_packet_limit) + " bytes, this one has " +
                       std::to_string(bytes.size()) + " (is the environment too large?)");
  }
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * fork_server_fd_limit)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  while (::sendmsg(socket, &message, flags | MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    const int why = errno == ETOOMANYREFS || errno == ENOBUFS ? EAGAIN : errno;
    return errno_failure("send a packet to a fork server or executor", why);
  }
  return {};
}

// Receives one packet. Its file descriptors are close-on-exec. EAGAIN is resource_exhausted.
inline Result<ForkServerPacket> receive_packet(int socket, int flags) {
  ForkServerPacket packet;
  packet.bytes.resize(fork_server_packet_limit);
  iovec part{packet.bytes.data(), packet.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * fork_server_fd_limit)> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t size = 0;
  do {
    size = ::recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
  } while (size < 0 && errno == EINTR);
  if (size < 0) return errno_failure("receive a packet of the fork server protocol", errno);
  packet.bytes.resize(static_cast<std::size_t>(size));
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof fd);
      packet.fds.emplace_back(fd);
    }
  }
  return packet;
}

}  // namespace mobula::internal
