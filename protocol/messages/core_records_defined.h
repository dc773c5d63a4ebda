// Definitions of core_records.h, for the one source per core that instantiates them. If events or
// commands of a core hold encoded values, the core declares `scrub(Event&, const Scrubber&)` and
// `scrub(Command&, const Scrubber&)` next to these types, before it instantiates.
// Thread: any.
#pragma once

#include <utility>

#include "protocol/codec/codec.h"
#include "protocol/codec/describe_value.h"
#include "protocol/messages/core_records.h"
#include "protocol/recording/recording.h"

namespace mobula::internal {

template <class T>
void scrub(T& value, const Scrubber& scrubber) {
  scrubber.scrub(value);
}

template <class Core>
Bytes CoreRecords<Core>::encode_options(const Options& options) {
  return encode(options);
}

template <class Core>
Bytes CoreRecords<Core>::recorded(const Event& event, const Scrubber& scrubber) {
  Event scrubbed = event;
  scrub(scrubbed, scrubber);
  return encode(scrubbed);
}

template <class Core>
std::vector<Bytes> CoreRecords<Core>::recorded(std::span<const Command> commands,
                                               const Scrubber& scrubber) {
  std::vector<Bytes> bytes;
  bytes.reserve(commands.size());
  for (const Command& command : commands) {
    Command scrubbed = command;
    scrub(scrubbed, scrubber);
    bytes.push_back(encode(scrubbed));
  }
  return bytes;
}

template <class Core>
auto CoreRecords<Core>::decode_options(std::span<const std::byte> bytes) -> Result<Options> {
  return decode<Options>(bytes);
}

template <class Core>
auto CoreRecords<Core>::decode_event(std::span<const std::byte> bytes) -> Result<Event> {
  return decode<Event>(bytes, recording_limits);
}

template <class Core>
auto CoreRecords<Core>::decode_command(std::span<const std::byte> bytes) -> Result<Command> {
  return decode<Command>(bytes, recording_limits);
}

template <class Core>
std::string CoreRecords<Core>::text(const Event& event) {
  return describe(event);
}

template <class Core>
std::string CoreRecords<Core>::text(const Command& command) {
  return describe(command);
}

}  // namespace mobula::internal
