#include "head/core/records.h"

#include "head/core/rows.h"
#include "protocol/messages.h"
#include "protocol/recording.h"

namespace mobula::internal::head {
namespace {

template <class Row>
void scrub_row(Bytes& value, const Scrubber& scrubber) {
  auto row = decode<Row>(value);
  if (!row) {
    // The core cannot read it either; it must not be able to read what is written in its place.
    value.assign(1, std::byte{0});
    return;
  }
  scrubber.scrub(*row);
  value = encode(*row);
}

// Rows of the journal travel encoded; their keys are ids.
void scrub_value(const std::string& table, Bytes& value, const Scrubber& scrubber) {
  if (table == "jobs") scrub_row<JobRow>(value, scrubber);
  if (table == "actors") scrub_row<ActorRow>(value, scrubber);
}

void scrub(Event& event, const Scrubber& scrubber) {
  auto* started = std::get_if<Started>(&event);
  if (started == nullptr) return scrubber.scrub(event);
  for (JournalRow& row : started->rows) scrub_value(row.table, row.value, scrubber);
}

void scrub(Command& command, const Scrubber& scrubber) {
  auto* persist = std::get_if<Persist>(&command);
  if (persist == nullptr) return scrubber.scrub(command);
  for (JournalChange& change : persist->changes) {
    if (!change.erase) scrub_value(change.table, change.value, scrubber);
  }
}

}  // namespace

Bytes encode_options(const HeadOptions& options) { return encode(options); }

Result<HeadOptions> decode_options(std::span<const std::byte> bytes) {
  return decode<HeadOptions>(bytes);
}

Bytes recorded_event(const Event& event, const Scrubber& scrubber) {
  Event scrubbed = event;
  scrub(scrubbed, scrubber);
  return encode(scrubbed);
}

std::vector<Bytes> recorded_commands(std::span<const Command> commands, const Scrubber& scrubber) {
  std::vector<Bytes> recorded;
  recorded.reserve(commands.size());
  for (const Command& command : commands) {
    Command scrubbed = command;
    scrub(scrubbed, scrubber);
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

}  // namespace mobula::internal::head
