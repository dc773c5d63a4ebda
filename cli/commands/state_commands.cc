#include "cli/commands/state_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "cli/exit_code.h"
#include "cli/filters.h"
#include "cli/head_query.h"
#include "cli/output/output.h"
#include "cli/output/pager.h"
#include "cli/output/screen.h"
#include "cli/output/watch_page.h"
#include "protocol/messages/tool_documents.h"
#include "protocol/tickets/token.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

// Returns the page or the fault; a restarting head returns later.
std::string page_of(HeadQuery& query, std::size_t rows, bool colored) {
  auto status = query.request("status");
  if (!status) return "mobula: " + status.error().text + "\n";
  Json nodes, leases;
  if (status->contains("gpus") && !(*status)["gpus"].empty()) {
    if (auto list = query.request("list", "nodes")) nodes = std::move(*list);
    if (auto list = query.request("list", "leases")) leases = std::move(*list);
  }
  return format_watch(*status, nodes, leases, rows / 3, colored);
}

int watch_status(HeadQuery& query, const CommandLine& line) {
  std::string shown;
  std::size_t rows = 0;
  return watch_on_screen(line.watch_seconds, [&](const Screen& screen, char) {
    const bool resized = std::exchange(rows, screen.rows()) != screen.rows();
    if (!shown.empty() && !query.changed() && !resized) return shown;
    shown = page_of(query, rows, colored(line));
    if (shown.starts_with("mobula: ")) query.forget();
    return shown;
  });
}

}  // namespace

int show_status(const CommandLine& line) {
  HeadQuery query(line);
  for (bool first = true;; first = false) {
    const auto status = query.request("status");
    if (!status && first) return complain(status.error());
    if (line.watch && for_people(line) && output_is_screen()) return watch_status(query, line);
    int code = exit_done;
    if (status) {
      code =
          for_people(line)
              ? print_page(format_status(*status, colored(line)) + (line.watch ? "\n" : ""), line)
              : print(*status, line);
    } else {
      complain(status.error());
      query.forget();
    }
    if (!line.watch || code != exit_done) return code;
    pause(Duration(static_cast<std::int64_t>(line.watch_seconds * 1e9)));
  }
}

namespace {

constexpr std::int64_t usual_rows = 100;

void retain_with_labels(Json& list, const Labels& wanted) {
  if (wanted.empty() || !list.contains("items")) return;
  Json retained = Json::array();
  for (auto& item : list["items"]) {
    const Json labels = item.value("labels", Json::object());
    const bool has = std::ranges::all_of(wanted, [&](const auto& each) {
      const auto at = labels.find(each.first);
      return at != labels.end() && *at == Json(each.second);
    });
    if (has) retained.push_back(std::move(item));
  }
  list["items"] = std::move(retained);
}

void in_order_of_submission(Json& items) {
  std::stable_sort(items.begin(), items.end(), [](const Json& a, const Json& b) {
    return a.value("submitted_ms", std::int64_t{0}) < b.value("submitted_ms", std::int64_t{0});
  });
}

// A list of tasks is a sample: owners send only as many as are shown. A local filter or order needs
// all of them.
std::optional<std::int64_t> rows_wanted(const CommandLine& line, const Filters& filters) {
  if (line.limit >= 0) return line.limit;
  const bool by_owners = std::ranges::all_of(
      filters, [&](const auto& each) { return owners_apply(line.kind, each.first, each.second); });
  if (!by_owners || !line.labels.empty() || !line.table.sort_by.empty()) return std::nullopt;
  return usual_rows;
}

Result<Json> list_of(HeadQuery& query, const CommandLine& line) {
  const Filters filters = named_as_fields(line.kind, line.filters);
  if (line.limit >= 0 && line.kind != "tasks") {
    return failure(ErrorCode::invalid_argument,
                   "--limit: only for tasks; " + line.kind + " are listed completely");
  }
  const auto rows = line.kind == "tasks" ? rows_wanted(line, filters) : std::nullopt;
  auto list = query.request(
      "list", line.kind, filters_for_owners(line.kind, filters, rows ? std::to_string(*rows) : ""));
  // Heads of earlier releases have no limit.
  if (!list && rows && line.limit < 0 && list.error().code == ErrorCode::invalid_argument) {
    list = query.request("list", line.kind, filters_for_owners(line.kind, filters));
  }
  // They also lack some member names; this program then filters their list.
  const auto is_newer = [](const auto& filter) {
    return filter.first == "node_id" || filter.first == "object_id";
  };
  if (!list && line.kind == "transfers" && list.error().code == ErrorCode::invalid_argument &&
      std::ranges::any_of(filters, is_newer)) {
    Filters older = filters;
    std::erase_if(older, is_newer);
    if (auto again = query.request("list", line.kind, filters_for_owners(line.kind, older)))
      list = std::move(again);
  }
  if (!list) return list.error();
  if (line.kind == "submissions") in_order_of_submission((*list)["items"]);
  if (auto known = check_filters(line.kind, filters, (*list)["items"]); !known)
    return known.error();
  retain_matching(*list, filters);
  retain_with_labels(*list, line.labels);
  return list;
}

}  // namespace

int list_items(const CommandLine& line) {
  HeadQuery query(line);
  const auto on_screen = [&](const Screen&, char) {
    auto list = list_of(query, line);
    if (!list) query.forget();
    const auto text =
        list ? format_document(std::move(*list), line.output, line.kind, style_of(line), 0)
             : list.error();
    return text ? *text : "mobula: " + text.error().text + "\n";
  };
  for (;;) {
    auto list = list_of(query, line);
    if (!list) return complain(list.error());
    if (line.watch && for_people(line) && output_is_screen())
      return watch_on_screen(line.watch_seconds, on_screen);
    const bool empty = is_empty_table(*list, line);
    const int code = print(std::move(*list), line);
    if (empty && code == exit_done)
      note_empty(line.kind == "submissions" ? "submitted jobs" : line.kind, line);
    if (!line.watch || code != exit_done) return code;
    pause(Duration(static_cast<std::int64_t>(line.watch_seconds * 1e9)));
  }
}

int show_memory(const CommandLine& line) {
  HeadQuery query(line);
  auto report = query.request("list", "memory");
  if (!report) return complain(report.error());
  const bool page = for_people(line) && line.table.columns.empty() && line.table.sort_by.empty();
  return page ? print_page(format_memory(*report, colored(line)), line)
              : print(std::move(*report), line, "memory");
}

int show_page(const CommandLine& line) {
  HeadQuery query(line);
  const auto status = query.request("status");
  if (!status) return complain(status.error());
  const Json http = status->value("http", Json::object());
  const std::string url = http.value("url", std::string());
  if (url.empty()) {
    return complain(failure(ErrorCode::unavailable,
                            "page: the head serves no HTTP pages; start it with --http PORT"));
  }
  // The head names the file, so only a token of this head is printed. Else the page prompts.
  const std::string file = http.value("token_file", std::string());
  std::string token;
  std::getline(std::ifstream(file), token);
  const auto parsed = parse_token(token);
  if (!parsed || parsed->address != status->value("address", std::string())) {
    token.clear();
    warn(
        fmt::format("read {}: no access to the token on this machine; the page prompts for a token "
                    "of `mobula token create --role observer`",
                    file));
  }
  const std::string link = url + "/" + (token.empty() ? "" : "#" + token);
  if (!for_people(line)) {
    return print(Json{{"apiVersion", "mobula/v1"}, {"kind", "Page"}, {"url", url}, {"link", link}},
                 line);
  }
  return print(link + "\n");
}

int get_item(const CommandLine& line) {
  HeadQuery query(line);
  auto item = query.request("get", line.kind, line.subject);
  // Submitted jobs are also found by name, and after their end.
  if (!item && line.kind == "jobs" && item.error().code == ErrorCode::not_found) {
    item = query.request("get", "submission", line.subject);
  }
  if (!item) return complain(item.error());
  // A one-row table shows too little of a single item, unless the user names columns.
  if (line.output == OutputFormat::table && line.table.columns.empty())
    return print_page(to_yaml(*item), line);
  return print(*item, line);
}

int summarise(const CommandLine& line) {
  HeadQuery query(line);
  std::vector<std::pair<std::string, Json>> lists;
  for (const char* kind :
       {"nodes", "jobs", "actors", "leases", "executors", "placement-groups", "task-counts"}) {
    auto list = query.request("list", kind);
    // Heads of earlier releases do not count tasks; this program counts them.
    if (!list && list.error().code == ErrorCode::invalid_argument &&
        kind == std::string("task-counts")) {
      kind = "tasks";
      list = query.request("list", kind);
    }
    if (!list) return complain(list.error());
    lists.emplace_back(kind, std::move(list).value());
  }
  const auto status = query.request("status");
  if (!status) return complain(status.error());
  return print(summary_of(lists, *status), line, "summary");
}

int explain(const CommandLine& line) {
  HeadQuery query(line);
  const auto explanation = query.request("explain", "", line.subject);
  if (!explanation) return complain(explanation.error());
  const int code = for_people(line)
                       ? print_page(format_explanation(*explanation, colored(line)), line)
                       : print(*explanation, line);
  if (code != exit_done) return code;
  return explanation->value("feasible", true) ? exit_done : exit_never_scheduled;
}

}  // namespace mobula::internal::cli
