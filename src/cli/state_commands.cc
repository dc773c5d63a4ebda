#include "cli/state_commands.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "cli/asker.h"
#include "cli/exit_code.h"
#include "cli/filters.h"
#include "cli/output.h"
#include "cli/screen.h"
#include "cli/watch_page.h"
#include "protocol/tool_documents.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr Duration drain_ends_within = 5s;
constexpr Duration drain_interval = 200ms;

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
  const Filters filters = named_as_fields(line.kind, line.filters);
  auto answer = asker.ask("list", line.kind, filters_for_owners(line.kind, filters));
  if (!answer) return complain(answer.error());
  list = std::move(answer).value();
  if (auto known = check_filters(line.kind, filters, list["items"]); !known) return complain(known.error());
  keep_matching(list, filters);
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
  auto item = asker.ask("get", line.kind, line.subject);
  // A submitted job also by its name, and when it is over.
  if (!item && line.kind == "jobs" && item.error().code == ErrorCode::not_found) {
    item = asker.ask("get", "submission", line.subject);
  }
  if (!item) return complain(item.error());
  // A table of one row says too little of the one thing that was asked for.
  if (line.output == OutputFormat::table) return print(to_yaml(*item));
  return print(*item, line);
}

int summarise(const CommandLine& line) {
  Asker asker(line);
  std::vector<std::pair<std::string, Json>> lists;
  for (const char* kind : {"nodes", "jobs", "actors", "leases", "executors", "placement-groups", "tasks"}) {
    auto list = asker.ask("list", kind);
    if (!list) return complain(list.error());
    lists.emplace_back(kind, std::move(list).value());
  }
  const auto status = asker.ask("status");
  if (!status) return complain(status.error());
  const Json summary = summary_of(lists, *status);
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
