#include "transport/bulk/bulk_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "base/fd.h"
#include "transport/bulk/bulk_stream.h"
#include "transport/net/tcp.h"

namespace mobula::internal {
namespace {

// Backoff after accept() ran out of file descriptors.
constexpr Duration pause_without_descriptors = 100ms;
constexpr std::size_t exchange_bytes = 8;
constexpr std::size_t max_refusal_text = 4'096;

std::vector<std::byte> cancelled_payload(std::uint64_t number) {
  std::vector<std::byte> payload;
  put_number(payload, number);
  payload.push_back(static_cast<std::byte>(ErrorCode::cancelled));
  return payload;
}

}  // namespace

class BulkServer::Impl : public std::enable_shared_from_this<BulkServer::Impl> {
 public:
  Impl(EventLoop& loop, BulkServerCallbacks callbacks, BulkServerOptions options)
      : loop_(loop),
        callbacks_(std::move(callbacks)),
        options_(options),
        max_connections_(std::min(options.max_connections, descriptor_limit() / 4)),
        check_timer_(loop, [this] { check(); }),
        accept_timer_(loop, [this] { listen_watch_.set_interest(Interest::read); }) {}

  Result<std::string> listen(const std::string& address);
  Result<void> reply(BulkExchange exchange, std::span<const std::byte> header, BulkBody body);
  Result<void> refuse(BulkExchange exchange, const Failure& why);
  void adopt(Fd socket);
  void close();
  std::size_t connections() const { return connections_.size(); }
  const BulkServerCounters& counters() const { return counters_; }

 private:
  struct Answer {
    std::uint64_t number = 0;
    BulkFrameType type{};
    std::vector<std::byte> head;
    BulkBody body;
    std::size_t sent = 0;  // bytes of the body
    bool begun = false;
    bool cancelled = false;
  };
  struct Connection {
    explicit Connection(Fd accepted) : socket(std::move(accepted)) {}
    std::uint64_t id = 0;
    Fd socket;
    std::string peer;
    Watch watch;
    bool closed = false;
    bool proved = false;  // its first frame was read and verified
    std::optional<BulkAccess> access;
    std::array<std::byte, BulkHello::size> hello{};
    std::size_t hello_filled = 0;
    BulkReader reader{bulk_message_bytes + exchange_bytes, false};
    BulkWriter writer;
    std::set<std::uint64_t> unanswered;
    std::deque<Answer> answers;  // the first one is being sent
    Time since;                  // time of the last progress
    std::uint64_t moved = 0;     // bytes in both directions at that time
  };
  using ConnectionPtr = std::shared_ptr<Connection>;  // shared with the call in progress

  void accept_all();
  void add(Fd socket);
  void on_ready(const ConnectionPtr& connection);
  Result<void> read(Connection& connection);
  Result<void> greet(Connection& connection);
  Result<void> on_frame(Connection& connection, const BulkFrame& frame);
  void on_cancel(Connection& connection, std::uint64_t number);
  Result<void> write(Connection& connection);
  void put_next(Connection& connection);
  void finish_answer(Connection& connection);
  Result<Connection*> waiting(BulkExchange exchange);
  void answer(Connection& connection, Answer answer);
  void check();
  void end(Connection& connection, const Failure& why);

  EventLoop& loop_;
  const BulkServerCallbacks callbacks_;
  const BulkServerOptions options_;
  const std::size_t max_connections_;
  Fd listener_;
  Watch listen_watch_;
  Timer check_timer_;
  Timer accept_timer_;
  bool closed_ = false;
  std::uint64_t next_connection_ = 1;
  std::map<std::uint64_t, ConnectionPtr> connections_;
  BulkServerCounters counters_;
};

Result<std::string> BulkServer::Impl::listen(const std::string& address) {
  auto listener = listen_at(address);
  if (!listener) return listener.error();
  const auto bound = local_address_of(listener->get());
  if (!bound) return bound.error();
  auto watch = loop_.watch(listener->get(), Interest::read, [this](Readiness) { accept_all(); });
  if (!watch) return watch.error();
  listen_watch_ = std::move(watch).value();
  listener_ = std::move(listener).value();
  return bound->text();
}

void BulkServer::Impl::close() {
  closed_ = true;
  listen_watch_.reset();
  check_timer_.disarm();
  accept_timer_.disarm();
  while (!connections_.empty()) {
    const ConnectionPtr connection = connections_.begin()->second;
    connection->closed = true;
    connections_.erase(connections_.begin());
    connection->watch.reset();
    while (!connection->answers.empty()) finish_answer(*connection);
  }
}

void BulkServer::Impl::accept_all() {
  for (std::size_t i = 0; i < options_.max_connections; ++i) {
    auto accepted = accept_from(listener_);
    if (!accepted) {
      // Out of file descriptors: the listener stays readable, so an immediate retry would spin.
      listen_watch_.set_interest(Interest::none);
      accept_timer_.arm(monotonic_now() + pause_without_descriptors);
      return;
    }
    if (!*accepted) return;
    if (callbacks_.hand_over && callbacks_.hand_over(*accepted)) continue;
    adopt(std::move(accepted).value());
  }
}

// A silent connection must not keep an honest client out: the oldest unproven one is closed for a
// new one.
void BulkServer::Impl::adopt(Fd socket) {
  if (connections_.size() >= max_connections_) {
    ++counters_.rejected;
    const auto oldest = std::find_if(connections_.begin(), connections_.end(),
                                     [](const auto& each) { return !each.second->proved; });
    if (oldest == connections_.end()) return;
    const ConnectionPtr connection = oldest->second;
    end(*connection,
        failure(ErrorCode::resource_exhausted,
                fmt::format("accept bulk connection: {} connections exist, and this one has "
                            "sent no request",
                            connections_.size())));
    if (closed_) return;
  }
  add(std::move(socket));
}

void BulkServer::Impl::add(Fd socket) {
  const auto connection = std::make_shared<Connection>(std::move(socket));
  const auto peer = peer_address_of(connection->socket.get());
  connection->peer = peer ? peer->text() : "?";
  connection->id = next_connection_++;
  connection->since = monotonic_now();
  const std::weak_ptr<Connection> weak = connection;
  auto watch = loop_.watch(connection->socket.get(), Interest::read, [this, weak](Readiness) {
    if (const auto alive = weak.lock()) on_ready(alive);
  });
  if (!watch) return;
  connection->watch = std::move(watch).value();
  ++counters_.accepted;
  connections_.emplace(connection->id, connection);
  if (!check_timer_.armed()) check_timer_.arm(monotonic_now() + check_interval);
}

void BulkServer::Impl::on_ready(const ConnectionPtr& connection) {
  const auto self = shared_from_this();
  auto done = read(*connection);
  if (done && !connection->closed) done = write(*connection);
  if (!done && !connection->closed) end(*connection, done.error());
}

Result<void> BulkServer::Impl::read(Connection& connection) {
  if (!connection.access) {
    if (auto greeted = greet(connection); !greeted || !connection.access) return greeted;
  }
  for (int i = 0; i < max_frames_at_once && !connection.closed; ++i) {
    auto frame = connection.reader.next(connection.socket.get(), nullptr);
    if (!frame) return frame.error();
    if (!*frame) return {};
    connection.proved = true;
    if (auto good = on_frame(connection, **frame); !good) return good;
  }
  return {};
}

Result<void> BulkServer::Impl::greet(Connection& connection) {
  const auto whole = read_into(connection.socket.get(), connection.hello, connection.hello_filled);
  if (!whole) return whole.error();
  if (!*whole) return {};
  const auto hello = BulkHello::decode(connection.hello);
  if (!hello) return hello.error();
  auto access = callbacks_.access(hello->token);
  if (connection.closed) return {};
  if (!access) {
    ++counters_.rejected;
    return failure(ErrorCode::permission_denied,
                   "a bulk client presented a token that is unknown or has expired");
  }
  connection.access = std::move(access);
  BulkWelcome welcome;
  welcome.sealed = connection.access->key.has_value();
  welcome.salt = random_secret();
  connection.writer.put_raw(welcome.encode());
  if (welcome.sealed) {
    const auto keys = BulkKeys::derive(*connection.access->key, hello->salt, welcome.salt);
    connection.reader.open_with(keys.from_client);
    connection.writer.seal_with(keys.from_server);
  }
  return {};
}

Result<void> BulkServer::Impl::on_frame(Connection& connection, const BulkFrame& frame) {
  std::span<const std::byte> rest = frame.payload;
  const auto number = take_number(rest);
  if (!number)
    return failure(ErrorCode::corrupt, "a bulk frame without the number of its exchange");
  if (frame.type == BulkFrameType::cancel) {
    on_cancel(connection, *number);
    return {};
  }
  if (frame.type != BulkFrameType::request) {
    return failure(ErrorCode::corrupt, "a bulk frame that only servers send came from a client");
  }
  const bool answering = std::any_of(connection.answers.begin(), connection.answers.end(),
                                     [&](const Answer& each) { return each.number == *number; });
  if (answering || connection.unanswered.contains(*number)) {
    return failure(ErrorCode::corrupt, "a bulk client used the number of an exchange twice");
  }
  if (connection.unanswered.size() + connection.answers.size() >= options_.max_exchanges) {
    return failure(
        ErrorCode::resource_exhausted,
        fmt::format("a bulk client has more than {} requests under way", options_.max_exchanges));
  }
  connection.unanswered.insert(*number);
  callbacks_.on_request({connection.id, *number}, connection.access->principal, rest);
  return {};
}

void BulkServer::Impl::on_cancel(Connection& connection, std::uint64_t number) {
  if (connection.unanswered.erase(number) > 0) {
    Answer made{.number = number, .type = BulkFrameType::failed, .head = {}, .body = {}};
    made.head = cancelled_payload(number);
    connection.answers.push_back(std::move(made));
    if (callbacks_.on_cancelled) callbacks_.on_cancelled({connection.id, number});
    return;
  }
  for (Answer& each : connection.answers) {
    if (each.number == number) each.cancelled = true;
  }
}

Result<void> BulkServer::Impl::write(Connection& connection) {
  for (int i = 0; i < max_frames_at_once; ++i) {
    if (connection.writer.idle()) {
      put_next(connection);
      if (connection.closed) return {};  // closed by a release
    }
    if (connection.writer.idle()) break;
    const std::uint64_t before = connection.writer.sent();
    auto flushed = connection.writer.flush(connection.socket.get());
    counters_.bytes_sent += connection.writer.sent() - before;
    if (!flushed) return flushed;
    if (!connection.writer.idle()) break;
  }
  const bool more = !connection.writer.idle() || !connection.answers.empty();
  connection.watch.set_interest(more ? Interest::read_write : Interest::read);
  return {};
}

// Queues the next frame of the current reply. The writer is idle, so it borrows no chunk. Every
// request ends with a whole reply or with `failed`, also after a cancel.
void BulkServer::Impl::put_next(Connection& connection) {
  while (!connection.answers.empty()) {
    Answer& answer = connection.answers.front();
    const std::size_t size = answer.body.bytes.size();
    if (answer.begun && answer.sent == size) {
      finish_answer(connection);
      if (connection.closed) return;
      continue;
    }
    if (answer.cancelled) {
      connection.writer.put(BulkFrameType::failed, cancelled_payload(answer.number));
      return finish_answer(connection);
    }
    if (!answer.begun) {
      answer.begun = true;
      return connection.writer.put(answer.type, answer.head);
    }
    const std::size_t count = std::min(bulk_frame_bytes, size - answer.sent);
    connection.writer.put_borrowed(BulkFrameType::data,
                                   answer.body.bytes.subspan(answer.sent, count));
    answer.sent += count;
    return;
  }
}

void BulkServer::Impl::finish_answer(Connection& connection) {
  const auto release = std::move(connection.answers.front().body.release);
  connection.answers.pop_front();
  if (release) release();
}

Result<BulkServer::Impl::Connection*> BulkServer::Impl::waiting(BulkExchange exchange) {
  const auto at = connections_.find(exchange.connection);
  if (at == connections_.end() || at->second->unanswered.erase(exchange.number) == 0) {
    return failure(ErrorCode::not_found,
                   "reply to a bulk request: no client waits for it any "
                   "more");
  }
  return at->second.get();
}

Result<void> BulkServer::Impl::reply(BulkExchange exchange, std::span<const std::byte> header,
                                     BulkBody body) {
  const auto connection =
      header.size() <= bulk_message_bytes
          ? waiting(exchange)
          : Result<Connection*>(failure(ErrorCode::invalid_argument,
                                        fmt::format("reply to a bulk request: a header has at most "
                                                    "{} bytes, this one {}",
                                                    bulk_message_bytes, header.size())));
  if (!connection) {
    if (body.release) body.release();
    return connection.error();
  }
  Answer made{.number = exchange.number, .type = BulkFrameType::response, .head = {}, .body = {}};
  put_number(made.head, exchange.number);
  put_number(made.head, body.bytes.size());
  made.head.insert(made.head.end(), header.begin(), header.end());
  made.body = std::move(body);
  answer(**connection, std::move(made));
  return {};
}

Result<void> BulkServer::Impl::refuse(BulkExchange exchange, const Failure& why) {
  const auto connection = waiting(exchange);
  if (!connection) return connection.error();
  Answer made{.number = exchange.number, .type = BulkFrameType::failed, .head = {}, .body = {}};
  put_number(made.head, exchange.number);
  made.head.push_back(static_cast<std::byte>(why.code));
  const auto text =
      std::as_bytes(std::span(why.text)).first(std::min(why.text.size(), max_refusal_text));
  made.head.insert(made.head.end(), text.begin(), text.end());
  answer(**connection, std::move(made));
  return {};
}

// The loop sends the reply, so that a broken connection is not closed inside a call of the owner.
void BulkServer::Impl::answer(Connection& connection, Answer made) {
  connection.answers.push_back(std::move(made));
  connection.since = std::max(connection.since, monotonic_now());
  connection.watch.set_interest(Interest::read_write);
}

// Closes connections without progress. All input is read before timers fire, so a silent connection
// is the fault of the peer, unless this process itself was stopped.
void BulkServer::Impl::check() {
  const auto self = shared_from_this();
  const Time now = monotonic_now();
  const Duration gap = loop_.last_turn().gap;
  std::vector<std::pair<ConnectionPtr, const char*>> late;
  for (const auto& [id, connection] : connections_) {
    Connection& each = *connection;
    const std::uint64_t moved =
        each.reader.received() + each.writer.sent() - unacknowledged_bytes(each.socket);
    if (!each.proved) {
      // Single bytes do not prove the client, so the time runs from the accept.
      if (gap > peer_gap_threshold) each.since = each.since + gap;
      if (now - each.since > options_.hello_timeout)
        late.emplace_back(connection, "said no request");
      continue;
    }
    if (each.moved != moved || gap > peer_gap_threshold) {
      each.moved = moved;
      each.since = now;
    }
    const Duration silent = now - each.since;
    const bool sends = !each.writer.idle() || !each.answers.empty();
    if (sends && silent > options_.silence_timeout)
      late.emplace_back(connection, "stopped reading");
    const bool idle = !sends && each.unanswered.empty();
    if (idle && silent > options_.idle_timeout)
      late.emplace_back(connection, "was idle for too long");
  }
  for (const auto& [connection, what] : late) {
    if (connection->closed) continue;
    end(*connection, failure(ErrorCode::timed_out, fmt::format("a bulk client {}", what)));
    if (closed_) return;
  }
  if (!connections_.empty()) check_timer_.arm(now + check_interval);
}

void BulkServer::Impl::end(Connection& connection, const Failure& why) {
  const Failure reason = why;
  const auto keep = connections_.extract(connection.id);
  connection.closed = true;
  connection.watch.reset();
  connection.socket.reset();
  if (reason.code == ErrorCode::corrupt) ++counters_.broken;
  while (!connection.answers.empty()) finish_answer(connection);
  for (const std::uint64_t number : std::exchange(connection.unanswered, {})) {
    if (callbacks_.on_cancelled && !closed_) callbacks_.on_cancelled({connection.id, number});
  }
  if (callbacks_.on_closed && !closed_) callbacks_.on_closed(connection.peer, reason);
}

BulkServer::BulkServer(EventLoop& loop, BulkServerCallbacks callbacks, BulkServerOptions options)
    : impl_(std::make_shared<Impl>(loop, std::move(callbacks), options)) {}

BulkServer::~BulkServer() { impl_->close(); }

Result<std::string> BulkServer::listen(const std::string& address) {
  return impl_->listen(address);
}
void BulkServer::adopt(Fd socket) { impl_->adopt(std::move(socket)); }
Result<void> BulkServer::reply(BulkExchange exchange, std::span<const std::byte> header,
                               BulkBody body) {
  return impl_->reply(exchange, header, std::move(body));
}
Result<void> BulkServer::refuse(BulkExchange exchange, const Failure& why) {
  return impl_->refuse(exchange, why);
}
std::size_t BulkServer::connections() const { return impl_->connections(); }
const BulkServerCounters& BulkServer::counters() const { return impl_->counters(); }

}  // namespace mobula::internal
