#include "transport/local/local_frame.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace mobula::internal {
namespace {

// The limit of the kernel per message (SCM_MAX_FD).
constexpr std::size_t kernel_max_fds = 253;

Failure gone(std::string_view what) {
  return failure(ErrorCode::unavailable,
                 fmt::format("{}: the process at the other end has closed the socket", what));
}

Result<void> wait_for(int socket, short events, Time deadline, std::string_view what) {
  for (;;) {
    const Duration left = deadline - monotonic_now();
    pollfd waited{.fd = socket, .events = events, .revents = 0};
    const auto ms = left <= 0ms ? 0 : std::min<std::int64_t>(left / 1ms + 1, 3'600'000);
    const int rc = ::poll(&waited, 1, static_cast<int>(ms));
    if (rc > 0) return {};
    if (rc < 0 && errno != EINTR) return errno_failure(std::string(what), errno);
    if (monotonic_now() >= deadline) {
      return failure(ErrorCode::timed_out,
                     fmt::format("{}: the process at the other end did not reply in time", what));
    }
  }
}

Result<void> receive_exactly(int socket, std::span<std::byte> into, std::vector<Fd>& fds,
                             Time deadline, std::size_t max_fds) {
  while (!into.empty()) {
    const auto got = receive_some(socket, into, fds, max_fds);
    if (!got) return got.error();
    if (got->end) return gone("receive a local frame");
    into = into.subspan(got->count);
    if (got->blocked) {
      if (auto waited = wait_for(socket, POLLIN, deadline, "receive a local frame"); !waited) {
        return waited;
      }
    }
  }
  return {};
}

}  // namespace

void LocalFrameHeader::write(std::span<std::byte, size> to) const {
  for (std::size_t i = 0; i < 4; ++i) {
    to[i] = static_cast<std::byte>(length >> (8 * i));
    to[4 + i] = static_cast<std::byte>(fd_count >> (8 * i));
  }
}

LocalFrameHeader LocalFrameHeader::read(std::span<const std::byte, size> from) {
  LocalFrameHeader header;
  for (std::size_t i = 0; i < 4; ++i) {
    header.length |= static_cast<std::uint32_t>(from[i]) << (8 * i);
    header.fd_count |= static_cast<std::uint32_t>(from[4 + i]) << (8 * i);
  }
  return header;
}

Result<void> LocalFrameHeader::check(const LocalFrameLimits& limits) const {
  if (length <= limits.max_bytes && fd_count <= limits.max_fds) return {};
  return failure(ErrorCode::corrupt,
                 fmt::format("a local frame announces {} bytes and {} descriptors; the limits are "
                             "{} and {}",
                             length, fd_count, limits.max_bytes, limits.max_fds));
}

Result<std::size_t> send_some(int socket, std::span<const std::byte> first,
                              std::span<const std::byte> second, std::span<const Fd> fds) {
  MOBULA_CHECK(fds.size() <= kernel_max_fds, "descriptors of one frame");
  std::array<iovec, 2> parts{};
  parts[0] = {const_cast<std::byte*>(first.data()), first.size()};
  parts[1] = {const_cast<std::byte*>(second.data()), second.size()};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kernel_max_fds * sizeof(int))> control;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    for (std::size_t i = 0; i < fds.size(); ++i) {
      const int fd = fds[i].get();
      std::memcpy(CMSG_DATA(rights) + i * sizeof(int), &fd, sizeof(int));
    }
  }
  for (;;) {
    const ssize_t sent = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<std::size_t>(sent);
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return std::size_t{0};
    if (errno == EPIPE || errno == ECONNRESET) return gone("send a local frame");
    return errno_failure("send a local frame", errno);
  }
}

Result<Received> receive_some(int socket, std::span<std::byte> into, std::vector<Fd>& fds,
                              std::size_t max_fds) {
  iovec part{into.data(), into.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kernel_max_fds * sizeof(int))> control;
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t count = -1;
  do {
    count = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (count < 0 && errno == EINTR);
  if (count < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Received{.blocked = true};
    // Earlier reads delivered all bytes that the peer sent before it closed.
    if (errno == ECONNRESET || errno == EPIPE) return Received{.end = true};
    return errno_failure("receive a local frame", errno);
  }
  std::size_t arrived = 0;
  for (cmsghdr* each = CMSG_FIRSTHDR(&message); each != nullptr;
       each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t fd_count = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < fd_count; ++i, ++arrived) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(each) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  if (arrived > max_fds || (message.msg_flags & MSG_CTRUNC) != 0) {
    return failure(
        ErrorCode::corrupt,
        fmt::format(
            "a local frame brought {} descriptors{}; the limit is {}", arrived,
            (message.msg_flags & MSG_CTRUNC) != 0 ? " and more than this process can take" : "",
            max_fds));
  }
  return Received{.count = static_cast<std::size_t>(count), .end = count == 0};
}

Result<void> send_frame(const Fd& socket, std::span<const std::byte> bytes, std::span<const Fd> fds,
                        Time deadline) {
  std::array<std::byte, LocalFrameHeader::size> header;
  LocalFrameHeader{static_cast<std::uint32_t>(bytes.size()), static_cast<std::uint32_t>(fds.size())}
      .write(header);
  std::span<const std::byte> first(header);
  std::span<const std::byte> second = bytes;
  while (!first.empty() || !second.empty()) {
    const auto sent = send_some(socket.get(), first, second, fds);
    if (!sent) return sent.error();
    if (*sent > 0) fds = {};
    const std::size_t of_first = std::min(*sent, first.size());
    first = first.subspan(of_first);
    second = second.subspan(*sent - of_first);
    if (*sent == 0) {
      if (auto waited = wait_for(socket.get(), POLLOUT, deadline, "send a local frame"); !waited) {
        return waited;
      }
    }
  }
  return {};
}

Result<LocalFrame> receive_frame(const Fd& socket, Time deadline, LocalFrameLimits limits) {
  LocalFrame frame;
  std::array<std::byte, LocalFrameHeader::size> bytes;
  if (auto got = receive_exactly(socket.get(), bytes, frame.fds, deadline, limits.max_fds); !got) {
    return got.error();
  }
  const LocalFrameHeader header = LocalFrameHeader::read(bytes);
  if (auto good = header.check(limits); !good) return good.error();
  frame.bytes.resize(header.length);
  if (auto got = receive_exactly(socket.get(), frame.bytes, frame.fds, deadline, limits.max_fds);
      !got) {
    return got.error();
  }
  if (frame.fds.size() != header.fd_count) {
    return failure(ErrorCode::corrupt,
                   fmt::format("a local frame announced {} descriptors and brought {}",
                               header.fd_count, frame.fds.size()));
  }
  return frame;
}

}  // namespace mobula::internal
