#include "head/http/http_listener.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "base/logging/log.h"
#include "transport/net/tcp.h"

namespace mobula::internal::head {
namespace {

constexpr std::string_view end_of_head = "\r\n\r\n";
constexpr Duration without_descriptors = 100ms;

// Returns "10.0.0.7", or an empty text if the peer has disconnected.
std::string source_of(const Fd& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  char host[NI_MAXHOST] = {};
  const int failed = ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host,
                                   sizeof host, nullptr, 0, NI_NUMERICHOST);
  return failed == 0 ? host : "";
}

// A browser shows this to a user who typed http://.
constexpr std::string_view plain_refusal =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    "These pages are served over TLS: use https:// in place of http://.\n";

// The result of recv or send on a plain connection, with its errno.
TlsSession::Progress progress(ssize_t count, TlsSession::Status when_blocked) {
  if (count > 0) return {TlsSession::Status::done, static_cast<std::size_t>(count)};
  const bool blocked = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
  return {blocked ? when_blocked : TlsSession::Status::closed, 0};
}

}  // namespace

HttpListener::HttpListener(EventLoop& loop, HttpBounds bounds, std::unique_ptr<TlsServer> tls,
                           OnRequest on_request)
    : loop_(loop),
      bounds_(bounds),
      tls_(std::move(tls)),
      on_request_(std::move(on_request)),
      timer_(loop, [this] { cut_off_late(); }),
      accept_again_(loop, [this] { listener_watch_.set_interest(Interest::read); }) {}

Result<void> HttpListener::listen(Fd socket) {
  listener_ = std::move(socket);
  auto watch = loop_.watch(listener_.get(), Interest::read, [this](Readiness) { accept_all(); });
  if (!watch) return watch.error();
  listener_watch_ = std::move(watch).value();
  return {};
}

// A connection that has not sent its request makes way for a new one. If all have sent theirs, none
// does.
bool HttpListener::close_idle() {
  const auto oldest = std::find_if(connections_.begin(), connections_.end(), [](const auto& each) {
    return each.second.stage == Stage::reading || each.second.stage == Stage::lingering;
  });
  if (oldest == connections_.end()) return false;
  ++counters_.gave_way;
  connections_.erase(oldest);
  return true;
}

void HttpListener::accept_all() {
  // Accepts a bounded number per call, so that existing connections are served during a flood.
  for (int taken = 0; taken < 64; ++taken) {
    auto socket = accept_from(listener_);
    if (!socket) {
      // Without file descriptors the listener would stay ready and occupy the loop.
      log_warn("http: {}", socket.error().text);
      if (close_idle()) continue;
      listener_watch_.set_interest(Interest::none);
      return accept_again_.arm(monotonic_now() + without_descriptors);
    }
    if (!*socket) break;
    ++counters_.accepted;
    if (connections_.size() >= bounds_.max_connections && !close_idle()) continue;
    const ConnectionId id = ++last_;
    const int fd = socket->get();
    Connection connection;
    connection.socket = std::move(*socket);
    connection.source = source_of(connection.socket);
    connection.until = monotonic_now() + bounds_.request_timeout;
    if (tls_) {
      auto session = tls_->accept(fd, monotonic_now());
      if (!session) {
        log_warn("http: {}", session.error().text);
        continue;
      }
      connection.tls = std::move(*session);
    }
    auto watch = loop_.watch(fd, Interest::read, [this, id](Readiness seen) { ready(id, seen); });
    if (!watch) continue;
    connection.watch = std::move(watch).value();
    connections_.emplace(id, std::move(connection));
  }
  set_timer();
}

void HttpListener::ready(ConnectionId id, Readiness) {
  const auto at = connections_.find(id);
  if (at == connections_.end()) return;
  switch (at->second.stage) {
    case Stage::reading: read(id, at->second); break;
    case Stage::thinking: at->second.watch.set_interest(Interest::none); break;
    case Stage::writing: write(id, at->second); break;
    case Stage::lingering: drain(id, at->second); break;
  }
  set_timer();
}

TlsSession::Progress HttpListener::receive(Connection& connection, std::span<char> to) {
  if (connection.tls) return connection.tls->read(to);
  return progress(::recv(connection.socket.get(), to.data(), to.size(), 0),
                  TlsSession::Status::wants_input);
}

TlsSession::Progress HttpListener::send(Connection& connection, std::string_view from) {
  if (connection.tls) return connection.tls->write(from);
  return progress(::send(connection.socket.get(), from.data(), from.size(), MSG_NOSIGNAL),
                  TlsSession::Status::wants_output);
}

void HttpListener::await(Connection& connection, TlsSession::Status status) {
  connection.watch.set_interest(status == TlsSession::Status::wants_output ? Interest::write
                                                                           : Interest::read);
}

// Reads until the socket is empty, because a TLS session may hold input that the loop cannot see.
void HttpListener::read(ConnectionId id, Connection& connection) {
  std::array<char, 4096> buffer{};
  for (;;) {
    const std::size_t free_bytes = bounds_.max_head_bytes - connection.head.size();
    const auto got =
        receive(connection, std::span(buffer.data(), std::min(free_bytes, buffer.size())));
    if (got.status == TlsSession::Status::plain_http) {
      (void)::send(connection.socket.get(), plain_refusal.data(), plain_refusal.size(),
                   MSG_NOSIGNAL);
      connection.tls.reset();
      return linger(connection);
    }
    if (got.status == TlsSession::Status::closed) return end(id);
    if (got.status != TlsSession::Status::done) return await(connection, got.status);
    const std::size_t from = connection.head.size() < 3 ? 0 : connection.head.size() - 3;
    connection.head.append(buffer.data(), got.bytes);
    const auto end_at = connection.head.find(end_of_head, from);
    const bool whole = end_at != std::string::npos;
    if (!whole && connection.head.size() < bounds_.max_head_bytes) continue;
    if (!whole) ++counters_.too_large;
    // Further input, such as a body or another request, is ignored.
    std::string head = whole ? connection.head.substr(0, end_at + end_of_head.size())
                             : std::exchange(connection.head, {});
    connection.head = {};
    connection.stage = Stage::thinking;
    connection.watch.set_interest(Interest::none);
    return on_request_(id, std::string(connection.source), std::move(head), whole);
  }
}

void HttpListener::respond(ConnectionId id, std::string response) {
  const auto at = connections_.find(id);
  if (at == connections_.end() || at->second.stage != Stage::thinking) return;
  Connection& connection = at->second;
  connection.response = std::move(response);
  connection.stage = Stage::writing;
  connection.until = monotonic_now() + bounds_.response_timeout;
  connection.watch.set_interest(Interest::write);
  cut_off_slow_readers(id);
  set_timer();
}

// Without this bound, readers that leave large responses unread would fill the head's memory.
void HttpListener::cut_off_slow_readers(ConnectionId newest) {
  std::size_t pending = 0;
  std::multimap<Time, ConnectionId> writing;  // by time
  for (const auto& [id, each] : connections_) {
    pending += each.response.size();
    if (each.stage == Stage::writing && id != newest) writing.emplace(each.until, id);
  }
  for (const auto& [until, id] : writing) {
    if (pending <= bounds_.max_response_bytes) return;
    pending -= connections_.at(id).response.size();
    ++counters_.cut_off;
    end(id);
  }
}

void HttpListener::write(ConnectionId id, Connection& connection) {
  while (connection.written < connection.response.size()) {
    const auto put =
        send(connection, std::string_view(connection.response).substr(connection.written));
    if (put.status == TlsSession::Status::wants_input ||
        put.status == TlsSession::Status::wants_output)
      return await(connection, put.status);
    if (put.status != TlsSession::Status::done) return end(id);
    connection.written += put.bytes;
  }
  if (connection.tls) connection.tls->close();
  connection.tls.reset();
  linger(connection);
}

// Closing with unread input would reset the connection and lose the response in transit.
void HttpListener::linger(Connection& connection) {
  ::shutdown(connection.socket.get(), SHUT_WR);
  connection.response = {};
  connection.stage = Stage::lingering;
  connection.until = monotonic_now() + bounds_.linger;
  connection.watch.set_interest(Interest::read);
}

// Drops further input of the client.
void HttpListener::drain(ConnectionId id, Connection& connection) {
  std::array<char, 16384> buffer{};
  const auto got = receive(connection, buffer);
  if (got.status == TlsSession::Status::closed) end(id);
}

void HttpListener::cut_off_late() {
  const Time now = monotonic_now();
  for (auto at = connections_.begin(); at != connections_.end();) {
    const Connection& each = at->second;
    const bool late = each.stage != Stage::thinking && each.until <= now;
    if (late && each.stage != Stage::lingering) ++counters_.cut_off;
    at = late ? connections_.erase(at) : std::next(at);
  }
  set_timer();
}

void HttpListener::set_timer() {
  std::optional<Time> due;
  for (const auto& [id, each] : connections_) {
    if (each.stage == Stage::thinking) continue;
    if (!due || each.until < *due) due = each.until;
  }
  if (due) {
    timer_.arm(*due);
  } else {
    timer_.disarm();
  }
}

}  // namespace mobula::internal::head
