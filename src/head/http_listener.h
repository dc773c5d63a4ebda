// Connections of HTTP clients: takes them, gathers one request of each, writes its answer, and closes.
// Every connection costs a bounded amount of memory and time, whatever its client does: who has not
// said its whole request, or taken its whole answer, in time is cut off, and where all places are
// taken the one that has been at its request for longest gives way. It knows where a request's head
// ends and nothing else of HTTP. For the thread of its loop alone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "base/fd.h"
#include "base/result.h"
#include "base/time.h"
#include "transport/event_loop.h"

namespace mobula::internal::head {

struct HttpBounds {
  std::size_t max_connections = 256;
  std::size_t max_head_bytes = 8192;  // of a request, with its request line and all header fields
  Duration request_within = 5s;       // from the connection to the end of the head
  Duration response_within = 30s;     // from its first byte to its last
  Duration linger = 1s;               // after that, for what the client still sends
};

struct HttpCounters {
  std::uint64_t accepted = 0;
  std::uint64_t cut_off = 0;    // too slow, with their request or their answer
  std::uint64_t gave_way = 0;   // to a newer connection
  std::uint64_t too_large = 0;  // heads beyond max_head_bytes
};

class HttpListener {
 public:
  using ConnectionId = std::uint64_t;
  // The head of a request up to its empty line, or all of max_head_bytes without one. Answered by
  // respond(), at once or later; `source` is the client's address without its port.
  using OnRequest =
      std::function<void(ConnectionId id, const std::string& source, std::string head, bool whole)>;

  HttpListener(EventLoop& loop, HttpBounds bounds, OnRequest on_request);
  HttpListener(const HttpListener&) = delete;
  HttpListener& operator=(const HttpListener&) = delete;

  // Takes connections of `socket`, which listens.
  Result<void> listen(Fd socket);
  // The whole answer; the connection ends with it. Nothing happens if it has ended.
  void respond(ConnectionId id, std::string response);

  std::size_t connections() const { return connections_.size(); }
  const HttpCounters& counters() const { return counters_; }

 private:
  enum class Stage : unsigned char { reading, thinking, writing, lingering };
  struct Connection {
    Fd socket;
    Watch watch;
    std::string source;
    std::string head;
    std::string response;
    std::size_t written = 0;
    Stage stage = Stage::reading;
    Time until;  // when it is cut off; of no meaning while its answer is made
  };

  void accept_all();
  bool make_room();
  void ready(ConnectionId id, Readiness readiness);
  void read(ConnectionId id, Connection& connection);
  void write(ConnectionId id, Connection& connection);
  void drain(ConnectionId id, Connection& connection);
  void end(ConnectionId id) { connections_.erase(id); }
  void cut_off_late();
  void set_timer();

  EventLoop& loop_;
  const HttpBounds bounds_;
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
