// Which versions of the protocol a process speaks, and which of them two processes speak with each other. Every
// first message carries the range of its sender; two that have none in common part with a sentence. A version is
// added with what its peers of the version before could not read: a new kind of message, a field whose default would
// mislead. It is then said only to peers with whom that version was agreed. Values; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mobula::internal {

inline constexpr std::uint32_t protocol_version = 4;
inline constexpr std::uint32_t oldest_protocol_version = 2;
// The first in which agents hear of renewed tickets and of keys that are void.
inline constexpr std::uint32_t version_with_trust_news = 3;
// The first in which agents are asked for their logs, and how busy their processes are.
inline constexpr std::uint32_t version_with_node_questions = 3;
// The first in which agents are asked for the objects that have come to them, and tell of them when they end.
inline constexpr std::uint32_t version_with_stored_transfers = 4;

struct ProtocolRange {
  std::uint32_t oldest = 0;
  std::uint32_t newest = 0;

  friend bool operator==(const ProtocolRange&, const ProtocolRange&) = default;
};

// What this program speaks: the two constants above, unless it is linked to be another release, for tests.
extern const ProtocolRange own_protocol;

// As a first message says it. Releases that spoke one version alone said nothing of the oldest: 0.
ProtocolRange range_of(std::uint32_t version, std::uint32_t oldest);
// The newest that both speak; nothing where there is none.
std::optional<std::uint32_t> agreed_version(const ProtocolRange& one, const ProtocolRange& other);
// Whether this program and the sender of such a message have a version in common.
bool speaks_with(std::uint32_t version, std::uint32_t oldest);

// Why they do not, and what to do: "ProtocolMismatchError: the agent speaks protocol version 5, the head protocol
// versions 2 to 3; …". `peer` and `self` are as "the agent".
std::string protocol_mismatch(const std::string& peer, const ProtocolRange& theirs, const std::string& self);

}  // namespace mobula::internal
