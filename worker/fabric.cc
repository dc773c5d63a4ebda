#include "worker/fabric.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>

namespace mobula::internal::worker {
namespace {

constexpr std::size_t longest_name = 256;

struct NetAddress {
  int family = AF_INET;
  std::array<unsigned char, 16> bytes{};
  int bits() const { return family == AF_INET ? 32 : 128; }
};

// Parses an address, with or without brackets.
std::optional<NetAddress> parse(std::string text) {
  if (text.size() > 2 && text.front() == '[' && text.back() == ']')
    text = text.substr(1, text.size() - 2);
  NetAddress address;
  if (::inet_pton(AF_INET, text.c_str(), address.bytes.data()) == 1) return address;
  address.family = AF_INET6;
  if (::inet_pton(AF_INET6, text.c_str(), address.bytes.data()) == 1) return address;
  return std::nullopt;
}

NetAddress first_of(NetAddress address, int length) {
  for (int bit = length; bit < address.bits(); ++bit) {
    auto& byte = address.bytes[static_cast<std::size_t>(bit / 8)];
    byte = static_cast<unsigned char>(byte & ~(0x80U >> (bit % 8)));
  }
  return address;
}

std::string text_of(const NetAddress& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(address.family, address.bytes.data(), text.data(), text.size());
  return text.data();
}

}  // namespace

Result<std::string> fabric_named(const std::string& given, const std::string& host) {
  const auto refuse = [&](const std::string& why) {
    return failure(ErrorCode::invalid_argument, fmt::format("--trusted-fabric {}: {}", given, why));
  };
  if (given.size() > longest_name)
    return refuse(fmt::format("a name has at most {} bytes", longest_name));
  for (const char each : given) {
    if (static_cast<unsigned char>(each) < 0x20 || each == 0x7f)
      return refuse("a name has no control characters");
  }
  const auto slash = given.find('/');
  if (slash == std::string::npos) return given;
  const auto network = parse(given.substr(0, slash));
  int length = -1;
  const char* end = given.data() + given.size();
  const auto read = std::from_chars(given.data() + slash + 1, end, length);
  if (!network || read.ec != std::errc() || read.ptr != end || length < 0 ||
      length > network->bits()) {
    return refuse("is neither a name nor a network as 10.0.0.0/24");
  }
  const auto own = parse(host);
  if (!own)
    return refuse(
        fmt::format("this node is reached as '{}', which is not an address that a network "
                    "could hold; give it a name",
                    host));
  const NetAddress first = first_of(*network, length);
  if (own->family != first.family || first_of(*own, length).bytes != first.bytes) {
    return refuse(
        fmt::format("this node is reached at {}, which is not in that network; bind it there with "
                    "--bind, or leave the flag out",
                    host));
  }
  return fmt::format("{}/{}", text_of(first), length);
}

}  // namespace mobula::internal::worker
