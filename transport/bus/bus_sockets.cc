#include "transport/bus/bus_sockets.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <tuple>

#include "transport/bus/message_chunks.h"
#include "transport/local/local_listener.h"

namespace mobula::internal {
namespace {

constexpr int router_backlog = 1024;
constexpr Duration handshake_slack = 1s;
constexpr int keepalive_idle_s = 10;
constexpr int keepalive_interval_s = 3;
constexpr int keepalive_probes = 3;
// Bytes that encryption may add to a frame. libzmq applies its limit to the sum.
constexpr std::int64_t encryption_overhead = 64;
constexpr int watched_events =
    ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_CONNECTED | ZMQ_EVENT_CONNECT_DELAYED |
    ZMQ_EVENT_CONNECT_RETRIED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
    ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
    ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;

int ms_of(Duration span) { return static_cast<int>(span / 1ms); }

// libzmq would replace the socket file of a running process.
Result<void> check_free(const Address& address) {
  const auto answer = connect_local(address.path());
  if (!answer && answer.error().code != ErrorCode::timed_out) return {};
  return failure(ErrorCode::already_exists,
                 fmt::format("bind the bus to {}: another process listens there", address.path()));
}

Failure bind_failure(const Address& address, int error) {
  if (error == EADDRINUSE) {
    return failure(
        ErrorCode::already_exists,
        fmt::format("bind the bus to {}: the address is in use; end the process that has "
                    "it, choose another port, or port 0 for any free one",
                    address.text()));
  }
  if (error == EADDRNOTAVAIL || error == ENODEV) {
    return failure(ErrorCode::not_found,
                   fmt::format("bind the bus to {}: no network interface of this machine has this "
                               "address",
                               address.text()));
  }
  return zmq_failure(fmt::format("bind the bus to {}", address.text()), error);
}

}  // namespace

Result<std::unique_ptr<BusSockets>> BusSockets::create(const BusOptions& options) {
  std::unique_ptr<BusSockets> made(new BusSockets(options));
  if (options.keys) {
    if (!curve_available()) {
      return failure(ErrorCode::unavailable,
                     "make an encrypted bus: this libzmq was built without CURVE; install one "
                     "with CURVE, or use --insecure on one machine");
    }
    if (options.allow == nullptr) {
      return failure(ErrorCode::invalid_argument,
                     "make an encrypted bus: keys need a table of admitted peers");
    }
    auto zap = ZapServer::start(made->context_, *options.allow);
    if (!zap) return zap.error();
    made->zap_ = std::move(zap).value();
  }
  auto bound = made->make("bound");
  if (!bound) return bound.error();
  made->bound_ = std::move(bound).value();
  // The bus closes a late handshake first, and reports it.
  set_option(made->bound_.router, zmq::sockopt::handshake_ivl,
             ms_of(options.handshake_timeout + handshake_slack));
  auto connecting = made->make("connecting");
  if (!connecting) return connecting.error();
  made->connecting_ = std::move(connecting).value();
  return made;
}

BusSockets::~BusSockets() {
  for (BusSocket* const socket : {&bound_, &connecting_}) {
    close_monitor(socket->router);
    socket->monitor.close();
    socket->router.close();
  }
}

Result<BusSocket> BusSockets::make(const std::string& monitor_name) {
  BusSocket made;
  auto router = open_socket(context_, zmq::socket_type::router);
  if (!router) return router.error();
  made.router = std::move(router).value();
  set_limits(made.router);
  if (options_.keys) {
    set_option(made.router, zmq::sockopt::curve_publickey, options_.keys->public_key);
    set_option(made.router, zmq::sockopt::curve_secretkey, options_.keys->secret_key);
  }
  auto monitor = open_monitor(context_, made.router, monitor_name, watched_events);
  if (!monitor) return monitor.error();
  made.monitor = std::move(monitor).value();
  return made;
}

void BusSockets::set_limits(zmq::socket_t& router) {
  // An unroutable message is an error, not a silent loss. At the high-water mark, send() fails with
  // EAGAIN.
  set_option(router, zmq::sockopt::router_mandatory, 1);
  // libzmq ignores a second connection with a routing id in use, so a peer cannot take over a
  // route. This loses nothing, because each connection of the bus has its own id.
  set_option(router, zmq::sockopt::router_handover, 0);
  limit_frames(router, options_.chunk_bytes);
  set_option(router, zmq::sockopt::sndhwm, options_.send_high_water);
  // No receive limit and no heartbeats of libzmq: version 4.3.4 aborts if a limit has stopped the
  // input of a connection that breaks, and a heartbeat is sent. The bus bounds both itself
  // (decision 86).
  set_option(router, zmq::sockopt::rcvhwm, 0);
  set_option(router, zmq::sockopt::heartbeat_ivl, 0);
  set_option(router, zmq::sockopt::handshake_ivl, ms_of(options_.handshake_timeout));
  set_option(router, zmq::sockopt::reconnect_ivl, ms_of(options_.reconnect_first));
  set_option(router, zmq::sockopt::reconnect_ivl_max, ms_of(options_.reconnect_longest));
  set_option(router, zmq::sockopt::connect_timeout, ms_of(options_.connect_timeout));
  // The pipe and its routing id exist from connect on.
  set_option(router, zmq::sockopt::immediate, 0);
  set_option(router, zmq::sockopt::backlog, router_backlog);
  // For peers that send no heartbeats, and for connections without a message.
  set_option(router, zmq::sockopt::tcp_keepalive, 1);
  set_option(router, zmq::sockopt::tcp_keepalive_idle, keepalive_idle_s);
  set_option(router, zmq::sockopt::tcp_keepalive_intvl, keepalive_interval_s);
  set_option(router, zmq::sockopt::tcp_keepalive_cnt, keepalive_probes);
  set_option(router, zmq::sockopt::tcp_maxrt, ms_of(options_.heartbeat_timeout));
  set_option(router, zmq::sockopt::linger, 0);
}

void BusSockets::limit_frames(zmq::socket_t& router, std::size_t bytes) {
  set_option(
      router, zmq::sockopt::maxmsgsize,
      static_cast<std::int64_t>(std::min(bytes, options_.max_message_bytes)) + encryption_overhead);
}

std::string BusSockets::endpoint_of(const SocketAddress& address) {
  return (address.family() == AF_UNIX ? "ipc://" : "tcp://") + address.text();
}

Result<SocketAddress> BusSockets::prepare_bound(const Address& where) {
  auto numeric = where.resolve();
  if (!numeric) return numeric;
  if (!options_.keys && !numeric->loopback()) {
    return failure(ErrorCode::permission_denied,
                   fmt::format("bind the bus to {}: without keys it is open to any process that "
                               "reaches it; give it keys, or bind 127.0.0.1",
                               where.text()));
  }
  encrypt_bound(!where.is_path());
  // libzmq allocates the frames of any peer that reaches the port, before its key is proven.
  limit_frames(bound_.router, where.is_path() ? options_.chunk_bytes : ChunkLimits::frame_bytes);
  set_option(bound_.router, zmq::sockopt::ipv6, numeric->family() == AF_INET6 ? 1 : 0);
  return numeric;
}

Result<std::string> BusSockets::bind(const std::string& address) {
  const auto where = Address::parse(address);
  if (!where) return where.error();
  const auto numeric = prepare_bound(*where);
  if (!numeric) return numeric.error();
  if (where->is_path()) {
    if (auto free = check_free(*where); !free) return free.error();
  }
  try {
    bound_.router.bind(endpoint_of(*numeric));
  } catch (const zmq::error_t& error) {
    return bind_failure(*where, error.num());
  }
  if (where->is_path()) {
    if (::chmod(where->path().c_str(), 0600) != 0) {
      return errno_failure(fmt::format("close {} to other users", where->path()), errno);
    }
    return where->path();
  }
  const std::string endpoint = option_of(bound_.router, zmq::sockopt::last_endpoint);
  return endpoint.substr(std::string_view("tcp://").size());
}

Result<void> BusSockets::adopt(ListeningSocket listening) {
  const auto where = Address::parse(listening.address);
  if (!where) return where.error();
  const auto numeric = prepare_bound(*where);
  if (!numeric) return numeric.error();
  set_option(bound_.router, zmq::sockopt::use_fd, listening.socket.get());
  int error = 0;
  try {
    bound_.router.bind(endpoint_of(*numeric));
  } catch (const zmq::error_t& thrown) {
    error = thrown.num();
  }
  set_option(bound_.router, zmq::sockopt::use_fd, -1);
  if (error != 0) return bind_failure(*where, error);
  std::ignore = listening.socket.release();  // libzmq closes it
  return {};
}

// libzmq applies the options that a socket has at the time of the next bind or connect.
void BusSockets::encrypt_bound(bool encrypted) {
  if (!options_.keys) return;
  set_option(bound_.router, zmq::sockopt::curve_server, encrypted ? 1 : 0);
}

void BusSockets::encrypt_connecting(const std::string* server_public_key) {
  if (!options_.keys) return;
  if (server_public_key == nullptr) {
    set_option(connecting_.router, zmq::sockopt::curve_server, 0);  // no mechanism
  } else {
    set_option(connecting_.router, zmq::sockopt::curve_serverkey, *server_public_key);
  }
}

Result<void> BusSockets::connect(const SocketAddress& address, const std::string& server_public_key,
                                 const std::string& routing_id) {
  zmq::socket_t& router = connecting_.router;
  encrypt_connecting(address.family() == AF_UNIX ? nullptr : &server_public_key);
  set_option(router, zmq::sockopt::ipv6, address.family() == AF_INET6 ? 1 : 0);
  set_option(router, zmq::sockopt::connect_routing_id, routing_id);
  try {
    router.connect(endpoint_of(address));
    return {};
  } catch (const zmq::error_t& error) {
    return zmq_failure(fmt::format("connect the bus to {}", address.text()), error.num());
  }
}

void BusSockets::disconnect(const SocketAddress& address) {
  // Fails only if libzmq has closed the connection.
  zmq_disconnect(connecting_.router.handle(), endpoint_of(address).c_str());
}

void BusSockets::set_linger(Duration linger) {
  set_option(bound_.router, zmq::sockopt::linger, ms_of(linger));
  set_option(connecting_.router, zmq::sockopt::linger, ms_of(linger));
}

}  // namespace mobula::internal
