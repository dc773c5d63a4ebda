#include "head/http/http_listener.h"

#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "base/log.h"
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

bool would_block() { return errno == EAGAIN || errno == EWOULDBLOCK; }

}  // namespace

HttpListener::HttpListener(EventLoop& loop, HttpBounds bounds, OnRequest on_request)
    : loop_(loop),
      bounds_(bounds),
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
bool HttpListener::make_room() {
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
      if (make_room()) continue;
      listener_watch_.set_interest(Interest::none);
      return accept_again_.arm(monotonic_now() + without_descriptors);
    }
    if (!*socket) break;
    ++counters_.accepted;
    if (connections_.size() >= bounds_.max_connections && !make_room()) continue;
    const ConnectionId id = ++last_;
    const int fd = socket->get();
    Connection connection;
    connection.socket = std::move(*socket);
    connection.source = source_of(connection.socket);
    connection.until = monotonic_now() + bounds_.request_timeout;
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

void HttpListener::read(ConnectionId id, Connection& connection) {
  std::array<char, 4096> buffer{};
  const std::size_t room = bounds_.max_head_bytes - connection.head.size();
  const ssize_t count =
      ::recv(connection.socket.get(), buffer.data(), std::min(room, buffer.size()), 0);
  if (count < 0 && (would_block() || errno == EINTR)) return;
  if (count <= 0) return end(id);
  const std::size_t from = connection.head.size() < 3 ? 0 : connection.head.size() - 3;
  connection.head.append(buffer.data(), static_cast<std::size_t>(count));
  const auto end_at = connection.head.find(end_of_head, from);
  const bool whole = end_at != std::string::npos;
  if (!whole && connection.head.size() < bounds_.max_head_bytes) return;
  if (!whole) ++counters_.too_large;
  // Further input, such as a body or another request, is ignored.
  std::string head = whole ? connection.head.substr(0, end_at + end_of_head.size())
                           : std::exchange(connection.head, {});
  connection.head = {};
  connection.stage = Stage::thinking;
  connection.watch.set_interest(Interest::none);
  on_request_(id, std::string(connection.source), std::move(head), whole);
}

void HttpListener::respond(ConnectionId id, std::string response) {
  const auto at = connections_.find(id);
  if (at == connections_.end() || at->second.stage != Stage::thinking) return;
  Connection& connection = at->second;
  connection.response = std::move(response);
  connection.stage = Stage::writing;
  connection.until = monotonic_now() + bounds_.response_timeout;
  connection.watch.set_interest(Interest::write);
  set_timer();
}

void HttpListener::write(ConnectionId id, Connection& connection) {
  while (connection.written < connection.response.size()) {
    const ssize_t count =
        ::send(connection.socket.get(), connection.response.data() + connection.written,
               connection.response.size() - connection.written, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && would_block()) return;
    if (count <= 0) return end(id);
    connection.written += static_cast<std::size_t>(count);
  }
  // Closing with unread input would reset the connection and lose the response in transit.
  ::shutdown(connection.socket.get(), SHUT_WR);
  connection.response = {};
  connection.stage = Stage::lingering;
  connection.until = monotonic_now() + bounds_.linger;
  connection.watch.set_interest(Interest::read);
}

void HttpListener::drain(ConnectionId id, Connection& connection) {
  std::array<char, 16384> buffer{};
  const ssize_t count = ::recv(connection.socket.get(), buffer.data(), buffer.size(), 0);
  if (count < 0 && (would_block() || errno == EINTR)) return;
  if (count <= 0) end(id);
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
