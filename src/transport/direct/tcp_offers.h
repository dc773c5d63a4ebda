// What a process offers over tcp, and who may ask for it: written by the transport's loop, read by
// the lanes that send. A lock guards it; the functions say whose they are.
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
#include "transport/bulk_server.h"
#include "transport/direct/tcp_wire.h"
#include "transport/direct/tensor_transport.h"

namespace mobula::internal {

// A chunk that somebody may have, until `hold` goes.
struct OfferedChunk {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> hold;     // shared with what is posted
  std::shared_ptr<ChunkStage> stage;    // the bytes are a device's: they come to the host by it
  std::function<bool()> wanted;         // of those: false when the offer has ended. Any thread
};

class TcpOffers {
 public:
  explicit TcpOffers(const DirectLimits& limits) : limits_(limits) {}

  // The loop's. The right of a receiver, made when there is none. One of a higher epoch, or of the
  // other kind, ends the one before. permission_denied for a lower one.
  Result<TcpRight> right_of(const ChannelKey& receiver, bool sealed);
  Result<void> add(TransferId transfer, const ChannelKey& to, const DirectToken& token,
                   std::vector<SourceRegion> regions, std::shared_ptr<ChunkStage> stage = nullptr);
  // `quiet` is called once, here or by the lane that has sent the last byte.
  void release(TransferId transfer, std::function<void()> quiet);
  std::vector<TransferId> of(const ProcessId* peer) const;
  void end_right(const ProcessId* peer);
  std::size_t size() const;

  // The lanes'.
  std::optional<BulkAccess> access(const BulkToken& token) const;
  // A chunk that is asked for; who asks is named as access() named it.
  Result<OfferedChunk> find(const std::string& principal, std::span<const std::byte> request);
  // The same where there are no stages: bytes which stay until `release` is called.
  Result<BulkBody> read(const std::string& principal, std::span<const std::byte> request);
  // One more that touches regions by a stage.
  std::shared_ptr<const void> begin_stage() { return uses_.begin(); }

  // Chunks of devices are wanted by nobody from here on; returns when none is touched any more. For the end,
  // after that of the lanes.
  void end_stages();

 private:
  struct Row {
    ChannelKey to;
    std::uint64_t right = 0;
    DirectToken token;
    std::vector<SourceRegion> regions;
    std::shared_ptr<ChunkStage> stage;
    std::atomic<bool> ended = false;  // also read without the lock
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
  std::map<TransferId, std::shared_ptr<Row>> rows_ MOBULA_GUARDED_BY(mutex_);  // shared with the chunks being sent
};

}  // namespace mobula::internal
