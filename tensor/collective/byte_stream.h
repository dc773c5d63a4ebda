// Byte streams between two members, one in each direction, without frames. Within a machine they
// are rings in shared memory; between machines a TCP connection (socket_stream.h).
// Thread: the thread that executes an operation; calls never block.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "base/fd.h"
#include "base/result.h"
#include "tensor/collective/stream_ring.h"
#include "transport/bulk/seal.h"
#include "transport/local/process_memory.h"
#include "transport/local/shared_memory.h"

namespace mobula::internal::collective {

// True for errors of a call that would have blocked.
bool is_for_later(int error_number);

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Accepts some of the bytes, or none if there is no space now. Fails with unavailable if the peer
  // has exited.
  virtual Result<std::size_t> send(std::span<const std::byte> bytes) = 0;
  // Stores some bytes in `buffer`, or none if none are available now. Fails with corrupt on invalid
  // input.
  virtual Result<std::size_t> receive(std::span<std::byte> buffer) = 0;
  // Must be called before the thread blocks. Returns true if the awaited condition already holds.
  virtual bool prepare_sleep(bool to_send, bool to_receive) = 0;
  // Descriptor and events to poll; -1: the peer wakes the member through an eventfd.
  virtual int descriptor() const { return -1; }
  virtual short events(bool to_send, bool to_receive) const = 0;
  // True if the operating system has accepted all bytes.
  virtual bool flushed() const { return true; }
};

// Shared memory of one pair, with a ring in each direction. The first end is the one that created
// it.
inline constexpr std::size_t ring_bytes = 1u << 20;  // bytes per direction
std::size_t pair_memory_bytes();

struct StreamMemory : ProcessMemory {
  static constexpr std::size_t stream_capacity = ring_bytes;
  static constexpr std::size_t worth_waking = ring_bytes / 4;  // bytes of space for the writer
};

class ShmStream final : public ByteStream {
 public:
  // `wakes_peer`: eventfd of the peer.
  ShmStream(SharedMemory memory, bool first, Fd wakes_peer);
  Result<std::size_t> send(std::span<const std::byte> bytes) override;
  Result<std::size_t> receive(std::span<std::byte> buffer) override;
  bool prepare_sleep(bool to_send, bool to_receive) override;
  short events(bool, bool) const override { return 0; }

 private:
  using Ring = BasicStreamRing<StreamMemory>;
  friend std::size_t pair_memory_bytes();
  void wake_peer() const;

  SharedMemory memory_;
  Fd wakes_peer_;
  BasicStreamWriter<StreamMemory> out_;
  BasicStreamReader<StreamMemory> in_;
};

// Keys of one connection; empty for plain bytes.
struct WireKeys {
  std::optional<SealKey> send;
  std::optional<SealKey> receive;
};

}  // namespace mobula::internal::collective
