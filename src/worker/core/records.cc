#include "worker/core/records.h"

#include "protocol/messages.h"
#include "protocol/recording.h"

namespace mobula::internal::worker {

Bytes encode_options(const WorkerOptions& options) { return encode(options); }

Result<WorkerOptions> decode_options(std::span<const std::byte> bytes) {
  return decode<WorkerOptions>(bytes);
}

Bytes recorded_event(const Event& event, const Scrubber& scrubber) {
  Event scrubbed = event;
  scrubber.scrub(scrubbed);
  return encode(scrubbed);
}

std::vector<Bytes> recorded_commands(std::span<const Command> commands, const Scrubber& scrubber) {
  std::vector<Bytes> recorded;
  recorded.reserve(commands.size());
  for (const Command& command : commands) {
    Command scrubbed = command;
    scrubber.scrub(scrubbed);
    recorded.push_back(encode(scrubbed));
  }
  return recorded;
}

Result<Event> decode_event(std::span<const std::byte> bytes) {
  return decode<Event>(bytes, recording_limits);
}

Result<Command> decode_command(std::span<const std::byte> bytes) {
  return decode<Command>(bytes, recording_limits);
}

std::string describe_event(const Event& event) { return describe(event); }

std::string describe_command(const Command& command) { return describe(command); }

}  // namespace mobula::internal::worker
