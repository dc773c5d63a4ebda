// Transfers between processes of one machine and one user, by memory they share. What lies in a
// memfd is read in place; other memory of the holder is read by process_vm_readv where both
// processes can, and else copied by the holder when it is offered. See tensor_transport.h for what
// is promised, docs/decisions/0020-put-each-tensor-path-behind-one-transport-interface.md for why it is so.
#pragma once

#include <memory>
#include <string>

#include "transport/direct/mapped_transport.h"

namespace mobula::internal {

struct ShmOptions {
  std::string socket;  // where receivers connect: in a folder of mode 0700
  ArenaOptions arena = {};
  CopyOptions copying = {};
  DirectLimits limits = {};
  std::uint64_t max_mapped_bytes = 1ull << 40;  // of other processes' files
  bool read_processes = true;                   // false: never by process_vm_readv
};

class ShmTransport final : public MappedTransport {
 public:
  // Whether memory can be shared here, and how what is in no file would be read.
  static Availability probe();
  // `process`: this one. Fails as probe() does, and with what LocalListener::open fails with.
  static Result<std::unique_ptr<ShmTransport>> create(EventLoop& loop, ProcessId process,
                                                      ShmOptions options);

  // Memory that receivers read in place. Any thread, also after the transport's end.
  const std::shared_ptr<Arena>& arena() const { return arena_; }

  std::string_view name() const override { return "shm"; }
  Result<PathCost> reach(const Peer& peer, const MemoryPlace& source,
                         const MemoryPlace& target) const override;
  // For files that are not the arena's, whose owner wants their memory back.
  using MappedTransport::forget;

 private:
  ShmTransport(EventLoop& loop, const ShmOptions& options, ShmEndpoint self);

  // Shared: tensors in it outlive the transport.
  std::shared_ptr<Arena> arena_;
};

}  // namespace mobula::internal
