#include "cli/commands/logs/event_commands.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "base/text/json_writer.h"
#include "cli/exit_code.h"
#include "cli/head_query.h"
#include "cli/output/output.h"
#include "cli/output/pager.h"
#include "cli/output/text_table.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration follow_interval = 500ms;
constexpr int events_described = 50;

Result<Json> filters_of(const CommandLine& line) {
  Json filters = Json::object();
  const EventFlags& flags = line.events;
  if (!flags.severity.empty()) filters["severity"] = flags.severity;
  if (!flags.kind.empty()) filters["kind"] = flags.kind;
  if (!flags.id.empty()) filters["id"] = flags.id;
  if (line.tail >= 0) filters["limit"] = line.tail;
  if (!flags.since.empty()) {
    const auto since = moment_of(flags.since, wall_clock_ms());
    if (!since) return since.error();
    filters["since_ms"] = *since;
  }
  return filters;
}

// Returns a short id of the first subject of an event.
std::string subject_of(const Json& event) {
  static constexpr std::array<std::pair<const char*, const char*>, 6> names{
      {{"actor_id", "actor"},
       {"placement_group_id", "group"},
       {"job_id", "job"},
       {"process_id", "process"},
       {"slot_id", "slot"},
       {"node_id", "node"}}};
  constexpr std::size_t digits = 12;
  std::string text;
  for (const auto& [member, name] : names) {
    const auto at = event.find(member);
    if (at == event.end() || !at->is_string()) continue;
    if (text.empty()) {
      text = fmt::format("{} {}", name, at->get<std::string>().substr(0, digits));
    } else if (std::string_view(name) == "node") {
      text += fmt::format(" on node {}", at->get<std::string>().substr(0, digits));
    }
  }
  return text.empty() ? "-" : text;
}

std::string by_of(const Json& event) {
  const std::string source = event.value("source", std::string());
  const std::string principal = event.value("principal", std::string());
  return principal.empty() ? source : source + " " + principal;
}

// Returns all members, or the row that `columns` of the table choose.
Result<std::string> item_text(const Json& item, const CommandLine& line) {
  if (line.table.columns.empty()) return to_yaml(item);
  return format_document(item, line.output, line.kind, style_of(line),
                         line.table.cut ? terminal_width() : 0);
}

std::string events_text(const Json& items, bool headers, bool colored) {
  TextTable table;
  table.add({"TIME", "SEVERITY", "KIND", "ABOUT", "BY", "TEXT"});
  for (const auto& each : items) {
    const auto count = each.value("count", std::int64_t{1});
    table.add(
        {each.value("time", std::string()), each.value("severity", std::string()),
         each.value("kind", std::string()), subject_of(each), by_of(each),
         each.value("text", std::string()) + (count > 1 ? fmt::format(" ({} times)", count) : "")});
  }
  const std::string text = table.text(colored);
  return headers ? text : text.substr(text.find('\n') + 1);
}

int print_events(const Json& list, const CommandLine& line, bool first) {
  if (for_people(line)) {
    std::string text =
        list["items"].empty() && !first ? "" : events_text(list["items"], first, colored(line));
    for (const auto& warning : list.value("warnings", Json::array())) {
      if (first) text += "note: " + warning.get<std::string>() + "\n";
    }
    return print_page(text, line);
  }
  return print(format_document(list, line.output, "events"));
}

// Follows until interrupted, or until stdout has no reader.
int follow(HeadQuery& query, const CommandLine& line, Json filters, Json last) {
  CommandLine lines = line;
  if (!for_people(line))
    lines.output = OutputFormat::jsonl;  // a document has an end, this has none
  if (const int code = print_events(last, lines, true); code != exit_done) return code;
  for (;;) {
    filters["after"] = last.value("next", std::uint64_t{0});
    filters["epoch"] = last.value("epoch", std::uint64_t{0});
    filters.erase("limit");
    pollfd out{STDOUT_FILENO, POLLERR, 0};
    ::poll(&out, 1, static_cast<int>(follow_interval / 1ms));
    if ((out.revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) return exit_done;
    auto more = query.request_patiently("list", "events", json_text(filters));
    if (!more) return complain(more.error());
    last = std::move(*more);
    const auto lost = last.value("lost", std::uint64_t{0});
    if (lost > 0) warn("events: arrived faster than they were read; some are not shown");
    if (last["items"].empty()) continue;
    if (const int code = print_events(last, lines, false); code != exit_done) return code;
  }
}

// Returns the id that events use for the item.
std::string id_of(const Json& item, const std::string& kind) {
  static const std::array<std::pair<std::string, const char*>, 8> members{
      {{"nodes", "node_id"},
       {"jobs", "job_id"},
       {"tasks", "task_id"},
       {"actors", "actor_id"},
       {"leases", "slot_id"},
       {"executors", "process_id"},
       {"objects", "object_id"},
       {"placement-groups", "placement_group_id"}}};
  for (const auto& [name, member] : members) {
    if (name == kind && item.contains(member) && item[member].is_string())
      return item[member].get<std::string>();
  }
  return {};
}

bool waits(const Json& item) {
  const std::string state = item.value("state", std::string());
  return state.starts_with("PENDING") || state == "RESTARTING" || state == "RESCHEDULING";
}

// Submitted jobs may be named, and have more members.
Result<Json> find_item(HeadQuery& query, const CommandLine& line) {
  auto item = query.request("get", line.kind == "jobs" ? "submission" : line.kind, line.subject);
  if (line.kind != "jobs" || item || item.error().code != ErrorCode::not_found) return item;
  return query.request("get", line.kind, line.subject);
}

}  // namespace

Result<std::int64_t> moment_of(const std::string& text, std::int64_t now_ms) {
  std::tm utc{};
  if (const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &utc); end != nullptr) {
    const std::string rest = end;
    char* after = nullptr;
    const double fraction = rest.starts_with(".") ? std::strtod(rest.c_str(), &after) : 0;
    const std::string zone = after == nullptr ? rest : std::string(after);
    if (zone.empty() || zone == "Z")
      return std::int64_t{::timegm(&utc)} * 1000 + static_cast<std::int64_t>(fraction * 1000);
  }
  char* end = nullptr;
  const double amount = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const double seconds = unit.empty() || unit == "s" ? 1
                         : unit == "m"               ? 60
                         : unit == "h"               ? 3600
                         : unit == "d"               ? 86'400
                                                     : 0;
  const bool digits = !text.empty() && text.find_first_not_of("0123456789.") ==
                                           static_cast<std::size_t>(end - text.c_str());
  const bool whole =
      !text.empty() && unit.empty() && text.find_first_not_of("0123456789.") == std::string::npos;
  if ((!digits && !whole) || end == text.c_str() || seconds == 0 || amount > 1e9) {
    return failure(
        ErrorCode::invalid_argument,
        fmt::format(
            "--since: '{}' is neither an age such as 90s, 10m, 2h, or 1d, nor a UTC time such as "
            "2026-11-24T02:33:12Z",
            text));
  }
  return now_ms - static_cast<std::int64_t>(amount * seconds * 1000);
}

int show_events(const CommandLine& line) {
  HeadQuery query(line);
  const auto filters = filters_of(line);
  if (!filters) return complain(filters.error());
  auto list = query.request("list", "events", filters->empty() ? "" : json_text(*filters));
  if (!list) return complain(list.error());
  if (line.follow) return follow(query, line, *filters, std::move(*list));
  const int code = print_events(*list, line, true);
  if (code == exit_done && is_empty_table(*list, line)) note_empty("events", line);
  return code;
}

int describe(const CommandLine& line) {
  HeadQuery query(line);
  auto item = find_item(query, line);
  if (!item) return complain(item.error());
  const std::string id = id_of(*item, line.kind);
  std::vector<std::string> warnings;
  // An item with an id that no event names has no events.
  Json events = Json::array();
  if (!id.empty()) {
    const Json filters = {{"id", id}, {"severity", "DEBUG"}, {"limit", events_described}};
    auto list = query.request("list", "events", json_text(filters));
    if (list) events = (*list)["items"];
    if (!list) warnings.push_back("events: " + list.error().text);
  }
  Json why;
  const bool explained =
      line.kind == "tasks" || line.kind == "actors" || line.kind == "placement-groups";
  if (explained && waits(*item)) {
    auto explanation = query.request("explain", "", id);
    if (explanation) why = std::move(*explanation);
    if (!explanation) warnings.push_back("explanation: " + explanation.error().text);
  }
  Json described = *item;
  for (const auto& warning : warnings) described["warnings"].push_back(warning);
  if (!for_people(line)) {
    if (!why.is_null()) described["explanation"] = why;
    described["events"] = std::move(events);
    return print(described, line);
  }
  const auto item_said = item_text(described, line);
  if (!item_said) return complain(item_said.error());
  std::string text = *item_said;
  if (!why.is_null()) text += "\nReason for waiting: " + format_explanation(why, colored(line));
  text += events.empty() ? "\nEvents: none\n"
                         : "\nEvents:\n" + events_text(events, line.table.headers, colored(line));
  return print_page(text, line);
}

}  // namespace mobula::internal::cli
