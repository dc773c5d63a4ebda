// A minimal carrier of messages: one TCP connection per link, no threads, no library. It shows the
// needs of a plugin on one page, and is always available to the suite.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <chrono>
#include <deque>
#include <map>
#include <set>

#include "transport/plugins/carrier_parts.h"

#ifndef PLUGIN_NAME
#define PLUGIN_NAME "carried"
#endif

namespace {

using namespace mobula::plugins;  // NOLINT: a separate library

using Clock = std::chrono::steady_clock;

constexpr auto send_timeout = std::chrono::seconds(10);
constexpr std::uint64_t max_message = MOBULA_TRANSPORT_LEAST_MESSAGE;
constexpr std::size_t max_waiting = 64;
constexpr std::size_t max_read_at_once = 4u << 20;

struct Link {
  Handle socket;
  std::deque<Bytes> out;
  std::size_t sent = 0;  // bytes of the first message
  Clock::time_point moved = Clock::now();
  Bytes in;
};

int checked(int result, const char* what) {
  if (result < 0) throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
  return result;
}

}  // namespace

struct mobula_carrier {
 public:
  mobula_carrier(const mobula_carrier_host& host, const std::string& listen);

  int descriptor() const { return events_.get(); }
  std::string endpoint() const { return std::string(secret_.begin(), secret_.end()) + address_; }
  std::uint64_t connect(const std::string& endpoint);
  bool send(std::uint64_t number, const mobula_carrier_bytes* parts, std::size_t count);
  void drop(std::uint64_t number) { links_.erase(number); }
  void poll();

 private:
  std::uint64_t add(Handle socket);
  void put(Link& link, Bytes message);
  // False if the connection has ended.
  bool write(Link& link);
  bool read(Link& link);
  void deliver(std::uint64_t number);

  const mobula_carrier_host host_;
  const Secret secret_ = random_secret();
  std::string address_;  // host and port in the format of sockaddr
  Handle events_, listener_;
  std::map<std::uint64_t, Link> links_;
  std::set<std::uint64_t> strangers_;  // incoming links that have not shown the secret
  std::uint64_t next_ = 1;
};

mobula_carrier::mobula_carrier(const mobula_carrier_host& host, const std::string& listen)
    : host_(host),
      events_(checked(::epoll_create1(EPOLL_CLOEXEC), "wait for sockets")),
      listener_(
          checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "listen")) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (::inet_pton(AF_INET, listen.c_str(), &address.sin_addr) != 1) {
    throw std::runtime_error("no IPv4 address: " + listen);
  }
  socklen_t size = sizeof address;
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  checked(::bind(listener_.get(), at, size), "listen");
  checked(::listen(listener_.get(), 64), "listen");
  checked(::getsockname(listener_.get(), at, &size), "listen");
  address_.assign(reinterpret_cast<const char*>(&address.sin_addr), sizeof address.sin_addr);
  address_.append(reinterpret_cast<const char*>(&address.sin_port), sizeof address.sin_port);
  epoll_event event{};
  event.events = EPOLLIN;
  checked(::epoll_ctl(events_.get(), EPOLL_CTL_ADD, listener_.get(), &event), "listen");
}

std::uint64_t mobula_carrier::add(Handle socket) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLOUT | EPOLLET;
  checked(::epoll_ctl(events_.get(), EPOLL_CTL_ADD, socket.get(), &event), "wait for a socket");
  links_[next_].socket = std::move(socket);
  return next_++;
}

std::uint64_t mobula_carrier::connect(const std::string& endpoint) {
  sockaddr_in address{};
  if (endpoint.size() != secret_.size() + address_.size()) {
    throw std::runtime_error("no endpoint of this plugin");
  }
  address.sin_family = AF_INET;
  const char* const at = endpoint.data() + secret_.size();
  std::memcpy(&address.sin_addr, at, sizeof address.sin_addr);
  std::memcpy(&address.sin_port, at + sizeof address.sin_addr, sizeof address.sin_port);
  Handle socket(
      checked(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "connect"));
  if (::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 &&
      errno != EINPROGRESS) {
    checked(-1, "connect");
  }
  const std::uint64_t number = add(std::move(socket));
  put(links_.at(number),
      Bytes(endpoint.begin(), endpoint.begin() + static_cast<std::ptrdiff_t>(secret_.size())));
  return number;
}

void mobula_carrier::put(Link& link, Bytes message) {
  const std::uint64_t size = message.size();
  const char* const from = reinterpret_cast<const char*>(&size);
  message.insert(message.begin(), from, from + sizeof size);
  link.out.push_back(std::move(message));
}

bool mobula_carrier::send(std::uint64_t number, const mobula_carrier_bytes* parts,
                          std::size_t count) {
  const auto at = links_.find(number);
  Bytes message = joined(parts, count);
  if (at == links_.end() || at->second.out.size() >= max_waiting || message.size() > max_message)
    return false;
  put(at->second, std::move(message));
  return write(at->second);
}

bool mobula_carrier::write(Link& link) {
  if (link.out.empty()) link.moved = Clock::now();
  while (!link.out.empty()) {
    const Bytes& first = link.out.front();
    const ssize_t count =
        ::send(link.socket.get(), first.data() + link.sent, first.size() - link.sent, MSG_NOSIGNAL);
    if (count < 0) {
      const bool waits = errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
      return waits && Clock::now() - link.moved < send_timeout;
    }
    link.moved = Clock::now();
    link.sent += static_cast<std::size_t>(count);
    if (link.sent < first.size()) continue;
    link.out.pop_front();
    link.sent = 0;
  }
  return true;
}

bool mobula_carrier::read(Link& link) {
  while (link.in.size() < max_read_at_once) {
    const std::size_t before = link.in.size();
    link.in.resize(before + (256u << 10));
    const ssize_t count =
        ::recv(link.socket.get(), link.in.data() + before, link.in.size() - before, 0);
    const int error = errno;
    link.in.resize(before + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count == 0) return false;
    if (count < 0) return error == EAGAIN || error == EINTR || error == ENOTCONN;
  }
  return true;
}

// The host may drop the link with any message.
void mobula_carrier::deliver(std::uint64_t number) {
  std::size_t at = 0;
  for (;;) {
    const auto link = links_.find(number);
    if (link == links_.end()) return;
    Bytes& in = link->second.in;
    std::uint64_t size = 0;
    const bool begun = in.size() - at >= sizeof size;
    if (begun) std::memcpy(&size, in.data() + at, sizeof size);
    if (begun && size > max_message) return drop(number);
    if (!begun || in.size() - at - sizeof size < size) {
      in.erase(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    }
    const Bytes message(in.begin() + static_cast<std::ptrdiff_t>(at + sizeof size),
                        in.begin() + static_cast<std::ptrdiff_t>(at + sizeof size + size));
    at += sizeof size + size;
    if (strangers_.erase(number) == 0) {
      host_.on_message(host_.host, number, message.data(), message.size());
    } else if (!std::equal(message.begin(), message.end(), secret_.begin(), secret_.end())) {
      return drop(number);
    }
  }
}

void mobula_carrier::poll() {
  std::array<epoll_event, 64> events;
  ::epoll_wait(events_.get(), events.data(), events.size(), 0);
  for (;;) {
    Handle socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket.get() < 0) break;
    strangers_.insert(add(std::move(socket)));
  }
  std::vector<std::uint64_t> numbers;
  for (const auto& [number, link] : links_) numbers.push_back(number);
  for (const std::uint64_t number : numbers) {
    const auto at = links_.find(number);
    if (at == links_.end()) continue;
    const bool stands = write(at->second) && read(at->second);
    deliver(number);
    if (stands || !links_.contains(number)) continue;
    drop(number);
    host_.on_broken(host_.host, number, "the connection is over, or takes nothing");
  }
}

namespace {

constexpr mobula_transport_plugin table = table_of(PLUGIN_NAME, max_message);

}  // namespace

const mobula_transport_plugin* mobula_open_transport_plugin(void) { return &table; }
