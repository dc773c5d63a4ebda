// Options, events and commands as bytes and as text, for recordings, replays and traces. Compiled
// once, here: the codec of so many structs is dear. Value functions; any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "head/core/inputs.h"
#include "head/core/options.h"
#include "head/core/outputs.h"
#include "protocol/msgpack_stream.h"
#include "protocol/scrub.h"

namespace mobula::internal::head {

Bytes encode_options(const HeadOptions& options);
Result<HeadOptions> decode_options(std::span<const std::byte> bytes);

// As a recording holds them: see protocol/scrub.h for what is left out.
Bytes recorded_event(const Event& event, const Scrubber& scrubber);
std::vector<Bytes> recorded_commands(std::span<const Command> commands, const Scrubber& scrubber);

// `corrupt` says where.
Result<Event> decode_event(std::span<const std::byte> bytes);
Result<Command> decode_command(std::span<const std::byte> bytes);
std::string describe_event(const Event& event);
std::string describe_command(const Command& command);

}  // namespace mobula::internal::head
