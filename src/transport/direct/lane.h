// A thread that fetches chunks of what is pulled from their holders, in a way of its own: its part of a
// LaneTransport. All calls are for the transport's thread, and none blocks.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "transport/direct/tcp_wire.h"
#include "transport/direct/tensor_transport.h"

namespace mobula::internal {

// What one lane has to fetch of a pull.
struct LaneShare {
  TransferId transfer;
  ChannelKey from;
  std::string address;  // of the holder, as the transport's endpoints say it
  TcpRight right;
  DirectToken token;
  std::vector<std::pair<TcpChunk, std::byte*>> chunks;
  Duration silence_limit{0};
  std::shared_ptr<ChunkStage> stage = nullptr;  // chunks go to a device by it
  // Once, on the lane's thread; nothing is written from then on.
  std::function<void(const Result<void>&, Time began)> ended;
};

class Lane {
 public:
  // Ends everything without an answer.
  virtual ~Lane() = default;

  virtual void begin(LaneShare share) = 0;
  // The share ends with cancelled, or has ended.
  virtual void cancel(TransferId transfer) = 0;
  // Its connections are of no more use.
  virtual void forget(const ChannelKey& channel) = 0;
};

}  // namespace mobula::internal
