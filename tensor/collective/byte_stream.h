// Byte streams between two members, one in each direction, without frames. Within a machine they
// are rings in shared memory; between machines a TCP connection, encrypted unless both ends trust
// the fabric.
// Thread: the thread that executes an operation; calls never block.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "transport/bulk/seal.h"
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
  // Stores some bytes in `room`, or none if none are available now. Fails with corrupt on invalid
  // input.
  virtual Result<std::size_t> receive(std::span<std::byte> room) = 0;
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

class ShmStream final : public ByteStream {
 public:
  // `wakes_peer`: eventfd of the peer.
  ShmStream(SharedMemory memory, bool first, Fd wakes_peer);
  Result<std::size_t> send(std::span<const std::byte> bytes) override;
  Result<std::size_t> receive(std::span<std::byte> room) override;
  bool prepare_sleep(bool to_send, bool to_receive) override;
  short events(bool, bool) const override { return 0; }

 private:
  // Each counter has its own cache line, so that one end does not slow the other.
  struct Way {
    alignas(64) std::atomic<std::uint64_t> written;
    alignas(64) std::atomic<std::uint64_t> read;
    alignas(64) std::atomic<std::uint32_t> writer_sleeps;
    alignas(64) std::atomic<std::uint32_t> reader_sleeps;
  };
  friend std::size_t pair_memory_bytes();
  void wake(std::atomic<std::uint32_t>& sleeps);

  SharedMemory memory_;
  Fd wakes_peer_;
  Way* out_ = nullptr;
  Way* in_ = nullptr;
  std::byte* out_bytes_ = nullptr;
  std::byte* in_bytes_ = nullptr;
  std::uint64_t written_ = 0;  // local copy; the value in shared memory is not trusted
  std::uint64_t read_ = 0;
};

// Keys of one connection; empty for plain bytes.
struct WireKeys {
  std::optional<SealKey> send;
  std::optional<SealKey> receive;
};

class TcpStream final : public ByteStream {
 public:
  TcpStream(Fd socket, const WireKeys& keys);
  Result<std::size_t> send(std::span<const std::byte> bytes) override;
  Result<std::size_t> receive(std::span<std::byte> room) override;
  bool prepare_sleep(bool to_send, bool to_receive) override;
  int descriptor() const override { return socket_.get(); }
  short events(bool to_send, bool to_receive) const override;
  bool flushed() const override { return sent_ == sealed_.size(); }

 private:
  Result<void> flush();
  Result<std::size_t> receive_plain(std::span<std::byte> room);

  Fd socket_;
  std::unique_ptr<Sealer> sealer_;
  std::unique_ptr<Opener> opener_;
  std::vector<std::byte> sealed_;  // encrypted frame to send
  std::size_t sent_ = 0;           // bytes of it that were sent
  std::vector<std::byte> arriving_;
  std::size_t arrived_ = 0;
  std::vector<std::byte> opened_;  // decrypted bytes that did not fit the caller's buffer
  std::size_t taken_ = 0;          // bytes of it that were returned
};

}  // namespace mobula::internal::collective
