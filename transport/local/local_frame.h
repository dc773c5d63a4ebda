// Frames of bytes and descriptors on a connected unix stream socket. A frame has an 8-byte header
// (length and number of descriptors, little-endian) and the bytes. Descriptors travel with the
// header (SCM_RIGHTS).
// Thread: any, one per socket. Errors: see each function. Not: authentication of the peer.
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

// Sends one whole frame and blocks until `deadline`. Meant for the start of a process, before a
// LocalLink owns the socket. Errors: timed_out (the stream is then unusable, because part of a
// frame may be sent), unavailable if the peer closed the socket. The caller keeps the descriptors.
Result<void> send_frame(const Fd& socket, std::span<const std::byte> bytes, std::span<const Fd> fds,
                        Time deadline);

// Receives one frame and blocks until `deadline`. Never reads bytes of the next frame. Errors:
// timed_out; unavailable at the end of the stream; corrupt for a frame above the limits or with
// missing descriptors.
Result<LocalFrame> receive_frame(const Fd& socket, Time deadline, LocalFrameLimits limits = {});

// The header of a frame.
struct LocalFrameHeader {
  static constexpr std::size_t size = 8;
  std::uint32_t length = 0;
  std::uint32_t fd_count = 0;

  void write(std::span<std::byte, size> to) const;
  static LocalFrameHeader read(std::span<const std::byte, size> from);
  // Errors: corrupt, with the announced values and the limits.
  Result<void> check(const LocalFrameLimits& limits) const;
};

// Sends `first`, `second`, and `fds` with one sendmsg, and never blocks. The descriptors belong to
// the first byte. Returns the number of sent bytes, 0 if the socket is full.
Result<std::size_t> send_some(int socket, std::span<const std::byte> first,
                              std::span<const std::byte> second, std::span<const Fd> fds);

struct Received {
  std::size_t count = 0;
  bool end = false;      // end of the stream
  bool blocked = false;  // no bytes available now
};
// Receives with one recvmsg, and never blocks. Appends descriptors to `fds`, close-on-exec. Errors:
// corrupt if more than `max_fds` descriptors arrive.
Result<Received> receive_some(int socket, std::span<std::byte> into, std::vector<Fd>& fds,
                              std::size_t max_fds);

}  // namespace mobula::internal
