#include "tensor/collective/acceptor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "base/logging/log.h"
#include "base/mutex.h"
#include "device/host_identity.h"
#include "tensor/collective/socket_stream.h"
#include "transport/local/local_frame.h"
#include "transport/net/tcp.h"

namespace mobula::internal::collective {
namespace {

enum class Channel : std::uint8_t { shared = 0, words = 1, wire = 2 };

// First bytes of a connection: both members, the purpose, and a proof of knowledge of the group's
// key.
struct Hello {
  static constexpr std::size_t open_size = 64;
  static constexpr std::size_t size = open_size + 32;
  GroupId group{};
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  Channel channel = Channel::shared;
  bool plain = false;  // both ends trust the fabric
  SealSalt salt{};

  std::array<std::byte, size> encode(const SealKey& key) const {
    std::array<std::byte, size> bytes{};
    std::memcpy(bytes.data(), "MobColl1", 8);
    std::memcpy(bytes.data() + 8, group.data(), 16);
    bytes[24] = static_cast<std::byte>(from & 0xff);
    bytes[25] = static_cast<std::byte>(from >> 8);
    bytes[26] = static_cast<std::byte>(to & 0xff);
    bytes[27] = static_cast<std::byte>(to >> 8);
    bytes[28] = static_cast<std::byte>(channel);
    bytes[29] = static_cast<std::byte>(plain);
    std::memcpy(bytes.data() + 32, salt.data(), 32);
    const SealKey proof =
        derive_key(key, std::span(bytes).first(open_size), "mobula collective hello");
    std::memcpy(bytes.data() + open_size, proof.data(), 32);
    return bytes;
  }
  static std::optional<Hello> decode(std::span<const std::byte> bytes) {
    if (bytes.size() != size || std::memcmp(bytes.data(), "MobColl1", 8) != 0) return std::nullopt;
    Hello hello;
    std::memcpy(hello.group.data(), bytes.data() + 8, 16);
    const auto at = [&](std::size_t i) { return static_cast<std::uint32_t>(bytes[i]); };
    hello.from = at(24) | at(25) << 8;
    hello.to = at(26) | at(27) << 8;
    if (at(28) > 2 || at(29) > 1) return std::nullopt;
    hello.plain = at(29) == 1;
    hello.channel = static_cast<Channel>(at(28));
    std::memcpy(hello.salt.data(), bytes.data() + 32, 32);
    return hello;
  }
};

// Reply: a salt and a proof over both salts.
constexpr std::size_t welcome_size = 64;

std::array<std::byte, 64> both_salts(const SealSalt& client, const SealSalt& server) {
  std::array<std::byte, 64> both{};
  std::memcpy(both.data(), client.data(), 32);
  std::memcpy(both.data() + 32, server.data(), 32);
  return both;
}

std::array<std::byte, welcome_size> welcome_of(const SealKey& key, const SealSalt& client,
                                               const SealSalt& server) {
  std::array<std::byte, welcome_size> bytes{};
  std::memcpy(bytes.data(), server.data(), 32);
  const SealKey proof = derive_key(key, both_salts(client, server), "mobula collective welcome");
  std::memcpy(bytes.data() + 32, proof.data(), 32);
  return bytes;
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  std::byte differs{0};
  for (std::size_t i = 0; i < a.size(); ++i) differs |= a[i] ^ b[i];
  return differs == std::byte{0};
}

WireKeys keys_of(const SealKey& key, const SealSalt& client, const SealSalt& server,
                 bool as_client) {
  const auto salts = both_salts(client, server);
  const SealKey to_server = derive_key(key, salts, "mobula collective from client");
  const SealKey to_client = derive_key(key, salts, "mobula collective from server");
  return as_client ? WireKeys{to_server, to_client} : WireKeys{to_client, to_server};
}

// Detects a peer machine that fails without closing the connection.
void watch_over(const Fd& socket) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(socket.get(), level, option, &value, sizeof value);
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30'000);
}

Result<void> wait_for(const Fd& socket, short events, Time deadline) {
  for (;;) {
    const Duration left = deadline - monotonic_now();
    if (left <= Duration(0)) return failure(ErrorCode::timed_out, "the member does not reply");
    pollfd one{socket.get(), events, 0};
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count() + 1;
    const int ready = ::poll(&one, 1, static_cast<int>(std::min<std::int64_t>(ms, 60'000)));
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) return errno_failure("wait for a member", errno);
  }
}

Result<void> send_all(const Fd& socket, std::span<const std::byte> bytes, Time deadline) {
  while (!bytes.empty()) {
    const auto count = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (count > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    } else if (is_for_later(errno)) {
      if (auto ready = wait_for(socket, POLLOUT, deadline); !ready) return ready;
    } else {
      return errno_failure("greet a member", errno);
    }
  }
  return {};
}

Result<void> receive_all(const Fd& socket, std::span<std::byte> buffer, Time deadline) {
  while (!buffer.empty()) {
    const auto count = ::recv(socket.get(), buffer.data(), buffer.size(), 0);
    if (count > 0) {
      buffer = buffer.subspan(static_cast<std::size_t>(count));
    } else if (count < 0 && is_for_later(errno)) {
      if (auto ready = wait_for(socket, POLLIN, deadline); !ready) return ready;
    } else {
      return failure(ErrorCode::unavailable,
                     "the member rejects this one: its group was destroyed or is another one");
    }
  }
  return {};
}

bool trusted(const Membership& group, std::uint32_t other) {
  const std::string& mine = group.endpoints[group.rank].fabric;
  return !mine.empty() && mine == group.endpoints[other].fabric;
}

}  // namespace

// A connection that has not authenticated.
struct Acceptor::PendingPeer {
  Fd socket;
  bool local = false;
  Time since;
  std::array<std::byte, Hello::size> bytes{};
  std::size_t filled = 0;
  std::vector<Fd> fds;
  Watch watch;
};

std::string Membership::member(std::uint32_t which) const {
  return which < actors.size() ? fmt::format("rank {} (actor {})", which, actors[which])
                               : fmt::format("rank {}", which);
}

Acceptor::Acceptor(AcceptorOptions options, std::unique_ptr<LoopThread> thread)
    : options_(std::move(options)), thread_(std::move(thread)) {}

Result<std::unique_ptr<Acceptor>> Acceptor::open(AcceptorOptions options) {
  auto thread = LoopThread::start();
  if (!thread) return thread.error();
  std::unique_ptr<Acceptor> made(new Acceptor(std::move(options), std::move(*thread)));
  Result<void> listening;
  auto ran = made->thread_->run([&] { listening = made->listen(); });
  if (!ran) return ran.error();
  if (!listening) return listening.error();
  return made;
}

Result<void> Acceptor::listen() {
  timer_ = std::make_unique<Timer>(thread_->loop(), [this] { check_pending(); });
  endpoint_.fabric = options_.fabric;
  if (!options_.socket.empty()) {
    auto local = LocalListener::open(thread_->loop(), options_.socket,
                                     [this](Fd socket) { admit(std::move(socket), true); });
    if (!local) return local.error();
    local_ = std::move(*local);
    endpoint_.local = options_.socket;
    endpoint_.machine =
        exchange::host_identity() + (options_.own_host ? options_.own_host() : std::string());
  }
  auto listener = listen_at(options_.host_bind.empty() ? "127.0.0.1:0" : options_.host_bind);
  if (!listener) return listener.error();
  listener_ = std::move(*listener);
  auto watch = thread_->loop().watch(listener_.get(), Interest::read, [this](Readiness) {
    for (int i = 0; i < 64; ++i) {
      auto accepted = accept_from(listener_);
      if (!accepted || !*accepted) return;
      admit(std::move(*accepted), false);
    }
  });
  if (!watch) return watch.error();
  watch_ = std::move(*watch);
  auto address = local_address_of(listener_.get());
  if (!address) return address.error();
  endpoint_.address = address->text();
  return {};
}

Acceptor::~Acceptor() {
  while (!thread_->run([this] {
    pending_.clear();
    halves_.clear();
    watch_.reset();
    local_.reset();
    timer_.reset();
  })) {
    std::this_thread::yield();
  }
  thread_.reset();
}

void Acceptor::expect(const Membership& group, int wakes, Arrived arrived) {
  Expected expected{group.key, group.rank, group.size(), wakes, std::move(arrived)};
  const MutexLock lock(mutex_);
  expected_[group.id] = std::make_shared<const Expected>(std::move(expected));
}

void Acceptor::close(const GroupId& group) {
  {
    const MutexLock lock(mutex_);
    expected_.erase(group);
  }
  // No peer is passed to the group after this returns.
  (void)thread_->run(
      [&] { std::erase_if(halves_, [&](const auto& each) { return each.first.first == group; }); });
}

// ---- accept -------------------------------------------------------------------------------------

void Acceptor::admit(Fd socket, bool local) {
  if (pending_.size() >= options_.max_greeting) return;
  const auto id = ++last_guest_;
  auto peer = std::make_unique<PendingPeer>();
  peer->socket = std::move(socket);
  peer->local = local;
  peer->since = monotonic_now();
  auto watch = thread_->loop().watch(peer->socket.get(), Interest::read,
                                     [this, id](Readiness) { on_readable(id); });
  if (!watch) return;
  peer->watch = std::move(*watch);
  pending_.emplace(id, std::move(peer));
  if (!timer_->armed()) timer_->arm(monotonic_now() + options_.greeting_timeout);
}

void Acceptor::on_readable(std::uint64_t id) {
  const auto at = pending_.find(id);
  if (at == pending_.end()) return;
  PendingPeer& peer = *at->second;
  const auto some =
      receive_some(peer.socket.get(), std::span(peer.bytes).subspan(peer.filled), peer.fds, 4);
  if (!some || some->end) {
    pending_.erase(at);
    return;
  }
  peer.filled += some->count;
  if (peer.filled < peer.bytes.size()) return;
  const auto whole = std::move(at->second);
  pending_.erase(at);
  whole->watch.reset();
  greet(*whole);
}

// Completes the link to a member of this machine, which sent its memory and its eventfd.
void Acceptor::share_memory(PendingPeer& peer, const Expected& group, std::uint32_t from,
                            std::span<const std::byte> welcome) {
  if (peer.fds.size() != 2) return;
  auto memory = SharedMemory::map(peer.fds[0].get(), pair_memory_bytes());
  Fd wakes(::fcntl(group.wakes, F_DUPFD_CLOEXEC, 0));
  if (!memory || !wakes) return;
  std::vector<Fd> fds;
  fds.push_back(std::move(wakes));
  group.arrived(from, [&]() -> std::optional<Link> {
    const auto sent = send_some(peer.socket.get(), welcome, {}, fds);
    if (!sent || *sent != welcome.size()) return std::nullopt;
    Link link;
    link.words = std::make_unique<ControlChannel>(std::move(peer.socket), WireKeys{});
    link.wire = std::make_unique<ShmStream>(std::move(*memory), false, std::move(peer.fds[1]));
    link.shares_memory = true;
    return link;
  });
}

void Acceptor::greet(PendingPeer& peer) {
  const auto hello = Hello::decode(peer.bytes);
  if (!hello) return;
  std::shared_ptr<const Expected> group;
  {
    const MutexLock lock(mutex_);
    const auto at = expected_.find(hello->group);
    if (at == expected_.end()) return;
    group = at->second;
  }
  const auto proved = hello->encode(group->key);
  if (!equal(proved, peer.bytes) || hello->from >= group->size || hello->to != group->rank) {
    return log_warn("a process that is not a member has tried to join a collective group");
  }
  const SealSalt salt = random_secret();
  const auto welcome = welcome_of(group->key, hello->salt, salt);
  const bool shares = hello->channel == Channel::shared;
  if (shares != peer.local || (hello->plain && options_.fabric.empty())) return;
  if (shares) return share_memory(peer, *group, hello->from, welcome);
  watch_over(peer.socket);
  const auto welcomed = [&](const Fd& socket) {
    const auto sent = send_some(socket.get(), welcome, {}, {});
    return sent && *sent == welcome.size();
  };
  const bool plain = hello->plain;
  HalfOpen half{std::move(peer.socket),
                plain ? WireKeys{} : keys_of(group->key, hello->salt, salt, false),
                hello->channel == Channel::wire, monotonic_now()};
  const HalfKey key{hello->group, hello->from};
  const auto other = halves_.find(key);
  if (other == halves_.end() || other->second.is_wire == half.is_wire) {
    if (!welcomed(half.socket)) return;
    halves_[key] = std::move(half);
    if (!timer_->armed()) timer_->arm(monotonic_now() + options_.greeting_timeout);
    return;
  }
  HalfOpen first = std::move(other->second);
  halves_.erase(other);
  group->arrived(hello->from, [&]() -> std::optional<Link> {
    if (!welcomed(half.socket)) return std::nullopt;
    HalfOpen& words = half.is_wire ? first : half;
    HalfOpen& wire = half.is_wire ? half : first;
    Link link;
    link.words = std::make_unique<ControlChannel>(std::move(words.socket), words.keys);
    link.wire = std::make_unique<TcpStream>(KernelSocket(std::move(wire.socket)), wire.keys);
    link.sealed = !plain;
    return link;
  });
}

// Drops unauthenticated and half-open connections after the handshake timeout.
void Acceptor::check_pending() {
  const Time limit = monotonic_now() - options_.greeting_timeout;
  std::erase_if(pending_, [&](const auto& each) { return each.second->since <= limit; });
  std::erase_if(halves_, [&](const auto& each) { return each.second.since <= limit; });
  if (!pending_.empty() || !halves_.empty())
    timer_->arm(monotonic_now() + options_.greeting_timeout / 4);
}

// ---- connect ------------------------------------------------------------------------------------

namespace {

struct Greeted {
  Fd socket;
  WireKeys keys;
  std::vector<Fd> fds;
};

Result<Greeted> greet(Fd socket, const Membership& group, std::uint32_t rank, Channel channel,
                      std::span<const Fd> fds, Time deadline) {
  const bool plain = channel != Channel::shared && trusted(group, rank);
  const Hello hello{group.id, group.rank, rank, channel, plain, random_secret()};
  const auto bytes = hello.encode(group.key);
  if (fds.empty()) {
    if (auto sent = send_all(socket, bytes, deadline); !sent) return sent.error();
  } else {
    const auto sent = send_some(socket.get(), bytes, {}, fds);
    if (!sent) return sent.error();
    if (*sent != bytes.size())
      return failure(ErrorCode::unavailable, "the socket of the member accepts no bytes");
  }
  Greeted greeted;
  std::array<std::byte, welcome_size> welcome{};
  if (fds.empty()) {
    if (auto received = receive_all(socket, welcome, deadline); !received) return received.error();
  } else {
    std::size_t filled = 0;
    while (filled < welcome.size()) {
      if (auto ready = wait_for(socket, POLLIN, deadline); !ready) return ready.error();
      const auto some =
          receive_some(socket.get(), std::span(welcome).subspan(filled), greeted.fds, 4);
      if (!some) return some.error();
      if (some->end) {
        return failure(ErrorCode::unavailable,
                       "the member rejects this one: its group was destroyed or is another one");
      }
      filled += some->count;
    }
  }
  SealSalt salt{};
  std::memcpy(salt.data(), welcome.data(), 32);
  if (!equal(welcome, welcome_of(group.key, hello.salt, salt))) {
    return failure(ErrorCode::permission_denied, "the process there does not belong to the group");
  }
  if (channel != Channel::shared && !plain)
    greeted.keys = keys_of(group.key, hello.salt, salt, true);
  greeted.socket = std::move(socket);
  return greeted;
}

Result<Link> connect_near(const Membership& group, std::uint32_t rank, int wakes, Time deadline) {
  for (;;) {
    auto socket = connect_local(group.endpoints[rank].local);
    if (!socket && socket.error().code == ErrorCode::timed_out && monotonic_now() < deadline) {
      std::this_thread::yield();  // its accept queue is full; retry
      continue;
    }
    if (!socket) return socket.error();
    auto file = SharedMemory::create_file(pair_memory_bytes(), "mobula-collective");
    if (!file) return file.error();
    auto memory = SharedMemory::map(file->get(), pair_memory_bytes());
    if (!memory) return memory.error();
    Fd copy(::fcntl(wakes, F_DUPFD_CLOEXEC, 0));
    if (!copy) return errno_failure("copy a descriptor", errno);
    std::vector<Fd> fds;
    fds.push_back(std::move(*file));
    fds.push_back(std::move(copy));
    auto greeted = greet(std::move(*socket), group, rank, Channel::shared, fds, deadline);
    if (!greeted) return greeted.error();
    if (greeted->fds.size() != 1)
      return failure(ErrorCode::corrupt, "the member sent no descriptor for wake-ups");
    Link link;
    link.words = std::make_unique<ControlChannel>(std::move(greeted->socket), WireKeys{});
    link.wire = std::make_unique<ShmStream>(std::move(*memory), true, std::move(greeted->fds[0]));
    link.shares_memory = true;
    return link;
  }
}

Result<Greeted> connect_remote(const Membership& group, std::uint32_t rank, Channel channel,
                               Time deadline) {
  const auto address = Address::parse(group.endpoints[rank].address);
  if (!address) return address.error();
  const auto numeric = address->resolve();
  if (!numeric) return numeric.error();
  auto socket = begin_connect(*numeric);
  if (!socket) return socket.error();
  if (auto ready = wait_for(*socket, POLLOUT, deadline); !ready) return ready.error();
  if (const int error = connect_error(*socket); error != 0) {
    return errno_failure(fmt::format("connect to {}", group.endpoints[rank].address), error);
  }
  watch_over(*socket);
  return greet(std::move(*socket), group, rank, channel, {}, deadline);
}

}  // namespace

Result<Link> Acceptor::connect(const Membership& group, std::uint32_t rank, int wakes,
                               Time deadline) const {
  const MemberEndpoint& there = group.endpoints[rank];
  const bool near = !there.local.empty() && !there.machine.empty() &&
                    there.machine == endpoint_.machine && !endpoint_.local.empty();
  if (near && group.reach != Reach::tcp) return connect_near(group, rank, wakes, deadline);
  if (group.reach == Reach::shm) {
    return failure(ErrorCode::invalid_argument,
                   "the members share no memory: they are on different machines");
  }
  auto words = connect_remote(group, rank, Channel::words, deadline);
  if (!words) return words.error();
  auto wire = connect_remote(group, rank, Channel::wire, deadline);
  if (!wire) return wire.error();
  Link link;
  link.words = std::make_unique<ControlChannel>(std::move(words->socket), words->keys);
  link.wire = std::make_unique<TcpStream>(KernelSocket(std::move(wire->socket)), wire->keys);
  link.sealed = !trusted(group, rank);
  return link;
}

}  // namespace mobula::internal::collective
