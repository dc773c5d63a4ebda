#include "cli/tool_client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "base/fd.h"
#include "protocol/codec/messages.h"
#include "transport/bus/bus.h"
#include "transport/loop/event_loop.h"
#include "transport/net/name_resolver.h"

namespace mobula::internal::cli {
namespace {

constexpr Duration connect_timeout = 5s;
constexpr Duration poll_interval = 50ms;  // between two checks for an interruption, or reports
constexpr Duration greeting_wait = 2s;

}  // namespace

struct ToolClient::Link {
  ClusterAddress cluster;
  AllowTable nobody;  // accepts no connections
  std::unique_ptr<EventLoop> loop;
  std::unique_ptr<NameResolver> resolver;  // if the address is a name
  std::unique_ptr<Bus> bus;
  PeerHandle head;
  bool connected = false;
  bool resolving = false;
  bool has_no_address = false;
  std::optional<Failure> fault;
  std::optional<ToolReply> reply;
  std::uint64_t last_request = 0;
  std::function<void()> on_wait{};

  Result<void> open() {
    auto made = EventLoop::create();
    if (!made) return made.error();
    loop = std::move(made).value();
    BusOptions options;
    if (cluster.key) {
      options.keys = CurveKeys{cluster.key->public_key, cluster.key->secret_key};
      options.allow = &nobody;
    }
    BusCallbacks callbacks;
    callbacks.on_message = [this](PeerHandle, const PeerOrigin&, std::span<const std::byte> bytes) {
      auto message = decode<ToolReply>(bytes);
      if (message && message->request == last_request) reply = std::move(message).value();
    };
    callbacks.on_connected = [this](PeerHandle) { connected = true; };
    callbacks.on_gone = [this](PeerHandle, const Failure& why) { fault = why_gone(why); };
    callbacks.on_unreached = [this](PeerHandle, ProbeOutcome seen) {
      if (seen == ProbeOutcome::refused) fault = unreachable("connection refused");
    };
    auto created = Bus::create(*loop, std::move(options), std::move(callbacks));
    if (!created) return created.error();
    bus = std::move(created).value();
    const auto where = Address::parse(cluster.address);
    if (!where) return failure(ErrorCode::invalid_argument, "head address: " + where.error().text);
    if (where->numeric()) return connect(cluster.address);
    return resolve(*where);
  }

  Result<void> connect(const std::string& address) {
    auto peer = bus->connect(address, cluster.key ? cluster.key->head_curve_key : "");
    if (!peer) return why_gone(peer.error());
    head = *peer;
    return {};
  }

  // Resolves once: a bus would retry a mistyped name forever.
  Result<void> resolve(const Address& where) {
    resolver = std::make_unique<NameResolver>(*loop, NamePatience::brief);
    resolving = true;
    return resolver->resolve(where, [this](const Result<SocketAddress>& found) {
      resolving = false;
      has_no_address = !found;
      if (found) {
        if (auto begun = connect(found->text()); !begun) fault = begun.error();
        return;
      }
      const bool none = found.error().code == ErrorCode::not_found;
      fault = unreachable(found.error().text + (none ? "" : "; the name server does not reply"));
      if (none) fault->code = ErrorCode::invalid_argument;  // no head to wait for
    });
  }

  Failure unreachable(const std::string& why) const {
    return failure(ErrorCode::unavailable,
                   fmt::format("reach the head at {}: {}; check the address, and that the "
                               "head runs there",
                               cluster.address, why));
  }

  Failure why_gone(const Failure& why) const {
    if (why.code != ErrorCode::permission_denied) return unreachable(why.text);
    if (!cluster.key) return needs_key("a head on another machine requires a key");
    if (cluster.by_token) {
      return failure(
          ErrorCode::permission_denied,
          fmt::format(
              "connect to the head at {}: {} is rejected; it was revoked, has expired, or belongs "
              "to another "
              "cluster; `mobula token list` on the head's machine shows which, `mobula token "
              "create` creates another",
              cluster.address, cluster.key_path));
    }
    return failure(
        ErrorCode::permission_denied,
        fmt::format("connect to the head at {}: the key of {} is rejected; give the key file of "
                    "this cluster with --key",
                    cluster.address, cluster.key_path.empty() ? "this program" : cluster.key_path));
  }

  // Runs the loop until `done`, a fault, or the deadline.
  template <class Done>
  void turn_until(Time deadline, const Done& done) {
    while (!done() && !fault) {
      const Duration left = deadline - monotonic_now();
      if (left <= Duration(0) || interrupted()) return;
      const bool in_slices = cluster.console_link != nullptr || on_wait;
      loop->turn(in_slices ? std::min(left, poll_interval) : left);
      if (on_wait) on_wait();
    }
  }

  bool interrupted() const {
    return cluster.console_link != nullptr && cluster.console_link->interrupted();
  }

  // Processes pending events, such as the loss of the head.
  bool is_usable() {
    loop->turn(Duration(0));
    return connected && !fault;
  }

  Failure needs_key(const std::string& why) const {
    return failure(ErrorCode::permission_denied,
                   fmt::format("connect to the head at {}: {}; give --key FILE or MOBULA_TOKEN",
                               cluster.address, why));
  }

  // A process listens there and uses another protocol or key.
  Failure no_handshake() const {
    if (!cluster.key) return needs_key("no handshake without a key");
    return failure(ErrorCode::permission_denied,
                   fmt::format("connect to the head at {}: a process listens, but no handshake "
                               "completed; it is not a head, or "
                               "{} belongs to another cluster; check the address and the key",
                               cluster.address, cluster.key_path));
  }

  // The kernel accepts connections and the process sends nothing.
  Failure silent() const {
    return failure(
        ErrorCode::timed_out,
        fmt::format("connect to the head at {}: it accepts connections and sends nothing; it hangs "
                    "or is stopped, or "
                    "another program listens there; check its process and its log on that machine",
                    cluster.address));
  }

  // Reports whether the listening process sends data. A bus sends 10 bytes when a connection opens
  // (ZMTP 3, https://rfc.zeromq.org/spec/23), whatever the peer and its key.
  bool speaks() {
    const auto where = Address::parse(cluster.address);
    const auto numeric = where ? where->resolve() : Result<SocketAddress>(where.error());
    if (!numeric) return false;
    const Fd socket(
        ::socket(numeric->get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return true;
    (void)::connect(socket.get(), numeric->get(), numeric->size);
    pollfd item{socket.get(), POLLIN, 0};
    const Time deadline = monotonic_now() + greeting_wait;
    while (monotonic_now() < deadline && !interrupted()) {
      const int ready = ::poll(&item, 1, static_cast<int>(poll_interval / 1ms));
      if (ready <= 0) continue;
      char byte = 0;
      return ::recv(socket.get(), &byte, 1, 0) >= 0 || errno != EAGAIN;  // a refusal is data too
    }
    return false;
  }

  // Reports whether an address accepts connections. A handshake that never ends does not show this.
  bool listens() {
    const auto where = Address::parse(cluster.address);
    const auto numeric = where ? where->resolve() : Result<SocketAddress>(where.error());
    if (!numeric) return false;
    std::optional<ProbeOutcome> outcome;
    const PortProbe probe(*loop, *numeric, 1s, [&](ProbeOutcome seen) { outcome = seen; });
    const Time deadline = monotonic_now() + 2s;
    while (!outcome && monotonic_now() < deadline) loop->turn(100ms);
    return outcome == ProbeOutcome::open;
  }
};

ToolClient::ToolClient(std::unique_ptr<Link> link) : link_(std::move(link)) {}
ToolClient::ToolClient(ToolClient&&) noexcept = default;
ToolClient::~ToolClient() {
  if (link_ && link_->cluster.console_link != nullptr)
    link_->cluster.console_link->give(std::move(link_));
}

ConsoleLink::ConsoleLink(std::function<bool()> interrupted)
    : interrupted_(std::move(interrupted)) {}
ConsoleLink::~ConsoleLink() = default;

std::unique_ptr<ToolClient::Link> ConsoleLink::take(const ClusterAddress& cluster) {
  auto link = std::move(link_);
  const auto key_of = [](const ClusterAddress& of) {
    return of.key ? of.key->public_key : std::string();
  };
  if (!link || link->cluster.address != cluster.address || key_of(link->cluster) != key_of(cluster))
    return nullptr;
  return link->is_usable() ? std::move(link) : nullptr;
}

void ConsoleLink::give(std::unique_ptr<ToolClient::Link> link) {
  if (link->connected && !link->fault) link_ = std::move(link);
}

Result<ToolClient> ToolClient::open(const ClusterAddress& cluster) {
  if (cluster.console_link != nullptr) {
    if (auto console_link = cluster.console_link->take(cluster))
      return ToolClient(std::move(console_link));
  }
  auto link = std::make_unique<Link>();
  link->cluster = cluster;
  if (auto opened = link->open(); !opened) return opened.error();
  return ToolClient(std::move(link));
}

Result<std::string> ToolClient::request(const std::string& verb, const std::string& kind,
                                        const std::string& argument, Duration timeout) {
  Link& link = *link_;
  const Time begun = monotonic_now();
  if (!link.connected) {
    link.turn_until(begun + std::min(timeout, connect_timeout), [&] { return link.connected; });
    if (link.interrupted()) return failure(ErrorCode::cancelled, "interrupted");
    // An unresolved address is not probed, because that would wait for the name server again.
    if (!link.connected && link.resolving && !link.fault)
      return link.unreachable("the name server does not reply");
    if (link.has_no_address) return *link.fault;
    const bool denied = link.fault && link.fault->code == ErrorCode::permission_denied;
    if (!link.connected && !denied && link.listens())
      return link.speaks() ? link.no_handshake() : link.silent();
    if (link.fault) return *link.fault;
    if (!link.connected) return link.unreachable("no reply");
  }
  ToolRequest message;
  message.request = ++link.last_request;
  message.verb = verb;
  message.kind = kind;
  message.argument = argument;
  link.reply.reset();
  if (auto sent = link.bus->send(link.head, encode(message)); !sent) return sent.error();
  link.turn_until(begun + timeout, [&] { return link.reply.has_value(); });
  if (link.fault) return *link.fault;
  if (!link.reply && link.interrupted()) return failure(ErrorCode::cancelled, "interrupted");
  if (!link.reply) {
    return failure(ErrorCode::timed_out,
                   fmt::format("query '{1}' to the head at {0}: no reply within {2} s; try again, "
                               "or check its process and its log on that machine",
                               link.cluster.address, verb, timeout / 1s));
  }
  if (link.reply->ok) return link.reply->json;
  // The query rate is limited and shared by all users of the key; the query is repeated after the
  // pause.
  const Duration pause = link.reply->retry_after;
  const Duration left = begun + timeout - monotonic_now();
  if (pause <= Duration(0) || pause >= left) return failure(link.reply->code, link.reply->text);
  link.turn_until(monotonic_now() + pause, [] { return false; });
  if (link.fault) return *link.fault;
  if (link.interrupted()) return failure(ErrorCode::cancelled, "interrupted");
  return request(verb, kind, argument, begun + timeout - monotonic_now());
}

void ToolClient::set_on_wait(std::function<void()> on_wait) { link_->on_wait = std::move(on_wait); }

bool ToolClient::has_sent() const { return link_->last_request > 0; }

std::vector<TaskError> ToolClient::errors() const {
  return link_->reply ? link_->reply->errors : std::vector<TaskError>{};
}

std::vector<std::byte> ToolClient::bytes() const {
  if (!link_->reply) return {};
  const auto bytes = link_->reply->bytes.bytes();
  return {bytes.begin(), bytes.end()};
}

}  // namespace mobula::internal::cli
