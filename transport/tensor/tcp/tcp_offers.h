// Offers of a process over tcp, and the access tokens of their receivers.
// Thread: the transport's loop writes, the lanes read (one lock). The comments of the functions
// name the thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "transport/bulk/bulk_server.h"
#include "transport/tensor/tcp/tcp_wire.h"
#include "transport/tensor/tensor_transport.h"

namespace mobula::internal {

// A chunk that a receiver may read until `hold` is released.
struct OfferedChunk {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> hold;   // shared with posted tasks
  std::shared_ptr<ChunkStage> stage;  // shared; set for device memory: copies the chunk to the host
  std::function<bool()> wanted;       // device memory: false after the offer has ended. Thread: any
};

class TcpOffers {
 public:
  explicit TcpOffers(const DirectLimits& limits) : limits_(limits) {}

  // Loop: returns the access token of a receiver and creates it if needed. A higher epoch, or a
  // change of encryption, replaces the earlier token. Errors: permission_denied for a lower epoch.
  Result<TcpRight> right_of(const ChannelKey& receiver, bool sealed);
  Result<void> add(TransferId transfer, const ChannelKey& to, const DirectToken& token,
                   std::vector<SourceRegion> regions, std::shared_ptr<ChunkStage> stage = nullptr);
  // `quiet` is called once, here or by the lane that sent the last byte.
  void release(TransferId transfer, std::function<void()> quiet);
  std::vector<TransferId> of(const ProcessId* peer) const;
  void end_right(const ProcessId* peer);
  std::size_t size() const;

  // Lanes:
  std::optional<BulkAccess> access(const BulkToken& token) const;
  // Returns a requested chunk. `principal` is the value from access().
  Result<OfferedChunk> find(const std::string& principal, std::span<const std::byte> request);
  // The same without stages: the bytes stay valid until `release` is called.
  Result<BulkBody> read(const std::string& principal, std::span<const std::byte> request);
  // Counts a further stage that accesses regions.
  std::shared_ptr<const void> begin_stage() { return uses_.begin(); }

  // Cancels all device chunks and returns when no stage accesses a region. For the destructor,
  // after the lanes have ended.
  void end_stages();

 private:
  struct Row {
    ChannelKey to;
    std::uint64_t right = 0;
    DirectToken token;
    std::vector<SourceRegion> regions;
    std::shared_ptr<ChunkStage> stage;  // Shared with the chunks being sent.
    std::atomic<bool> ended = false;    // also read without the lock
    std::size_t readers = 0;
    std::function<void()> quiet;  // waits for the readers
  };
  struct Right {
    ChannelKey to;
    std::uint64_t number = 0;
    TcpRight right;
  };
  void done(const std::shared_ptr<Row>& row);

  const DirectLimits limits_;
  StageUses uses_;
  mutable Mutex mutex_;
  std::map<ProcessId, Right> rights_ MOBULA_GUARDED_BY(mutex_);
  std::uint64_t next_right_ MOBULA_GUARDED_BY(mutex_) = 1;
  // Shared with the chunks being sent.
  std::map<TransferId, std::shared_ptr<Row>> rows_ MOBULA_GUARDED_BY(mutex_);
};

}  // namespace mobula::internal
