#include "head/core/view/event_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>

#include "head/core/query/id_prefix.h"
#include "head/core/view/documents.h"

namespace mobula::internal::head {
namespace {

struct Filters {
  Severity severity = Severity::info;
  std::string kind;
  bool kind_begins = false;
  std::int64_t since_ms = 0;
  std::uint64_t after = 0;
  std::uint64_t epoch = 0;
  std::string id;
  std::uint64_t limit = 0;
};

Failure wrong_filter(const std::string& name, const std::string& rule) {
  return failure(ErrorCode::invalid_argument, fmt::format("events: {} {}", name, rule));
}

Result<Severity> severity_of(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const auto each : {Severity::debug, Severity::info, Severity::warning, Severity::error}) {
    if (text == to_string(each)) return each;
  }
  return wrong_filter("severity",
                      fmt::format("'{}' is not one of DEBUG, INFO, WARNING, ERROR", text));
}

Result<void> read_text(const std::string& name, const std::string& value, Filters& to) {
  if (name == "severity") {
    const auto severity = severity_of(value);
    if (!severity) return severity.error();
    to.severity = *severity;
  } else if (name == "kind") {
    to.kind = value;
    for (char& c : to.kind) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    to.kind_begins = !to.kind.empty() && to.kind.back() == '*';
    if (to.kind_begins) {
      to.kind.pop_back();
    } else {
      to.kind = present_kind(to.kind);
    }
  } else if (name == "id") {
    if (value.size() < shortest_id_prefix) return wrong_filter("id", "has at least four digits");
    to.id = value;
  } else {
    return wrong_filter(name, "is not known, or no text");
  }
  return {};
}

Result<void> read_number(const std::string& name, std::int64_t value, Filters& to) {
  if (value < 0) return wrong_filter(name, "is not negative");
  const auto whole = static_cast<std::uint64_t>(value);
  if (name == "since_ms") {
    to.since_ms = value;
  } else if (name == "after") {
    to.after = whole;
  } else if (name == "epoch") {
    to.epoch = whole;
  } else if (name == "limit") {
    to.limit = whole;
  } else {
    return wrong_filter(name, "is not known, or no number");
  }
  return {};
}

Result<Filters> filters_of(const std::string& text) {
  Filters filters;
  if (text.empty()) return filters;
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return wrong_filter("filters", "are a JSON object");
  for (const auto& [name, value] : json.items()) {
    Result<void> read = wrong_filter(name, "is neither text nor a whole number");
    if (value.is_string()) read = read_text(name, value.get<std::string>(), filters);
    if (value.is_number_integer()) read = read_number(name, value.get<std::int64_t>(), filters);
    if (!read) return read.error();
  }
  return filters;
}

bool is_of_kind(std::string_view kind, const Filters& filters) {
  return filters.kind_begins ? kind.starts_with(filters.kind)
                             : filters.kind.empty() || kind == filters.kind;
}

// Rejects a kind that no event can have. Rows may have kinds of another release.
Result<void> check_kind(const Filters& filters, const EventLog& events) {
  if (std::ranges::any_of(event_kinds,
                          [&](std::string_view each) { return is_of_kind(each, filters); }))
    return {};
  if (std::ranges::any_of(events.rows(),
                          [&](const EventRow* row) { return is_of_kind(row->kind, filters); }))
    return {};
  return wrong_filter(
      "kind", fmt::format("'{}{}' is not one of {}", filters.kind, filters.kind_begins ? "*" : "",
                          fmt::join(event_kinds, ", ")));
}

bool is_about(const EventRow& row, const std::string& beginning) {
  const auto begins = [&](const auto& id) {
    return !id.empty() && id.hex().starts_with(beginning);
  };
  const EventSubjects& about = row.about;
  return begins(about.node) || begins(about.job) || begins(about.actor) || begins(about.group) ||
         begins(about.process) || begins(about.slot);
}

bool matches(const EventRow& row, const Filters& filters, std::uint64_t after) {
  if (row.severity < filters.severity || row.last_ms < filters.since_ms || row.number <= after)
    return false;
  if (!is_of_kind(row.kind, filters)) return false;
  return filters.id.empty() || is_about(row, filters.id);
}

Json item_json(const EventRow& row) {
  return {{"event_id", fmt::format("{}", row.number)},
          {"time", utc_text(row.at_ms)},
          {"time_ms", row.at_ms},
          {"severity", to_string(row.severity)},
          {"kind", row.kind},
          {"source", row.source},
          {"principal", row.principal},
          {"node_id", id_json(row.about.node)},
          {"job_id", id_json(row.about.job)},
          {"actor_id", id_json(row.about.actor)},
          {"placement_group_id", id_json(row.about.group)},
          {"process_id", id_json(row.about.process)},
          {"slot_id", id_json(row.about.slot)},
          {"count", row.count},
          {"last_ms", row.last_ms},
          {"last_at", utc_text(row.last_ms)},
          {"text", row.text}};
}

}  // namespace

Json utc_or_null(std::int64_t wall_ms) {
  return wall_ms == 0 ? Json(nullptr) : Json(utc_text(wall_ms));
}

std::string utc_text(std::int64_t wall_ms) {
  const std::chrono::sys_time<std::chrono::milliseconds> at{std::chrono::milliseconds(wall_ms)};
  const auto day = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date(day);
  const std::int64_t ms = (at - day).count();
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     ms / 3'600'000, ms / 60'000 % 60, ms / 1000 % 60, ms % 1000);
}

Result<std::string> events_json(const HeadTables& tables, const std::string& text) {
  const auto filters = filters_of(text);
  if (!filters) return filters.error();
  const EventLog& events = tables.events;
  if (auto known = check_kind(*filters, events); !known) return known.error();
  // The events that another epoch numbered after its last write are unknown here, and this epoch
  // reuses their numbers.
  const bool of_another = filters->epoch != 0 && filters->epoch != tables.epoch;
  const std::uint64_t after =
      of_another ? std::min(filters->after, events.restored_through()) : filters->after;
  std::vector<const EventRow*> chosen;
  for (const EventRow* row : events.rows()) {
    if (matches(*row, *filters, after)) chosen.push_back(row);
  }
  const std::uint64_t limit = filters->limit > 0
                                  ? std::min(filters->limit, tables.options.max_listed)
                                  : tables.options.max_listed;
  const std::size_t left_out = chosen.size() > limit ? chosen.size() - limit : 0;
  Json json = document("EventList");
  json["items"] = Json::array();
  for (std::size_t i = left_out; i < chosen.size(); ++i)
    json["items"].push_back(item_json(*chosen[i]));
  json["next"] = events.last();
  json["epoch"] = tables.epoch;
  const bool loses = after < events.forgotten_through();
  json["lost"] = loses ? events.forgotten() : 0;
  json["warnings"] = Json::array();
  if (left_out > 0)
    json["warnings"].push_back(fmt::format("{} earlier events are left out", left_out));
  if (loses) {
    json["warnings"].push_back(
        fmt::format("{} events of this head are forgotten, the last of them event {}",
                    events.forgotten(), events.forgotten_through()));
  }
  return json_text(json);
}

}  // namespace mobula::internal::head
