// What a process offers over tcp, and who may ask for it: written by the transport's loop, read by
// the lanes that send. A lock guards it; the functions say whose they are.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "transport/bulk_server.h"
#include "transport/direct/tcp_wire.h"
#include "transport/direct/tensor_transport.h"

namespace mobula::internal {

class TcpOffers {
 public:
  explicit TcpOffers(const DirectLimits& limits) : limits_(limits) {}

  // The loop's. The right of a receiver, made when there is none. One of a higher epoch, or of the
  // other kind, ends the one before. permission_denied for a lower one.
  Result<TcpRight> right_of(const ChannelKey& receiver, bool sealed);
  Result<void> add(TransferId transfer, const ChannelKey& to, const DirectToken& token,
                   std::vector<SourceRegion> regions);
  // `quiet` is called once, here or by the lane that has sent the last byte.
  void release(TransferId transfer, std::function<void()> quiet);
  std::vector<TransferId> of(const ProcessId* peer) const;
  void end_right(const ProcessId* peer);
  std::size_t size() const;

  // The lanes'.
  std::optional<BulkAccess> access(const BulkToken& token) const;
  // The bytes of a chunk, which stay until its `release` is called; who asks is named as access()
  // named it.
  Result<BulkBody> read(const std::string& principal, std::span<const std::byte> request);

 private:
  struct Row {
    ChannelKey to;
    std::uint64_t right = 0;
    DirectToken token;
    std::vector<SourceRegion> regions;
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
  mutable std::mutex mutex_;  // guards what follows
  std::map<ProcessId, Right> rights_;
  std::uint64_t next_right_ = 1;
  std::map<TransferId, std::shared_ptr<Row>> rows_;  // shared with the chunks being sent
};

}  // namespace mobula::internal
