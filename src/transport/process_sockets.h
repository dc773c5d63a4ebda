// Where a process meets others: the thread that owns its sockets, and the places it listens at. The bus,
// which brings three threads with it, is made when the first connects or is connected to: calls of a
// node go by rings, and most processes never need it. Can be opened before it is known what the process
// will be for: until `serve` nothing that others say is heard. Construction and destruction are for the
// owner's thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/principal.h"
#include "transport/bus.h"
#include "transport/loop_thread.h"

namespace mobula::internal {

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
  // Made if there is none yet. Fails where the system refuses, and after close().
  Result<Bus*> bus();
  void serve(BusCallbacks callbacks) { callbacks_ = std::move(callbacks); }
  // Ends the connections; there is no bus any more.
  void close();

 private:
  explicit ProcessSockets(const CurveKeys& keys) : keys_(keys) { endpoint_.public_key = keys.public_key; }
  Result<void> listen(const std::string& where, std::string& address);
  void watch_places();
  void somebody_connects();
  void take_up_later(const Failure& why);

  const CurveKeys keys_;
  Endpoint endpoint_;

  // The loop's thread's.
  AllowTable allow_{UnknownKeys::unproven};
  BusCallbacks callbacks_;
  std::vector<ListeningSocket> places_;  // until there is a bus
  std::vector<Watch> watches_;
  std::unique_ptr<Timer> retry_;
  std::unique_ptr<Bus> bus_;
  bool closed_ = false;
  bool told_ = false;  // why there is none

  std::unique_ptr<LoopThread> thread_;  // ends before what it uses
};

}  // namespace mobula::internal
