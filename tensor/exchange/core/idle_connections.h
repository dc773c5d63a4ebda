// Closes connections to tensor holders that were idle for `idle_timeout`. The receiver decides,
// because the connection carries only its requests. It sends `CloseConnectionRequest` as its last
// message and closes the connection on the reply of the holder. New requests wait for that reply.
// Thread: owner (part of `TensorExchangeCore`).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>

#include "tensor/exchange/core/two_sided_steps.h"

namespace mobula::internal::transfer {

class IdleConnections {
 public:
  explicit IdleConnections(RegionContext& context) : context_(context) {}

  // The holder supports closing; connections to other holders stay open.
  void supports_close(ProcessId holder) { may_.insert(holder); }
  // Restarts the idle time of the connection.
  void used(ProcessId holder);
  // True from the close request to `parted`; nothing may be sent to the holder then.
  bool is_parting(ProcessId holder) const;
  // Returns false if the reply matches no request.
  bool parted(ProcessId holder, std::uint64_t round);
  void gone(ProcessId holder);
  // `is_busy`: a pull from the holder is in progress, or its chunks are relayed here.
  void tick(const std::function<bool(ProcessId)>& is_busy);
  std::optional<Time> next_deadline() const;
  std::size_t size() const { return connections_.size(); }

 private:
  struct Connection {
    Time used{};
    std::uint64_t closing = 0;  // number of the close request; 0: none
  };
  std::optional<Time> due(ProcessId holder, const Connection& connection) const;

  RegionContext& context_;
  std::map<ProcessId, Connection> connections_;
  std::set<ProcessId> may_;  // holders that support closing
  std::uint64_t last_round_ = 0;
};

}  // namespace mobula::internal::transfer
