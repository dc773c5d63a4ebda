#include "head/core/head_core.h"
#include "head/core/rows.h"
#include "protocol/core_records_defined.h"

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

}  // namespace

void scrub(Event& event, const Scrubber& scrubber);
void scrub(Command& command, const Scrubber& scrubber);

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

}  // namespace mobula::internal::head

namespace mobula::internal {

template struct CoreRecords<head::HeadCore>;

}  // namespace mobula::internal
