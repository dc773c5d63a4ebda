// Encodes and prints the options, events, and commands of one core, for recordings, replays, and
// traces. A core is a class with the types Options, Event, and Command. The codec of many structs
// compiles slowly, so each core compiles it once, in its records.cc, from core_records_defined.h.
// Thread: any.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "protocol/codec/msgpack_stream.h"
#include "protocol/recording/scrub.h"

namespace mobula::internal {

template <class Core>
struct CoreRecords {
  using Options = typename Core::Options;
  using Event = typename Core::Event;
  using Command = typename Core::Command;

  static Bytes encode_options(const Options& options);
  // Bytes for a recording; scrub.h defines the removed parts.
  static Bytes recorded(const Event& event, const Scrubber& scrubber);
  static std::vector<Bytes> recorded(std::span<const Command> commands, const Scrubber& scrubber);

  // Errors: `corrupt` with the position.
  static Result<Options> decode_options(std::span<const std::byte> bytes);
  static Result<Event> decode_event(std::span<const std::byte> bytes);
  static Result<Command> decode_command(std::span<const std::byte> bytes);

  static std::string text(const Event& event);
  static std::string text(const Command& command);
};

}  // namespace mobula::internal
