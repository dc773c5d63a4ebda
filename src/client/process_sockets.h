// Where a process meets others: the thread that owns its sockets, the bus with its keys, and the places
// it is bound to. Can be opened before it is known what the process will be for: until `serve` nothing
// that others say is heard. Construction and destruction are for the owner's thread.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "protocol/process_control.h"
#include "transport/bus.h"
#include "transport/loop_thread.h"

namespace mobula::internal::client {

struct SocketOptions {
  CurveKeys keys;
  std::string local_bind;  // executors: the ipc path peers of this node connect to
  std::string host_bind;   // executors: HOST:0 for peers of other nodes; empty: none
};

class ProcessSockets {
 public:
  static Result<std::unique_ptr<ProcessSockets>> open(const SocketOptions& options);
  ~ProcessSockets();
  ProcessSockets(const ProcessSockets&) = delete;
  ProcessSockets& operator=(const ProcessSockets&) = delete;

  // ---- the owner's thread ----------------------------------------------------------------------
  LoopThread& thread() { return *thread_; }
  EventLoop& loop() { return thread_->loop(); }
  // Where peers reach it, and by which key; whose it is has to be filled in.
  const Endpoint& endpoint() const { return endpoint_; }

  // ---- the loop's thread -----------------------------------------------------------------------
  Bus& bus() { return *bus_; }
  void serve(BusCallbacks callbacks) { callbacks_ = std::move(callbacks); }
  // Ends the connections; there is no bus any more.
  void close() { bus_.reset(); }

 private:
  ProcessSockets() = default;
  Result<void> open_bus(const SocketOptions& options);

  Endpoint endpoint_;
  AllowTable allow_{UnknownKeys::unproven};
  BusCallbacks callbacks_;
  std::unique_ptr<Bus> bus_;
  std::unique_ptr<LoopThread> thread_;  // ends before what it uses
};

}  // namespace mobula::internal::client
