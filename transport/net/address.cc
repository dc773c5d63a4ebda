#include "transport/net/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

#include "transport/local/local_listener.h"

namespace mobula::internal {
namespace {

constexpr std::size_t max_host = 253;

Failure malformed(std::string_view text, std::string_view why) {
  return failure(
      ErrorCode::invalid_argument,
      fmt::format("the address '{}' {}; write NAME:PORT, 10.0.0.1:PORT, [::1]:PORT or the "
                  "path of a socket",
                  text.substr(0, 300), why));
}

bool is_host(std::string_view host) {
  if (host.empty() || host.size() > max_host) return false;
  for (const char c : host) {
    const bool fine = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                      c == '.' || c == '-' || c == '_';
    if (!fine) return false;
  }
  return true;
}

SocketAddress from_path(const std::string& path) {
  SocketAddress address;
  auto& local = reinterpret_cast<sockaddr_un&>(address.storage);
  local.sun_family = AF_UNIX;
  std::memcpy(local.sun_path, path.c_str(), path.size() + 1);
  address.size = sizeof(sockaddr_un);
  return address;
}

struct LookupResult {
  int error = 0;
  SocketAddress address;
};

LookupResult lookup(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  LookupResult result;
  result.error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (result.error != 0) return result;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, &::freeaddrinfo);
  std::memcpy(&result.address.storage, list->ai_addr, list->ai_addrlen);
  result.address.size = list->ai_addrlen;
  return result;
}

Result<SocketAddress> name_of(int socket, int (*question)(int, sockaddr*, socklen_t*)) {
  SocketAddress address;
  address.size = sizeof(address.storage);
  if (question(socket, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0) {
    return errno_failure("get the address of a socket", errno);
  }
  return address;
}

}  // namespace

std::uint16_t SocketAddress::port() const {
  if (family() == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in&>(storage).sin_port);
  if (family() == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6&>(storage).sin6_port);
  return 0;
}

bool SocketAddress::loopback() const {
  if (family() == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr) >> 24) == 127;
  }
  if (family() == AF_INET6) {
    const in6_addr& host = reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&host) || (IN6_IS_ADDR_V4MAPPED(&host) && host.s6_addr[12] == 127);
  }
  return family() == AF_UNIX;
}

std::string SocketAddress::text() const {
  if (family() == AF_UNIX) return reinterpret_cast<const sockaddr_un&>(storage).sun_path;
  std::array<char, NI_MAXHOST> host{};
  if (::getnameinfo(get(), size, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "?";
  }
  return family() == AF_INET6 ? fmt::format("[{}]:{}", host.data(), port())
                              : fmt::format("{}:{}", host.data(), port());
}

Result<Address> Address::parse(std::string_view text) {
  Address address;
  const std::string_view whole = text;
  const bool named_ipc = text.starts_with("ipc://");
  if (named_ipc) text.remove_prefix(6);
  if (named_ipc || text.starts_with('/')) {
    address.path_ = text;
    if (auto good = check_socket_path(address.path_); !good) return good.error();
    return address;
  }
  if (text.starts_with("tcp://")) text.remove_prefix(6);
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return malformed(whole, "has no port");
  const std::string_view port = text.substr(colon + 1);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), address.port_);
  if (error != std::errc{} || end != port.data() + port.size()) {
    return malformed(whole, "has no port from 0 to 65535");
  }
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
    address.host_ = host;
    if (host.find(':') == std::string_view::npos || !address.numeric()) {
      return malformed(whole, "has no IPv6 address in its brackets");
    }
    return address;
  }
  if (host.find(':') != std::string_view::npos) {
    return malformed(whole, "has an IPv6 address without brackets");
  }
  if (!is_host(host)) return malformed(whole, "has no host name");
  address.host_ = host;
  return address;
}

std::string Address::text() const {
  if (is_path()) return path_;
  return host_.find(':') != std::string::npos ? fmt::format("[{}]:{}", host_, port_)
                                              : fmt::format("{}:{}", host_, port_);
}

std::optional<SocketAddress> Address::numeric() const {
  if (is_path()) return from_path(path_);
  const LookupResult found = lookup(host_, port_, AI_NUMERICHOST);
  return found.error == 0 ? std::optional(found.address) : std::nullopt;
}

Result<SocketAddress> Address::resolve() const {
  if (is_path()) return from_path(path_);
  const LookupResult found = lookup(host_, port_, AI_ADDRCONFIG);
  if (found.error == 0) return found.address;
  // Name servers that did not reply would not reply to a second query either.
  const bool unanswered = found.error == EAI_AGAIN;
  // On a machine whose only interface is loopback, AI_ADDRCONFIG hides the loopback addresses.
  const LookupResult any = unanswered ? found : lookup(host_, port_, 0);
  if (any.error == 0) return any.address;
  const bool unknown = any.error == EAI_NONAME;
  return failure(unknown ? ErrorCode::not_found : ErrorCode::unavailable,
                 fmt::format("look up the host name '{}': {}", host_, ::gai_strerror(any.error)));
}

Result<SocketAddress> local_address_of(int socket) { return name_of(socket, &::getsockname); }
Result<SocketAddress> peer_address_of(int socket) { return name_of(socket, &::getpeername); }

}  // namespace mobula::internal
