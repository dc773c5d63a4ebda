// What carries the bytes of collective operations between two members: two streams, one each way, without
// frames. Non-blocking, for the thread that carries out an operation. Within a machine they are rings in shared
// memory, copied once in and once out; else a TCP connection, sealed unless both ends trust the fabric.
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
#include "transport/seal.h"
#include "transport/shared_memory.h"

namespace mobula::internal::collective {

// What a call says that would have had to wait.
bool is_for_later(int error_number);

class Wire {
 public:
  virtual ~Wire() = default;
  // Takes some of the bytes, none where there is no room now. unavailable when the peer is gone.
  virtual Result<std::size_t> send(std::span<const std::byte> bytes) = 0;
  // Puts some bytes into `room`, none where there are none now. corrupt for what the peer cannot have sent.
  virtual Result<std::size_t> receive(std::span<std::byte> room) = 0;
  // Before its owner sleeps until the descriptor is ready, or until it is woken: what it waits for. True
  // where that is there by now.
  virtual bool prepare_sleep(bool to_send, bool to_receive) = 0;
  // What to poll, and for which events; -1: nothing, the peer wakes the member.
  virtual int descriptor() const { return -1; }
  virtual short events(bool to_send, bool to_receive) const = 0;
  // Everything that was taken has left this process.
  virtual bool flushed() const { return true; }
};

// The memory of one pair: both ways. The first end is the one that made it.
inline constexpr std::size_t ring_bytes = 1u << 20;  // of each way
std::size_t pair_memory_bytes();

class ShmWire final : public Wire {
 public:
  // `wakes_peer`: its eventfd.
  ShmWire(SharedMemory memory, bool first, Fd wakes_peer);
  Result<std::size_t> send(std::span<const std::byte> bytes) override;
  Result<std::size_t> receive(std::span<std::byte> room) override;
  bool prepare_sleep(bool to_send, bool to_receive) override;
  short events(bool, bool) const override { return 0; }

 private:
  // On a cache line each: who writes to one does not disturb the other.
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
  std::uint64_t written_ = 0;  // what this end has said, not what stands in the memory
  std::uint64_t read_ = 0;
};

// Keys of one connection: none where it is plain.
struct WireKeys {
  std::optional<SealKey> send;
  std::optional<SealKey> receive;
};

class TcpWire final : public Wire {
 public:
  TcpWire(Fd socket, const WireKeys& keys);
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
  std::vector<std::byte> sealed_;  // a frame on its way out
  std::size_t sent_ = 0;           // of it
  std::vector<std::byte> arriving_;
  std::size_t arrived_ = 0;
  std::vector<std::byte> opened_;  // of a frame that did not fit
  std::size_t taken_ = 0;          // of it
};

}  // namespace mobula::internal::collective
