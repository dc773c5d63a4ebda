#include "worker/core/records.h"

#include "protocol/messages.h"

namespace mobula::internal::worker {

Bytes encode_event(const Event& event) { return encode(event); }

Result<Event> decode_event(std::span<const std::byte> bytes) { return decode<Event>(bytes); }

std::string describe_event(const Event& event) { return describe(event); }

std::string describe_command(const Command& command) { return describe(command); }

}  // namespace mobula::internal::worker
