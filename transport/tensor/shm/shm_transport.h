// Transfers between processes of one machine and user through shared memory. Memory in a memfd is
// read in place. Other memory of the holder is read by process_vm_readv if both processes can use
// it, otherwise the holder copies it at the offer. Reasons: decision 20.
// Thread: the event loop. See tensor_transport.h for the guarantees.
#pragma once

#include <memory>
#include <string>

#include "transport/tensor/shm/mapped_transport.h"

namespace mobula::internal {

struct ShmOptions {
  std::string socket;  // socket for receivers, in a directory of mode 0700
  ArenaOptions arena = {};
  CopyOptions copying = {};
  DirectLimits limits = {};
  std::uint64_t max_mapped_bytes = 1ull << 40;  // limit for files of other processes
  bool read_processes = true;                   // false: process_vm_readv is never used
};

class ShmTransport final : public MappedTransport {
 public:
  // Tests whether this process can share memory, and how it reads memory without a file.
  static Availability probe();
  // `process` is this process. Errors: as probe() and LocalListener::open.
  static Result<std::unique_ptr<ShmTransport>> create(EventLoop& loop, ProcessId process,
                                                      ShmOptions options);

  // Memory that receivers read in place. Thread: any, also after the transport has ended.
  const std::shared_ptr<Arena>& arena() const { return arena_; }

  std::string_view name() const override { return "shm"; }
  Result<PathCost> reach(const Peer& peer, const MemoryLocation& source,
                         const MemoryLocation& target) const override;
  // For files outside of the arena: their owner calls it to reclaim the memory.
  using MappedTransport::forget;

 private:
  ShmTransport(EventLoop& loop, const ShmOptions& options, ShmEndpoint self);

  // Shared with tensors in the arena, which may outlive the transport.
  std::shared_ptr<Arena> arena_;
};

}  // namespace mobula::internal
