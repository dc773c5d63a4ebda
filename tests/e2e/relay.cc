#include "e2e/relay.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <stdexcept>
#include <vector>

namespace mobula::e2e {
namespace {

sockaddr_in address_of(const std::string& host, int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1)
    throw std::runtime_error("no address: " + host);
  return address;
}

const sockaddr* plain(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

}  // namespace

Relay::Relay(const std::string& target) {
  const auto colon = target.rfind(':');
  target_host_ = target.substr(0, colon);
  target_port_ = std::stoi(target.substr(colon + 1));
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = address_of("127.0.0.1", 0);
  socklen_t size = sizeof(address);
  if (::bind(listener_, plain(address), size) != 0 || ::listen(listener_, 16) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    throw std::runtime_error("a relay cannot listen");
  }
  address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  wake_ = ::eventfd(0, EFD_CLOEXEC);
  thread_ = std::thread([this] { work(); });
}

Relay::~Relay() {
  ends_ = true;
  ::eventfd_write(wake_, 1);
  thread_.join();
  for (const Pair& pair : pairs_) {
    ::close(pair.client);
    ::close(pair.target);
  }
  ::close(listener_);
  ::close(wake_);
}

void Relay::accept_one() {
  const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  const int target = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = address_of(target_host_, target_port_);
  if (::connect(target, plain(address), sizeof(address)) != 0) {
    ::close(client);
    ::close(target);
    return;
  }
  pairs_.push_back({client, target});
}

bool Relay::pass_on(int from, int to) {
  std::array<char, 65536> bytes{};
  const auto got = ::recv(from, bytes.data(), bytes.size(), 0);
  if (got <= 0) return false;
  for (ssize_t done = 0; done < got;) {
    const auto sent =
        ::send(to, bytes.data() + done, static_cast<std::size_t>(got - done), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    done += sent;
  }
  return true;
}

void Relay::work() {
  while (!ends_) {
    std::vector<pollfd> waits{{wake_, POLLIN, 0}, {listener_, POLLIN, 0}};
    // A held side is not polled. A thread that is already polling notices the hold before it relays
    // the next bytes.
    for (const Pair& pair : pairs_) {
      waits.push_back({held_ ? -1 : pair.client, POLLIN, 0});
      waits.push_back({pair.target, POLLIN, 0});
    }
    if (::poll(waits.data(), waits.size(), -1) < 0) continue;
    std::size_t at = 2;
    for (auto pair = pairs_.begin(); pair != pairs_.end(); at += 2) {
      bool open = true;
      if (waits[at].revents != 0 && !held_) open = pass_on(pair->client, pair->target);
      if (open && waits[at + 1].revents != 0) open = pass_on(pair->target, pair->client);
      if (open) {
        ++pair;
        continue;
      }
      ::close(pair->client);
      ::close(pair->target);
      pair = pairs_.erase(pair);
    }
    if (waits[1].revents != 0) accept_one();
  }
}

}  // namespace mobula::e2e
