// Events and commands as bytes and as text, for recordings, replays and traces. Compiled once,
// here: the codec of so many structs is dear. Value functions; any thread.
#pragma once

#include <span>
#include <string>

#include "protocol/codec.h"
#include "worker/core/worker_command.h"
#include "worker/core/worker_event.h"

namespace mobula::internal::worker {

Bytes encode_event(const Event& event);
// `corrupt` says where.
Result<Event> decode_event(std::span<const std::byte> bytes);
std::string describe_event(const Event& event);
std::string describe_command(const Command& command);

}  // namespace mobula::internal::worker
