#include "transport/bus/zap.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <vector>

#include "base/mutex.h"
#include "base/thread_start.h"
#include "transport/bus/zmq_parts.h"
#include "transport/net/address.h"

namespace mobula::internal {
namespace {

constexpr std::size_t max_user_id = 255;
constexpr std::size_t binary_key_size = 32;

// Encodes one name and value of the metadata frame of a reply (ZMTP 3.0).
std::string metadata_of(std::string_view name, std::string_view value) {
  std::string bytes;
  bytes += static_cast<char>(name.size());
  bytes += name;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>((value.size() >> shift) & 0xff);
  }
  bytes += value;
  return bytes;
}

// Waits until `socket` has input or `deadline` passed.
bool wait_for_input(zmq::socket_t& socket, Time deadline) {
  const Duration left = std::max(deadline - monotonic_now(), Duration(0));
  zmq_pollitem_t item{socket.handle(), 0, ZMQ_POLLIN, 0};
  return zmq_poll(&item, 1, static_cast<long>(left / 1ms)) > 0;
}

// A client with its own key that tries to connect from outside.
class Intruder {
 public:
  static Result<std::unique_ptr<Intruder>> open(const CurveKeys& keys, const Address& address,
                                                const std::string& server_key) {
    auto made = std::make_unique<Intruder>();
    auto socket = open_socket(made->context_, zmq::socket_type::dealer);
    if (!socket) return socket.error();
    made->socket_ = std::move(socket).value();
    set_option(made->socket_, zmq::sockopt::curve_serverkey, server_key);
    set_option(made->socket_, zmq::sockopt::curve_publickey, keys.public_key);
    set_option(made->socket_, zmq::sockopt::curve_secretkey, keys.secret_key);
    set_option(made->socket_, zmq::sockopt::maxmsgsize, std::int64_t{1 << 20});
    auto monitor = open_monitor(made->context_, made->socket_, "self-test", ZMQ_EVENT_ALL);
    if (!monitor) return monitor.error();
    made->monitor_ = std::move(monitor).value();
    const auto where = address.resolve();
    if (!where) return where.error();
    set_option(made->socket_, zmq::sockopt::ipv6, where->family() == AF_INET6 ? 1 : 0);
    const std::string endpoint = (address.is_path() ? "ipc://" : "tcp://") + where->text();
    try {
      made->socket_.connect(endpoint);
    } catch (const zmq::error_t& error) {
      return zmq_failure(fmt::format("connect to {}", endpoint), error.num());
    }
    return made;
  }

  ~Intruder() { close_monitor(socket_); }

  // Outcome of the handshake: true if completed, false if rejected, nullopt at the deadline.
  std::optional<bool> handshake(Time deadline) {
    while (wait_for_input(monitor_, deadline)) {
      while (const auto event = receive_event(monitor_)) {
        if (event->event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) return true;
        if (event->event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) return false;
      }
    }
    return std::nullopt;
  }

  bool gets_reply(Time deadline) {
    (void)send(socket_, "who are you?");
    return wait_for_input(socket_, deadline);
  }

 private:
  zmq::context_t context_{1};
  zmq::socket_t socket_;
  zmq::socket_t monitor_;
};

}  // namespace

Result<void> AllowTable::allow(std::string_view public_key, std::string_view user_id) {
  if (!is_curve_key(public_key)) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("admit a key for '{}': {} bytes that are not a CURVE key of {} "
                               "characters",
                               user_id, public_key.size(), curve_key_size));
  }
  if (user_id.empty() || user_id.size() > max_user_id ||
      user_id.find('\0') != std::string_view::npos) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("admit a key: a user id has 1 to {} bytes and no NUL", max_user_id));
  }
  const MutexLock lock(mutex_);
  user_of_key_[std::string(public_key)] = user_id;
  return {};
}

bool AllowTable::remove(std::string_view public_key) {
  const MutexLock lock(mutex_);
  return user_of_key_.erase(std::string(public_key)) > 0;
}

AllowTable::Counters AllowTable::counters() const {
  const MutexLock lock(mutex_);
  return counters_;
}

std::uint64_t AllowTable::refused() const {
  const MutexLock lock(mutex_);
  return counters_.refused;
}

std::string AllowTable::judge(std::string_view public_key, std::string_view address) {
  const MutexLock lock(mutex_);
  const auto at = user_of_key_.find(std::string(public_key));
  if (at != user_of_key_.end()) {
    ++counters_.admitted;
    return at->second;
  }
  if (unknown_ == UnknownKeys::unproven && !public_key.empty()) {
    ++counters_.unproven;
    return std::string(unproven_user);
  }
  ++counters_.refused;
  counters_.last_refused = fmt::format("{} from {}", public_key, address);
  return {};
}

Result<std::unique_ptr<ZapServer>> ZapServer::start(zmq::context_t& context, AllowTable& table) {
  std::unique_ptr<ZapServer> server(new ZapServer(table));
  server->stop_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!server->stop_) return errno_failure("make the stop descriptor of a ZAP server", errno);
  auto socket = open_socket(context, zmq::socket_type::rep);
  if (!socket) return socket.error();
  try {
    socket->bind("inproc://zeromq.zap.01");
  } catch (const zmq::error_t& error) {
    return zmq_failure("start the ZAP server of a ZeroMQ context", error.num());
  }
  // Shared with the thread, because a std::function must be copyable.
  const auto shared = std::make_shared<zmq::socket_t>(std::move(socket).value());
  auto thread = start_thread("mobula-zap", [self = server.get(), shared] {
    self->serve(*shared);
    shared->close();
  });
  if (!thread) return thread.error();
  server->thread_ = std::move(thread).value();
  return server;
}

ZapServer::~ZapServer() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

void ZapServer::serve(zmq::socket_t& socket) {
  for (;;) {
    std::array<zmq_pollitem_t, 2> items{
        {{socket.handle(), 0, ZMQ_POLLIN, 0}, {nullptr, stop_.get(), ZMQ_POLLIN, 0}}};
    if (zmq_poll(items.data(), static_cast<int>(items.size()), -1) < 0) {
      if (zmq_errno() == EINTR) continue;
      return;  // the context ends
    }
    if ((items[1].revents & ZMQ_POLLIN) != 0) return;
    if ((items[0].revents & ZMQ_POLLIN) != 0) answer(socket);
  }
}

// Frames of a request: version, request id, domain, address, identity, mechanism, credentials.
void ZapServer::answer(zmq::socket_t& socket) {
  std::vector<zmq::message_t> frames;
  do {
    frames.emplace_back();
    if (zmq_msg_recv(frames.back().handle(), socket.handle(), 0) < 0) return;
  } while (frames.back().more());

  const bool understood = frames.size() == 7 && frames[0].to_string_view() == "1.0" &&
                          frames[5].to_string_view() == "CURVE" &&
                          frames[6].size() == binary_key_size;
  std::array<char, curve_key_size + 1> key{};
  if (understood) {
    zmq_z85_encode(key.data(), frames[6].data<std::uint8_t>(), binary_key_size);
  }
  const std::string address = frames.size() > 3 ? frames[3].to_string() : std::string();
  // An invalid request counts as the empty key, which is never admitted.
  const std::string user = table_.judge(key.data(), address);
  const std::string request_id = frames.size() > 1 ? frames[1].to_string() : std::string();
  const std::string metadata =
      user.empty() ? std::string() : metadata_of(public_key_property, key.data());
  const std::array<std::string_view, 6> reply{
      "1.0", request_id, user.empty() ? "400" : "200", user.empty() ? "not admitted" : "OK",
      user,  metadata};
  for (std::size_t i = 0; i < reply.size(); ++i) {
    zmq_send(socket.handle(), reply[i].data(), reply[i].size(),
             i + 1 < reply.size() ? ZMQ_SNDMORE : 0);
  }
}

Result<void> self_test(AllowTable& table, const std::string& address, const std::string& server_key,
                       Duration bound) {
  const auto where = Address::parse(address);
  if (!where) return where.error();
  const auto keys = CurveKeys::generate();
  if (!keys) return keys.error();
  {
    const auto intruder = Intruder::open(*keys, *where, server_key);
    if (!intruder) return intruder.error();
    const auto outcome = (*intruder)->handshake(monotonic_now() + bound);
    const bool admitted = outcome.value_or(false);
    if (admitted && table.unknown() == UnknownKeys::refuse) {
      return failure(ErrorCode::permission_denied,
                     fmt::format("self-test of the bus at {}: it admitted a key made a moment ago; "
                                 "this libzmq does not ask who may connect",
                                 address));
    }
    if (admitted && (*intruder)->gets_reply(monotonic_now() + bound)) {
      return failure(
          ErrorCode::permission_denied,
          fmt::format("self-test of the bus at {}: it accepted a key without a ticket", address));
    }
  }
  if (auto allowed = table.allow(keys->public_key, "self-test"); !allowed) return allowed;
  const auto member = Intruder::open(*keys, *where, server_key);
  const auto outcome = member ? (*member)->handshake(monotonic_now() + bound) : std::nullopt;
  table.remove(keys->public_key);
  if (!member) return member.error();
  if (outcome.value_or(false)) return {};
  return failure(ErrorCode::unavailable,
                 fmt::format("self-test of the bus at {}: an admitted key {} within {} ms", address,
                             outcome ? "was refused" : "could not connect", bound / 1ms));
}

}  // namespace mobula::internal
