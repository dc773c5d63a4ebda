#include "cli/output/top_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "cli/output/output.h"
#include "cli/output/table_columns.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* usual_order = "-cpu_percent";

struct UsageSample {
  double at_s = 0;
  double cpu_s = 0;
};

UsageSample sample_of(const Json& item) {
  return {item.value("at_s", 0.0), item.value("cpu_s", 0.0)};
}

// Returns one decimal place.
Json percent(const UsageSample& before, const UsageSample& after) {
  const double span = after.at_s - before.at_s;
  if (span <= 0) return nullptr;
  return std::round(std::max(0.0, after.cpu_s - before.cpu_s) / span * 1000) / 10;
}

// The next process of a slot starts at 0.
std::string key_of(const Json& item) {
  return item.value("slot_id", std::string()) + ":" +
         std::to_string(item.value("pid", std::int64_t{0}));
}

std::string gpus_text(const Json& gpus) {
  std::string text;
  for (const auto& gpu : gpus) {
    const Json used = gpu.value("used_bytes", Json());
    const auto all = gpu.value("memory_bytes", std::int64_t{0});
    text += fmt::format("{}{}: {}{}", text.empty() ? "" : ", ", gpu.value("index", 0),
                        used.is_number() ? size_text(used.get<std::int64_t>()) : "?",
                        all > 0 ? " of " + size_text(all) : "");
  }
  return text;
}

}  // namespace

namespace {

// Returns an empty list if the document is missing or lacks the member.
const Json& list_in(const Json& document, const char* name) {
  static const Json none = Json::array();
  return document.is_object() && document.contains(name) ? document[name] : none;
}

}  // namespace

Json top_of(const Json& before, const Json& after, const Json& tasks) {
  std::map<std::string, UsageSample> nodes, executors;
  for (const auto& node : list_in(before, "nodes"))
    nodes[node.value("node_id", std::string())] = sample_of(node);
  for (const auto& item : list_in(before, "items")) executors[key_of(item)] = sample_of(item);
  std::map<std::string, const Json*> longest;  // by executor: its longest running task
  for (const auto& task : list_in(tasks, "items")) {
    if (task.value("state", std::string()) != "RUNNING" ||
        !task.value("executor", Json()).is_string())
      continue;
    const Json*& longest_task = longest[task["executor"].get<std::string>()];
    const auto since = [](const Json& each) { return each.value("since_ms", std::int64_t{0}); };
    if (longest_task == nullptr || since(task) > since(*longest_task)) longest_task = &task;
  }
  Json top = after;
  top["kind"] = "Top";
  for (auto& node : top["nodes"]) {
    const auto was = nodes.find(node.value("node_id", std::string()));
    node["cpu_percent"] =
        was == nodes.end() ? Json(nullptr) : percent(was->second, sample_of(node));
    node["gpus_text"] = gpus_text(node.value("gpus", Json::array()));
  }
  for (auto& item : top["items"]) {
    const auto was = executors.find(key_of(item));
    item["cpu_percent"] =
        was == executors.end() ? Json(nullptr) : percent(was->second, sample_of(item));
    std::int64_t gpu_bytes = 0;
    const Json gpus = item.value("gpus", Json::array());
    for (const auto& gpu : gpus) gpu_bytes += gpu.value("used_bytes", std::int64_t{0});
    item["gpu_bytes"] = gpus.empty() ? Json(nullptr) : Json(gpu_bytes);
    const Json process = item.value("process_id", Json());
    const auto task =
        process.is_string() ? longest.find(process.get<std::string>()) : longest.end();
    const bool runs = task != longest.end();
    item["task_id"] = runs ? (*task->second)["task_id"] : Json(nullptr);
    item["since_ms"] = runs ? (*task->second)["since_ms"] : Json(nullptr);
    if (runs) item["name"] = (*task->second)["name"];
  }
  return top;
}

Result<std::string> format_top(const Json& top, const TableFlags& style, bool wide,
                               std::size_t rows) {
  const Json nodes = {{"items", top.value("nodes", Json::array())}};
  const auto format = wide ? OutputFormat::wide : OutputFormat::table;
  Json items = top.value("items", Json::array());
  TableFlags sorted = style;
  if (sorted.sort_by.empty()) sorted.sort_by = usual_order;
  if (auto done = sort_items(items, "top", sorted); !done) return done.error();
  const std::size_t more = items.size() > rows ? items.size() - rows : 0;
  if (more > 0) items.erase(items.begin() + static_cast<std::ptrdiff_t>(rows), items.end());
  sorted.sort_by.clear();
  TableFlags of_nodes;
  of_nodes.colored = style.colored;
  const auto table = format_document(Json{{"items", items}}, format, "top", sorted, 0);
  if (!table) return table.error();
  std::string text =
      format_document(nodes, format, "top-nodes", of_nodes, 0).value() + "\n" + *table;
  if (more > 0) text += fmt::format("... {} more\n", more);
  const Json warnings = top.value("warnings", Json::array());
  for (const auto& warning : warnings) text += "note: " + warning.get<std::string>() + "\n";
  return text;
}

std::string order_of_key(char key) {
  switch (key) {
    case 'c': return "-cpu_percent";
    case 'm': return "-own_bytes";
    case 'g': return "-gpu_bytes";
    case 't': return "-since_ms";
    case 'n': return "name";
    default: return {};
  }
}

}  // namespace mobula::internal::cli
