// Accepts HTTP connections, with TLS if it has a certificate, reads the head of one request from
// each, writes the response, and closes. Memory and time per connection are bounded: a client that
// sends or reads too slowly is cut off, and at `max_connections` the oldest incomplete request
// makes way for a new connection.
// Thread: owner (the thread of its event loop).
// Not: the content of requests. It recognizes only the end of a request head.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"
#include "head/http/tls.h"
#include "transport/loop/event_loop.h"

namespace mobula::internal::head {

struct HttpBounds {
  std::size_t max_connections = 256;
  std::size_t max_head_bytes = 8192;  // one request head: request line and header fields
  Duration request_timeout = 5s;      // from the connection, through TLS, to the end of the head
  Duration response_timeout = 30s;    // from the first byte to the last
  std::size_t max_response_bytes = 128u << 20;  // sum over all connections; slow readers make way
  Duration linger = 1s;  // after the response, for further input of the client
};

struct HttpCounters {
  std::uint64_t accepted = 0;
  std::uint64_t cut_off = 0;    // requests or responses that were too slow
  std::uint64_t gave_way = 0;   // connections that made way for a newer one
  std::uint64_t too_large = 0;  // request heads above max_head_bytes
};

class HttpListener {
 public:
  using ConnectionId = std::uint64_t;
  // Receives the head of a request through its empty line, or max_head_bytes bytes if no empty line
  // was found (`whole` is false). respond() answers it, immediately or later. `source` is the
  // address of the client without its port.
  using OnRequest =
      std::function<void(ConnectionId id, const std::string& source, std::string head, bool whole)>;

  // Without `tls`, requests are plain HTTP.
  HttpListener(EventLoop& loop, HttpBounds bounds, std::unique_ptr<TlsServer> tls,
               OnRequest on_request);
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  // Accepts connections of the listening `socket`.
  Result<void> listen(Fd socket);
  // Sends the whole response and then closes the connection. Does nothing if the connection has
  // ended.
  void respond(ConnectionId id, std::string response);

  std::size_t connections() const { return connections_.size(); }
  const HttpCounters& counters() const { return counters_; }

 private:
  enum class Stage : unsigned char { reading, thinking, writing, lingering };
  struct Connection {
    Fd socket;
    std::optional<TlsSession> tls;  // uses the socket
    Watch watch;
    std::string source;
    std::string head;
    std::string response;
    std::size_t written = 0;
    Stage stage = Stage::reading;
    Time until;  // cut-off time; unused in stage `thinking`
  };

  static TlsSession::Progress receive(Connection& connection, std::span<char> to);
  static TlsSession::Progress send(Connection& connection, std::string_view from);
  static void await(Connection& connection, TlsSession::Status status);
  void accept_all();
  bool close_idle();
  void ready(ConnectionId id, Readiness readiness);
  void read(ConnectionId id, Connection& connection);
  void write(ConnectionId id, Connection& connection);
  void cut_off_slow_readers(ConnectionId newest);
  void linger(Connection& connection);
  void drain(ConnectionId id, Connection& connection);
  void end(ConnectionId id) { connections_.erase(id); }
  void cut_off_late();
  void set_timer();

  EventLoop& loop_;
  const HttpBounds bounds_;
  const std::unique_ptr<TlsServer> tls_;
  const OnRequest on_request_;
  HttpCounters counters_;
  Fd listener_;
  ConnectionId last_ = 0;
  std::map<ConnectionId, Connection> connections_;
  Timer timer_;
  Timer accept_again_;
  Watch listener_watch_;
};

}  // namespace mobula::internal::head
