// ZeroMQ sockets of a bus. Every relevant option is set explicitly.
// Thread: the event loop. Not: decisions about peers; only the sources of Bus include this header.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "transport/bus/bus.h"
#include "transport/bus/zap.h"
#include "transport/bus/zmq_parts.h"
#include "transport/net/address.h"

namespace mobula::internal {

// A ROUTER, and the monitor that reports its connections.
struct BusSocket {
  zmq::socket_t router;
  zmq::socket_t monitor;
};

// Members are in the order of construction. Destruction order: sockets, ZAP server, context.
class BusSockets {
 public:
  static Result<std::unique_ptr<BusSockets>> create(const BusOptions& options);
  ~BusSockets();
  BusSockets(const BusSockets&) = delete;
  BusSockets& operator=(const BusSockets&) = delete;

  BusSocket& bound() { return bound_; }
  BusSocket& connecting() { return connecting_; }

  // See Bus::bind.
  Result<std::string> bind(const std::string& address);
  // See Bus::adopt.
  Result<void> adopt(ListeningSocket listening);
  // Starts a connection. The connecting ROUTER addresses the peer as `routing_id`.
  Result<void> connect(const SocketAddress& address, const std::string& server_public_key,
                       const std::string& routing_id);
  void disconnect(const SocketAddress& address);
  void set_linger(Duration linger);

  // The endpoint string of libzmq for an address.
  static std::string endpoint_of(const SocketAddress& address);

 private:
  // A context fails only for lack of memory, which ends the process.
  explicit BusSockets(const BusOptions& options) noexcept
      : options_(options), context_(options.io_threads) {}
  // Resolves `where` and sets the options of the bound socket for the next bind.
  Result<SocketAddress> prepare_bound(const Address& where);
  Result<BusSocket> make(const std::string& monitor_name);
  void set_limits(zmq::socket_t& router);
  void limit_frames(zmq::socket_t& router, std::size_t bytes);  // for the next bind or connect
  void encrypt_bound(bool encrypted);
  void encrypt_connecting(const std::string* server_public_key);  // null: no encryption

  const BusOptions options_;
  zmq::context_t context_;
  std::unique_ptr<ZapServer> zap_;
  BusSocket bound_;
  BusSocket connecting_;
};

}  // namespace mobula::internal
