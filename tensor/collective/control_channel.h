// Control channel between two members: short messages on a connection separate from the payload, so
// that an abort is never blocked behind bulk data. Encrypted if the payload is.
// Thread: the thread that executes an operation; calls never block.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "tensor/collective/byte_stream.h"
#include "tensor/collective/core/control_message.h"

namespace mobula::internal::collective {

class ControlChannel {
 public:
  ControlChannel(Fd socket, const WireKeys& keys);

  // Queues the message and sends as much as possible now.
  Result<void> say(const ControlMessage& message);
  Result<void> flush();
  bool flushed() const { return out_.empty(); }
  // Returns the next complete message, if any. Fails with unavailable at the end of the stream, and
  // with corrupt on invalid input.
  Result<std::optional<ControlMessage>> hear();
  // Sends no further message. The peer receives the queued ones, then the end of the stream.
  void finish();
  int descriptor() const { return socket_.get(); }

 private:
  Fd socket_;
  std::unique_ptr<Sealer> sealer_;
  std::unique_ptr<Opener> opener_;
  std::deque<std::vector<std::byte>> out_;
  std::size_t sent_ = 0;  // bytes sent of `out_.front()`
  std::vector<std::byte> in_;
  std::size_t filled_ = 0;
};

}  // namespace mobula::internal::collective
