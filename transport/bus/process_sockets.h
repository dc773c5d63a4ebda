// Sockets of a process: its loop thread and its listeners. The bus, which adds three threads, is
// created with the first connection in either direction. Calls within a node use rings, so most
// processes never create it. The sockets may be opened before the role of the process is known:
// until `serve`, received messages are ignored.
// Thread: the owner's thread for construction and destruction; otherwise see the sections.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/model/jobs/principal.h"
#include "base/result.h"
#include "transport/bus/bus.h"
#include "transport/loop/loop_thread.h"

namespace mobula::internal {

struct SocketOptions {
  CurveKeys keys;
  std::string local_bind;  // executors: ipc path for peers of this node
  std::string host_bind;   // executors: HOST:0 for peers of other nodes; empty: no listener
  Duration handshake_timeout = 5s;  // of connections of the bus
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
  // Address and public key for peers. The caller adds the owner of the endpoint.
  const Endpoint& endpoint() const { return endpoint_; }

  // ---- the loop's thread -----------------------------------------------------------------------
  // Creates the bus if needed. Errors: any failure of the system, unavailable after close().
  Result<Bus*> bus();
  void serve(BusCallbacks callbacks) { callbacks_ = std::move(callbacks); }
  // Ends all connections and destroys the bus.
  void close();

 private:
  explicit ProcessSockets(const SocketOptions& options)
      : keys_(options.keys), handshake_timeout_(options.handshake_timeout) {
    endpoint_.public_key = keys_.public_key;
  }
  Result<void> listen(const std::string& where, std::string& address);
  void watch_listeners();
  void somebody_connects();
  void take_up_later(const Failure& why);

  const CurveKeys keys_;
  const Duration handshake_timeout_;
  Endpoint endpoint_;

  // Loop's thread.
  AllowTable allow_{UnknownKeys::unproven};
  BusCallbacks callbacks_;
  std::vector<ListeningSocket> listeners_;  // until the bus exists
  std::vector<Watch> watches_;
  std::unique_ptr<Timer> retry_;
  std::unique_ptr<Bus> bus_;
  bool closed_ = false;
  bool failure_reported_ = false;  // a failure to create the bus was printed

  std::unique_ptr<LoopThread> thread_;  // destroyed before the members that it uses
};

}  // namespace mobula::internal
