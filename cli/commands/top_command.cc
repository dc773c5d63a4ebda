#include "cli/commands/top_command.h"

#include <algorithm>

#include "cli/exit_code.h"
#include "cli/head_query.h"
#include "cli/output/pager.h"
#include "cli/output/screen.h"
#include "cli/output/top_page.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

// Sampling interval of a single page; agents cache their reply for less.
constexpr Duration sample_interval = 600ms;
constexpr std::int64_t rows_of_one_page = 20;
constexpr std::size_t rows_beside = 8;  // headers and notes
constexpr const char* running_tasks = R"({"state": "RUNNING"})";

// Returns the second of two samples, with the differences.
Result<Json> sample(HeadQuery& query, Json& before) {
  auto usage = query.request("usage");
  if (!usage) return usage.error();
  const auto tasks = query.request("list", "tasks", running_tasks);
  Json top = top_of(before, *usage, tasks ? *tasks : Json());
  before = std::move(*usage);
  return top;
}

int show_once(HeadQuery& query, const CommandLine& line) {
  Json before;
  if (const auto first = sample(query, before); !first) return complain(first.error());
  pause(sample_interval);
  const auto top = sample(query, before);
  if (!top) return complain(top.error());
  if (!for_people(line)) {
    CommandLine as_list = line;
    as_list.kind = "top";
    return print(*top, as_list);
  }
  const auto rows = static_cast<std::size_t>(line.rows > 0 ? line.rows : rows_of_one_page);
  const auto text = format_top(*top, style_of(line), line.output == OutputFormat::wide, rows);
  return text ? print_page(*text, line) : complain(text.error());
}

}  // namespace

int show_top(const CommandLine& line) {
  HeadQuery query(line);
  const bool on_screen = !line.once && for_people(line) && output_is_screen();
  if (!on_screen) return show_once(query, line);
  Json before;
  if (const auto first = sample(query, before); !first) return complain(first.error());
  pause(sample_interval);
  TableFlags style = style_of(line);
  return watch_on_screen(line.watch_seconds, [&](const Screen& screen, char key) {
    if (const auto order = order_of_key(key); !order.empty()) style.sort_by = order;
    const auto top = sample(query, before);
    if (!top) query.forget();
    if (!top) return "mobula: " + top.error().text + "\n";
    const std::size_t nodes = top->value("nodes", Json::array()).size();
    const std::size_t taken = std::min(screen.rows(), nodes + rows_beside);
    const auto rows = line.rows > 0 ? static_cast<std::size_t>(line.rows)
                                    : std::max<std::size_t>(screen.rows() - taken, 5);
    const auto text = format_top(*top, style, line.output == OutputFormat::wide, rows);
    const std::string keys =
        "sort by c: processor, m: memory, g: GPU memory, t: time, n: name; q: quit\n";
    return text ? *text + keys : "mobula: " + text.error().text + "\n";
  });
}

}  // namespace mobula::internal::cli
