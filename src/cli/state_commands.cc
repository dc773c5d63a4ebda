#include "cli/state_commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <set>

#include "cli/asker.h"
#include "cli/exit_code.h"
#include "cli/output.h"
#include "cli/screen.h"
#include "cli/watch_page.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration drain_ends_within = 5s;
constexpr Duration drain_interval = 200ms;

// "labels.zone": a member of a member. As text, so that any value can be compared.
std::string member_text(const Json& item, const std::string& path) {
  const Json* at = &item;
  for (std::size_t from = 0; from <= path.size();) {
    const auto dot = std::min(path.find('.', from), path.size());
    const auto found = at->is_object() ? at->find(path.substr(from, dot - from)) : at->end();
    if (!at->is_object() || found == at->end()) {
      // Names of labels have dots themselves: the rest may be one name.
      if (at->is_object() && at->contains(path.substr(from))) {
        const Json& rest = (*at)[path.substr(from)];
        return rest.is_string() ? rest.get<std::string>() : rest.dump();
      }
      return {};
    }
    at = &*found;
    from = dot + 1;
  }
  return at->is_string() ? at->get<std::string>() : at->dump();
}

bool matches(const Json& item, const CommandLine& line) {
  for (const auto& [path, wanted] : line.filters) {
    if (member_text(item, path) != wanted) return false;
  }
  return true;
}

// Filters of tasks and transfers that the processes asked apply: what is left out for its number is then of those alone.
std::string filters_for_owners(const CommandLine& line) {
  static const std::map<std::string, std::set<std::string>> known{{"tasks", {"state", "name", "job_id"}},
                                                                  {"transfers", {"state", "path", "job_id"}}};
  Json filters = Json::object();
  if (const auto names = known.find(line.kind); names != known.end()) {
    for (const auto& [path, wanted] : line.filters) {
      if (names->second.contains(path)) filters[path] = wanted;
    }
  }
  return filters.empty() ? "" : filters.dump();
}

// The whole id of a node whose beginning was given.
Result<std::string> node_id_of(Asker& asker, const std::string& given) {
  auto node = asker.ask("get", "node", given);
  if (!node) return node.error();
  return node->value("node_id", given);
}

}  // namespace

namespace {

// The page, or why there is none: a head that is away comes back.
std::string page_of(Asker& asker, std::size_t rows) {
  auto status = asker.ask("status");
  if (!status) return "mobula: " + status.error().text + "\n";
  Json nodes, leases;
  if (status->contains("gpus") && !(*status)["gpus"].empty()) {
    if (auto list = asker.ask("list", "nodes")) nodes = std::move(*list);
    if (auto list = asker.ask("list", "leases")) leases = std::move(*list);
  }
  return format_watch(*status, nodes, leases, rows / 3);
}

int watch_on_screen(Asker& asker, const CommandLine& line) {
  Screen screen;
  const auto span = Duration(static_cast<std::int64_t>(line.watch_seconds * 1e9));
  for (;;) {
    const std::string page = page_of(asker, screen.rows());
    if (!screen.draw(page)) return exit_failed;
    if (page.starts_with("mobula: ")) asker.forget();
    if (!screen.wait(span)) return exit_interrupted;
  }
}

}  // namespace

int show_status(const CommandLine& line) {
  Asker asker(line);
  for (bool first = true;; first = false) {
    const auto status = asker.ask("status");
    if (!status && first) return complain(status.error());
    if (line.watch && for_people(line) && ::isatty(STDOUT_FILENO) == 1) return watch_on_screen(asker, line);
    int code = exit_done;
    if (status) {
      code = for_people(line) ? print(format_status(*status) + (line.watch ? "\n" : "")) : print(*status, line);
    } else {
      complain(status.error());
      asker.forget();
    }
    if (!line.watch || code != exit_done) return code;
    pause(Duration(static_cast<std::int64_t>(line.watch_seconds * 1e9)));
  }
}

int list_items(const CommandLine& line) {
  Json list;
  Asker asker(line);
  auto answer = asker.ask("list", line.kind, filters_for_owners(line));
  if (!answer) return complain(answer.error());
  list = std::move(answer).value();
  if (!line.filters.empty()) {
    Json kept = Json::array();
    for (auto& item : list["items"]) {
      if (matches(item, line)) kept.push_back(std::move(item));
    }
    list["items"] = std::move(kept);
  }
  return print(list, line);
}

int show_memory(const CommandLine& line) {
  Asker asker(line);
  const auto report = asker.ask("list", "memory");
  if (!report) return complain(report.error());
  return for_people(line) ? print(format_memory(*report)) : print(*report, line);
}

int get_item(const CommandLine& line) {
  Asker asker(line);
  const auto item = asker.ask("get", line.kind, line.subject);
  if (!item) return complain(item.error());
  // A table of one row says too little of the one thing that was asked for.
  if (line.output == OutputFormat::table) return print(to_yaml(*item));
  return print(*item, line);
}

int summarise(const CommandLine& line) {
  Asker asker(line);
  Json items = Json::array();
  for (const char* kind : {"nodes", "jobs", "actors", "leases", "executors", "placement-groups", "tasks"}) {
    const auto list = asker.ask("list", kind);
    if (!list) return complain(list.error());
    std::map<std::string, std::int64_t> states;
    const bool counted = list->contains("counts");  // tasks: more than are listed
    for (const auto& item : (*list)[counted ? "counts" : "items"]) {
      states[item.value("state", std::string("UNKNOWN"))] += item.value("count", std::int64_t{1});
    }
    for (const auto& [state, count] : states) {
      items.push_back({{"kind", kind}, {"state", state}, {"count", count}});
    }
  }
  // How many there were by each path, since most are forgotten.
  const auto status = asker.ask("status");
  if (!status) return complain(status.error());
  for (const auto& each : status->value("transfers", Json::array())) {
    items.push_back({{"kind", "transfers"}, {"state", each["path"]}, {"count", each["transfers"]}});
  }
  const Json summary = {{"apiVersion", "mobula/v1"},
                        {"kind", "Summary"},
                        {"items", std::move(items)},
                        {"warnings", Json::array()}};
  return print(format_document(summary, line.output, "summary"));
}

int explain(const CommandLine& line) {
  Asker asker(line);
  const auto explanation = asker.ask("explain", "", line.subject);
  if (!explanation) return complain(explanation.error());
  const int code =
      for_people(line) ? print(format_explanation(*explanation)) : print(*explanation, line);
  if (code != exit_done) return code;
  return explanation->value("feasible", true) ? exit_done : exit_never_scheduled;
}

int drain(const CommandLine& line) {
  Asker asker(line);
  const auto node = node_id_of(asker, line.subject);
  if (!node) return complain(node.error());
  const auto within = Duration(static_cast<std::int64_t>(line.seconds * 1e9));
  const auto drained = asker.ask(
      "drain",
      line.seconds < 0
          ? ""
          : fmt::format("{}", std::chrono::duration_cast<std::chrono::milliseconds>(within).count()),
      *node);
  if (!drained) return complain(drained.error());
  // At the deadline the head ends what is left; that takes a moment.
  const Time deadline = monotonic_now() + within + drain_ends_within;
  for (;;) {
    const auto leases = asker.ask("list", "leases");
    if (!leases) return complain(leases.error());
    std::int64_t left = 0;
    for (const auto& lease : (*leases)["items"])
      left += lease.value("node_id", std::string()) == *node ? 1 : 0;
    if (left == 0 || line.seconds < 0) {
      if (!for_people(line)) return print(*drained, line);
      return print(
          fmt::format("node {} takes no more work; {} leases are left on it\n", *node, left));
    }
    if (monotonic_now() >= deadline) {
      return complain(
          failure(ErrorCode::timed_out,
                  fmt::format("node {} still has {} leases, though those left after {} s were "
                              "told to end; look at `mobula list leases` and the agent's log",
                              *node, left, line.seconds)));
    }
    pause(drain_interval);
  }
}

}  // namespace mobula::internal::cli
