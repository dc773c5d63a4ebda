// Messages of every link. The first byte selects the link, and the rest is the message. A decoded
// message must encode to bytes that decode to an equal message.
#include <cstdint>
#include <cstdlib>

#include "protocol/codec/messages.h"

namespace mobula::internal {
namespace {

template <class Message>
void try_message(std::span<const std::byte> bytes) {
  const auto first = decode<Message>(bytes, {});
  if (!first) return;
  const auto second = decode<Message>(encode(*first), {});
  if (!second || encode(*second) != encode(*first)) std::abort();
  if (describe(*first).empty()) std::abort();
}

using Attempt = void (*)(std::span<const std::byte>);
constexpr Attempt attempts[] = {
    try_message<AgentToHead>,    try_message<HeadToAgent>, try_message<ProcessToAgent>,
    try_message<AgentToProcess>, try_message<CallerFrame>, try_message<ExecutorFrame>,
    try_message<PeerFrame>,      try_message<PeerHello>,   try_message<ToolRequest>,
    try_message<ToolReply>,
};

}  // namespace
}  // namespace mobula::internal

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto& attempts = mobula::internal::attempts;
  attempts[data[0] % std::size(attempts)](std::as_bytes(std::span(data + 1, size - 1)));
  return 0;
}
