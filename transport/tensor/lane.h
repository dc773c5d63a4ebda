// I/O thread of a LaneTransport: pulls chunks from their holders.
// Thread: the transport's thread; no call blocks.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "transport/tensor/tcp/tcp_wire.h"
#include "transport/tensor/tensor_transport.h"

namespace mobula::internal {

// The chunks of a pull that one lane fetches.
struct LaneShare {
  TransferId transfer;
  ChannelKey from;
  std::string address;  // address of the holder, from its endpoint
  TcpRight right;
  DirectToken token;
  std::vector<std::pair<TcpChunk, std::byte*>> chunks;
  Duration silence_timeout{0};
  bool untouched = false;  // all targets, see TargetRegion
  // Shared with the transfer. Copies chunks to a device.
  std::shared_ptr<ChunkStage> stage = nullptr;
  // Called once, on the lane's thread. Nothing is written afterwards.
  std::function<void(const Result<void>&, Time began)> ended;
};

class Lane {
 public:
  // Ends all shares without a callback.
  virtual ~Lane() = default;

  virtual void begin(LaneShare share) = 0;
  // The share ends with cancelled, unless it has ended already.
  virtual void cancel(TransferId transfer) = 0;
  // Closes the connections of the channel.
  virtual void forget(const ChannelKey& channel) = 0;
};

}  // namespace mobula::internal
