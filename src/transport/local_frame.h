// Frames of bytes and descriptors over a connected unix stream socket: a header of 8 bytes (length
// and number of descriptors, little-endian), then the bytes; descriptors travel by SCM_RIGHTS with
// the header. The two functions here block until their deadline and never take a byte of the frame
// behind: for the start of a process, before a LocalLink owns the socket. Any thread, one per
// socket. They do not judge who the peer is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"

namespace mobula::internal {

struct LocalFrame {
  std::vector<std::byte> bytes;
  std::vector<Fd> fds;
};

struct LocalFrameLimits {
  std::size_t max_bytes = 16u << 20;
  std::size_t max_fds = 16;
};

// Sends one frame whole. timed_out at the deadline (the stream is then useless: part of the frame
// may have left), unavailable when the peer has gone. The descriptors stay the caller's.
Result<void> send_frame(const Fd& socket, std::span<const std::byte> bytes, std::span<const Fd> fds,
                        Time deadline);

// Receives one frame. timed_out at the deadline, unavailable at the end of the stream, corrupt for
// a frame beyond the limits or with fewer descriptors than it announced.
Result<LocalFrame> receive_frame(const Fd& socket, Time deadline, LocalFrameLimits limits = {});

// The header of a frame on the wire.
struct LocalFrameHeader {
  static constexpr std::size_t size = 8;
  std::uint32_t length = 0;
  std::uint32_t fd_count = 0;

  void write(std::span<std::byte, size> to) const;
  static LocalFrameHeader read(std::span<const std::byte, size> from);
  // Fails with corrupt, naming what was announced and the limit.
  Result<void> check(const LocalFrameLimits& limits) const;
};

// One sendmsg of `first` then `second`, with `fds` on its first byte; never blocks. Returns the
// bytes taken, 0 if none can be now.
Result<std::size_t> send_some(int socket, std::span<const std::byte> first,
                              std::span<const std::byte> second, std::span<const Fd> fds);

struct Received {
  std::size_t count = 0;
  bool end = false;      // the stream has ended
  bool blocked = false;  // nothing to read now
};
// One recvmsg that appends descriptors to `fds`, close-on-exec; never blocks. More than `max_fds`
// of them at once is corrupt.
Result<Received> receive_some(int socket, std::span<std::byte> into, std::vector<Fd>& fds,
                              std::size_t max_fds);

}  // namespace mobula::internal
