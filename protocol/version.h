// Protocol versions of a process, and the version that two processes share. Every first message
// carries the range of its sender; peers without a common version reject each other.
// Thread: any.
// Not: fields that an older peer can ignore. A version is added for a message or field that an
// older peer would misread. It is used only with peers that agreed on that version.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mobula::internal {

inline constexpr std::uint32_t protocol_version = 5;
inline constexpr std::uint32_t oldest_protocol_version = 2;
// The first version in which agents learn of renewed tickets and revoked keys.
inline constexpr std::uint32_t version_with_trust_news = 3;
// The first version in which agents are queried for logs and for the load of their processes.
inline constexpr std::uint32_t version_with_node_questions = 3;
// The first version in which agents are queried for transfers of objects, and report them before
// they exit.
inline constexpr std::uint32_t version_with_stored_transfers = 4;
// The first version in which owners report the use of their classes.
inline constexpr std::uint32_t version_with_class_use = 5;

struct ProtocolRange {
  std::uint32_t oldest = 0;
  std::uint32_t newest = 0;

  friend bool operator==(const ProtocolRange&, const ProtocolRange&) = default;
};

// The two constants above, unless a test links another release.
extern const ProtocolRange own_protocol;

// Range in a first message. Releases with a single version sent no `oldest`: 0.
ProtocolRange range_of(std::uint32_t version, std::uint32_t oldest);
// The newest common version; empty if none exists.
std::optional<std::uint32_t> agreed_version(const ProtocolRange& one, const ProtocolRange& other);
// Returns true if this program and the sender of such a message have a common version.
bool speaks_with(std::uint32_t version, std::uint32_t oldest);

// The mismatch and its remedy: "ProtocolMismatchError: the agent speaks protocol version 5, the
// head protocol versions 2 to 3; …". `peer` and `self` are names such as "the agent".
std::string protocol_mismatch(const std::string& peer, const ProtocolRange& theirs,
                              const std::string& self);

}  // namespace mobula::internal
