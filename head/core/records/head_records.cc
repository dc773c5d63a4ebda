#include <nlohmann/json.hpp>

#include "base/text/json_writer.h"
#include "head/core/head_core.h"
#include "head/core/records/rows.h"
#include "protocol/messages/core_records_defined.h"

namespace mobula::internal::head {
namespace {

template <class Row>
void scrub_row(Bytes& value, const Scrubber& scrubber) {
  auto row = decode<Row>(value);
  if (!row) {
    // The core cannot decode it either. The replacement must stay undecodable.
    value.assign(1, std::byte{0});
    return;
  }
  scrubber.scrub(*row);
  value = encode(*row);
}

// Rows of the journal are encoded bytes. Their keys are ids.
void scrub_value(const std::string& table, Bytes& value, const Scrubber& scrubber) {
  if (table == "jobs") scrub_row<JobRow>(value, scrubber);
  if (table == "actors") scrub_row<ActorRow>(value, scrubber);
  if (table == "submissions") scrub_row<SubmissionRow>(value, scrubber);
}

// The environment of a submitted job is part of a JSON text.
void scrub_submission(std::string& text, const Scrubber& scrubber) {
  auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  const auto env = json.is_object() ? json.find("env") : json.end();
  if (!json.is_object() || env == json.end() || !env->is_object()) return;
  for (auto& [name, value] : env->items()) {
    if (!value.is_string()) continue;
    auto hidden = value.get<std::string>();
    scrubber.hide(hidden);
    value = std::move(hidden);
  }
  text = json_text(json);
}

}  // namespace

void scrub(Event& event, const Scrubber& scrubber);
void scrub(Command& command, const Scrubber& scrubber);

void scrub(Event& event, const Scrubber& scrubber) {
  if (auto* said = std::get_if<ReceivedFromTool>(&event);
      said != nullptr && said->request.verb == "submit") {
    scrub_submission(said->request.argument, scrubber);
  }
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
