#include "protocol/version.h"

#include <fmt/format.h>

#include <algorithm>

namespace mobula::internal {
namespace {

std::string text_of(const ProtocolRange& range) {
  if (range.oldest == range.newest) return fmt::format("protocol version {}", range.newest);
  return fmt::format("protocol versions {} to {}", range.oldest, range.newest);
}

}  // namespace

ProtocolRange range_of(std::uint32_t version, std::uint32_t oldest) {
  return {oldest == 0 || oldest > version ? version : oldest, version};
}

std::optional<std::uint32_t> agreed_version(const ProtocolRange& one, const ProtocolRange& other) {
  const std::uint32_t newest = std::min(one.newest, other.newest);
  return newest >= std::max(one.oldest, other.oldest) ? std::optional(newest) : std::nullopt;
}

bool speaks_with(std::uint32_t version, std::uint32_t oldest) {
  return agreed_version(own_protocol, range_of(version, oldest)).has_value();
}

std::string protocol_mismatch(const std::string& peer, const ProtocolRange& theirs,
                              const std::string& self) {
  const bool peer_is_older = theirs.newest < own_protocol.newest;
  return fmt::format(
      "ProtocolMismatchError: {} speaks {}, {} {}; install a newer release of Mobula for {} "
      "(`mobula up "
      "CLUSTER.yaml` brings all machines to one)",
      peer, text_of(theirs), self, text_of(own_protocol), peer_is_older ? peer : self);
}

}  // namespace mobula::internal
