// The ZeroMQ sockets of a bus with every option that matters set explicitly. For the bus's thread;
// no other header includes this one. It decides nothing about peers.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "transport/address.h"
#include "transport/bus.h"
#include "transport/zap.h"
#include "transport/zmq_parts.h"

namespace mobula::internal {

// One ROUTER with the monitor that tells about its connections.
struct BusSocket {
  ZmqSocket router;
  ZmqSocket monitor;
};

// In the order of construction; destroyed in the reverse: sockets, ZAP server, context.
class BusSockets {
 public:
  static Result<std::unique_ptr<BusSockets>> create(const BusOptions& options);
  ~BusSockets();
  BusSockets(const BusSockets&) = delete;
  BusSockets& operator=(const BusSockets&) = delete;

  BusSocket& bound() { return bound_; }
  BusSocket& connecting() { return connecting_; }

  // As Bus::bind.
  Result<std::string> bind(const std::string& address);
  // As Bus::adopt.
  Result<void> adopt(ListeningSocket listening);
  // Begins a connection whose peer is `routing_id` for the connecting ROUTER.
  Result<void> connect(const SocketAddress& address, const std::string& server_public_key,
                       const std::string& routing_id);
  void disconnect(const SocketAddress& address);
  void set_linger(Duration linger);

  // libzmq's name of an address.
  static std::string endpoint_of(const SocketAddress& address);

 private:
  explicit BusSockets(const BusOptions& options)
      : options_(options), context_(options.io_threads) {}
  // Where it may be reached, with the options of what is bound next set for it.
  Result<SocketAddress> prepare_bound(const Address& where);
  Result<BusSocket> make(const std::string& monitor_name);
  void set_limits(ZmqSocket& router);
  void encrypt_bound(bool encrypted);
  void encrypt_connecting(const std::string* server_public_key);  // null: not encrypted

  const BusOptions options_;
  ZmqContext context_;
  std::unique_ptr<ZapServer> zap_;
  BusSocket bound_;
  BusSocket connecting_;
};

}  // namespace mobula::internal
