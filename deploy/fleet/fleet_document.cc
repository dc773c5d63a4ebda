#include "deploy/fleet/fleet_document.h"

#include <fmt/format.h>

namespace mobula::internal::fleet {
namespace {

using Json = nlohmann::ordered_json;

std::string span_text(Duration span) {
  const auto seconds = span / 1s;
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 7200) return fmt::format("{} min", seconds / 60);
  return fmt::format("{} h", seconds / 3600);
}

std::int64_t of(const TypeStatus& status, InstanceState state) {
  return status.instances.at(static_cast<std::size_t>(state));
}

}  // namespace

std::string line_of(const FleetReport& report) {
  std::string counts;
  std::string closed;
  for (const auto& each : report.types) {
    const auto add = [&](std::int64_t count, const std::string& what) {
      if (count == 0) return;
      counts += fmt::format("{}{} of {} {}", counts.empty() ? "" : ", ", count, each.type, what);
    };
    const auto starting = of(each, InstanceState::requested) + of(each, InstanceState::accepted) +
                          of(each, InstanceState::starting);
    add(starting, fmt::format("starting (oldest {}{}{})", span_text(each.oldest_start),
                              each.pending_reason.empty() ? "" : ": ", each.pending_reason));
    add(of(each, InstanceState::draining), "draining");
    add(of(each, InstanceState::ending), "ending");
    if (each.closed.empty()) continue;
    closed += fmt::format("; {} {}: {}", each.type,
                          each.closed_for ? "closed for " + span_text(*each.closed_for) : "paused",
                          each.closed);
  }
  std::string line = counts + closed;
  if (line.starts_with("; ")) line.erase(0, 2);
  if (!report.waits_for.empty()) {
    line = "waits: " + report.waits_for + (line.empty() ? "" : "; " + line);
  }
  return line.empty() ? "idle" : line;
}

Json document_of(const FleetReport& report, const std::vector<RecordEvent>& events) {
  Json json = {{"line", line_of(report)}, {"waits_for", report.waits_for}};
  json["types"] = Json::array();
  for (const auto& each : report.types) {
    Json row = {{"type", each.type}, {"instances", Json::object()}};
    for (std::size_t i = 0; i < instance_states; ++i) {
      row["instances"][std::string(to_string(static_cast<InstanceState>(i)))] =
          each.instances.at(i);
    }
    row["oldest_start_s"] = each.oldest_start / 1s;
    row["pending_reason"] = each.pending_reason;
    row["closed"] = each.closed;
    row["closed_for_s"] = each.closed_for ? Json(*each.closed_for / 1s) : Json(nullptr);
    row["failures"] = Json::object();
    for (const auto& [kind, count] : each.failures) {
      row["failures"][std::string(to_string(kind))] = count;
    }
    json["types"].push_back(std::move(row));
  }
  json["waits"] = Json::array();
  for (const auto& each : report.waits) {
    const std::string reason = each.starting.empty()
                                   ? each.why
                                   : fmt::format("a node of {} is starting for it, since {}",
                                                 each.starting, span_text(each.since));
    const std::string whole = reason + each.lacks;
    json["waits"].push_back({{"id", each.group.empty() ? each.class_id.hex() : each.group.hex()},
                             {"reason", whole},
                             {"never", each.never}});
  }
  json["events"] = Json::array();
  for (const auto& each : events) {
    json["events"].push_back({{"kind", each.kind}, {"text", each.text}});
  }
  return json;
}

}  // namespace mobula::internal::fleet
