#include "cli/output/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text/json_writer.h"
#include "cli/output/color.h"
#include "cli/output/log_lines.h"
#include "cli/output/table_columns.h"
#include "cli/output/text_table.h"
#include "cli/output/watch_page.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

// At most four decimal places, as amounts of resources have.
std::string amount_text(double amount) {
  std::string text = fmt::format("{:.4f}", amount);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

// Formats byte resources with units.
std::string resource_text(const std::string& name, double amount) {
  const bool bytes = name == "memory" || name == "object_store_memory" || name == "gpu_memory";
  return bytes ? size_text(static_cast<std::int64_t>(amount)) : amount_text(amount);
}

// Formats {"CPU": {"total": 2, "available": 1}} as "CPU:1/2": used of total.
std::string use_text(const std::string& name, const Json& use) {
  const double total = use.value("total", 0.0);
  const double available = use.value("available", 0.0);
  return fmt::format("{}/{}", resource_text(name, total - available), resource_text(name, total));
}

std::string number_text(const Json& value) {
  return value.is_number_float() ? amount_text(value.get<double>()) : json_text(value);
}

// Empty, or the null id.
bool is_nothing(const std::string& text) {
  constexpr std::size_t id_digits = 32;
  return text.empty() ||
         (text.size() == id_digits && text.find_first_not_of('0') == std::string::npos);
}

std::string cell_of(const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_string())
    return is_nothing(value.get_ref<const std::string&>()) ? "-" : value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (!value.is_structured()) return number_text(value);
  constexpr std::size_t most_listed = 8;  // items of a list within a cell
  std::size_t listed = 0;
  std::string text;
  if (value.is_object()) {
    for (const auto& [name, each] : value.items()) {
      const bool use = each.is_object() && each.contains("total");
      text += fmt::format("{}{}{}{}", text.empty() ? "" : ",", name, use ? ":" : "=",
                          use                ? use_text(name, each)
                          : each.is_number() ? resource_text(name, each.get<double>())
                                             : cell_of(each));
    }
  } else {
    for (const auto& each : value) {
      if (++listed > most_listed) continue;
      text += (text.empty() ? "" : ";") + cell_of(each);
    }
    if (listed > most_listed) text += fmt::format("; and {} more", listed - most_listed);
  }
  return text.empty() ? "-" : text;
}

// The items of a list, or the one item of a document. Lists have thousands of items and are not
// copied.
class Items {
 public:
  explicit Items(Json& document) {
    const auto items = document.find("items");
    if (items != document.end() && items->is_array()) {
      items_ = &*items;
      return;
    }
    Json item = document;
    for (const char* name : {"apiVersion", "kind", "warnings"}) item.erase(name);
    single_ = Json::array({std::move(item)});
  }
  Items(const Items&) = delete;
  Items& operator=(const Items&) = delete;
  Json& operator*() { return *items_; }

 private:
  Json single_;
  Json* items_ = &single_;
};

// Formats a member on one line.
std::string cell_at(const Json& item, const std::string& member) {
  const auto at = item.find(member);
  std::string text = at == item.end() ? "-" : cell_of(*at);
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string cell_at(const Json& item, const Column& column) {
  const auto at = item.find(column.member);
  if (column.shows != Shows::as_it_is && at != item.end() && at->is_number_integer()) {
    const auto number = at->get<std::int64_t>();
    if (column.shows == Shows::pid) return number == 0 ? "-" : cell_at(item, column.member);
    if (column.shows == Shows::age) return age_text(number);
    if (column.shows == Shows::span) return span_text(number);
    return size_text(number);
  }
  return cell_at(item, column.member);
}

std::string note_label(bool colored) {
  return (colored ? painted("note:", Paint::waiting) : "note:") + std::string(" ");
}

// Cuts lines to `width`, unless it is 0.
std::string table_of(const Json& document, const Json& items, const std::vector<Column>& columns,
                     const TableFlags& style, std::size_t width = 0) {
  TextTable table;
  std::vector<std::string> names;
  for (const auto& column : columns) names.push_back(column.header);
  table.add(names);
  for (const auto& item : items) {
    std::vector<std::string> row;
    for (const auto& column : columns) row.push_back(cell_at(item, column));
    table.add(row);
  }
  std::string text = columns.empty() ? "" : table.text(style.colored);
  if (!style.headers) text.erase(0, text.find('\n') + 1);
  if (width > 0) text = cut_to_screen(text, 0, width);
  if (const auto warnings = document.find("warnings"); warnings != document.end()) {
    for (const auto& warning : *warnings)
      text += note_label(style.colored) + printable(cell_of(warning)) + "\n";
  }
  return text;
}

// RFC 4180.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string table_of(const Json& items, const std::string& kind, bool colored) {
  TableFlags style;
  style.colored = colored;
  return table_of(Json::object(), items, columns_for(items, kind, false), style);
}

std::string csv_of(const Json& items, const std::vector<Column>& columns, bool headers) {
  std::string text;
  for (const auto& column : columns) text += (text.empty() ? "" : ",") + csv_field(column.member);
  text = headers ? text + "\n" : "";
  for (const auto& item : items) {
    std::string line;
    for (const auto& column : columns) {
      const auto at = item.find(column.member);
      const bool empty = at == item.end() || at->is_null();
      const std::string value = empty                 ? ""
                                : at->is_string()     ? at->get<std::string>()
                                : at->is_structured() ? json_text(*at)
                                                      : number_text(*at);
      line += (&column == &columns.front() ? "" : ",") + csv_field(value);
    }
    text += line + "\n";
  }
  return text;
}

// Returns the first member whose name ends in "_id"; otherwise "name".
std::string names_of(const Json& items) {
  std::string text;
  for (const auto& item : items) {
    if (!item.is_object()) continue;
    std::string name = item.value(
        "name", item.value("cluster_name", item.value("host", item.value("file", std::string()))));
    for (const auto& [member, value] : item.items()) {
      if (!member.ends_with("_id") || !value.is_string()) continue;
      name = value.get<std::string>();
      break;
    }
    if (!name.empty()) text += name + "\n";
  }
  return text;
}

std::string lines_of(const Json& items) {
  std::string text;
  for (const auto& item : items) text += escaped_controls(json_text(item)) + "\n";
  return text;
}

std::string gib_text(std::int64_t bytes) {
  constexpr double one = std::int64_t{1} << 30;
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / one);
}

// The isolation of processes that hold parts of GPUs.
std::string gpus_text(const Json& gpus, bool colored) {
  TextTable table;
  table.add({"GPUS", "MEMORY", "ENFORCEMENT", "MONITORING", "ON_VIOLATION", "SUMMARY"});
  for (const auto& row : gpus) {
    const auto bytes = row.value("memory_bytes", std::int64_t{0});
    table.add({cell_at(row, "devices"), bytes == 0 ? "-" : gib_text(bytes),
               cell_at(row, "prevents"), cell_at(row, "detects"), cell_at(row, "reacts"),
               cell_at(row, "summary")});
  }
  return table.text(colored);
}

std::string counts_text(const Json& counts, bool colored) {
  std::string text;
  for (const auto& [state, count] : counts.items()) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", json_text(count),
                        painted_state(state, colored));
  }
  return text.empty() ? "none" : text;
}

// Lists the fabrics whose traffic is not encrypted; empty if all traffic is encrypted.
std::string fabrics_text(const Json& fabrics) {
  std::string text;
  for (const auto& each : fabrics) {
    if (each.value("encrypted", true)) continue;
    text += fmt::format("{}trusted fabric '{}' with {} nodes", text.empty() ? "fabrics: " : ", ",
                        printable(cell_at(each, "name")), cell_at(each, "nodes"));
  }
  return text.empty() ? text : text + "; other traffic is encrypted\n";
}

// Counts of running jobs by language; empty if all drivers are C++ programs.
std::string languages_text(const Json& languages) {
  std::string text;
  bool others = false;
  for (const auto& [language, count] : languages.items()) {
    others |= language != "c++";
    text += fmt::format("{}{} {}", text.empty() ? "languages: " : ", ", json_text(count),
                        printable(language));
  }
  return others ? text + "\n" : "";
}

}  // namespace

// Such characters occur only within strings.
std::string escaped_controls(const std::string& json) {
  if (json.find('\x7f') == std::string::npos && json.find('\xc2') == std::string::npos) return json;
  std::string text;
  text.reserve(json.size());
  for (std::size_t at = 0; at < json.size(); ++at) {
    const auto c = static_cast<unsigned char>(json[at]);
    const auto next = at + 1 < json.size() ? static_cast<unsigned char>(json[at + 1]) : 0u;
    const bool is_c1 = c == 0xc2 && next >= 0x80 && next <= 0x9f;
    if (c != 0x7f && !is_c1) {
      text += json[at];
      continue;
    }
    text += fmt::format("\\u{:04x}", is_c1 ? next : c);
    at += is_c1 ? 1 : 0;
  }
  return text;
}

std::string format_document(Json document, OutputFormat format, const std::string& kind) {
  return format_document(std::move(document), format, kind, {}, 0).value();
}

Result<std::string> format_document(Json document, OutputFormat format, const std::string& kind,
                                    const TableFlags& style, std::size_t width) {
  Items all(document);
  Json& items = *all;
  if (auto sorted = sort_items(items, kind, style); !sorted) return sorted.error();
  const bool wide = format == OutputFormat::wide || format == OutputFormat::csv;
  const auto columns = chosen_columns(items, kind, wide, style);
  if (!columns) return columns.error();
  switch (format) {
    case OutputFormat::table:
    case OutputFormat::wide: return table_of(document, items, *columns, style, width);
    case OutputFormat::json: return escaped_controls(json_text(document, 2)) + "\n";
    case OutputFormat::jsonl: return lines_of(items);
    case OutputFormat::yaml: return to_yaml(document);
    case OutputFormat::csv: return csv_of(items, *columns, style.headers);
    case OutputFormat::name: return names_of(items);
  }
  return std::string();
}

std::string format_status(const Json& status, bool colored) {
  std::string text = fmt::format(
      "cluster {} is {} at {} (epoch {}, version {})\n", printable(cell_at(status, "cluster_name")),
      painted_state(cell_at(status, "state"), colored), printable(cell_at(status, "address")),
      cell_at(status, "epoch"), printable(cell_at(status, "version")));
  for (const char* kind : {"nodes", "jobs", "actors"}) {
    if (status.contains(kind))
      text += fmt::format("{}: {}\n", kind, counts_text(status[kind], colored));
  }
  text += languages_text(status.value("languages", Json::object()));
  text += fmt::format("leases: {}\n", cell_at(status, "leases"));
  const Json preemption = status.value("preemption", Json::object());
  if (preemption.value("policy", "off") != "off") {
    text += fmt::format("preemption: {}, {} tasks selected, {} of them refused\n",
                        cell_at(preemption, "policy"), cell_at(preemption, "asked"),
                        cell_at(preemption, "refused"));
  }
  text += fabrics_text(status.value("fabrics", Json::array()));
  TextTable resources;
  resources.add({"RESOURCE", "USED", "TOTAL"});
  if (status.contains("resources")) {
    for (const auto& [name, use] : status["resources"].items()) {
      const double total = use.value("total", 0.0);
      resources.add({name, resource_text(name, total - use.value("available", 0.0)),
                     resource_text(name, total)});
    }
  }
  text += "\n" + resources.text(colored);
  if (status.contains("gpus") && !status["gpus"].empty())
    text += "\n" + gpus_text(status["gpus"], colored);
  if (status.contains("transfers") && !status["transfers"].empty()) {
    text += "\n" + table_of(status["transfers"], "counts", colored);
  }
  if (status.contains("waiting") && !status["waiting"].empty()) {
    text += "\n" + table_of(status["waiting"], "waiting", colored);
  }
  if (status.contains("autoscaler")) {
    text += "\nautoscaler: " + printable(cell_of(status["autoscaler"])) + "\n";
  }
  if (status.contains("warnings")) {
    for (const auto& warning : status["warnings"])
      text += note_label(colored) + printable(cell_of(warning)) + "\n";
  }
  return text;
}

std::string format_memory(const Json& report, bool colored) {
  TextTable stores;
  stores.add({"NODE_ID", "CAPACITY", "COMMITTED", "USED", "SPILLED", "FILES", "SPILLING"});
  for (const auto& node : report.value("nodes", Json::array())) {
    const std::string why = node.value("spilling", std::string());
    const auto bytes = [&](const char* member) {
      return size_text(node.value(member, std::int64_t{0}));
    };
    stores.add({cell_at(node, "node_id"), bytes("capacity_bytes"), bytes("committed_bytes"),
                bytes("used_bytes"), bytes("spilled_bytes"), bytes("file_bytes"),
                why.empty() ? "on" : "off: " + why});
  }
  TextTable objects;
  objects.add({"OBJECT_ID", "STATE", "SIZE", "NODE_ID", "JOB_ID", "READERS", "HELD BY"});
  for (const auto& item : report.value("items", Json::array())) {
    std::string holders;
    for (const auto& each : item.value("holders", Json::array())) {
      const bool reads = each.value("reads", false);
      holders += fmt::format("{}{} {}{}", holders.empty() ? "" : ", ", cell_at(each, "role"),
                             cell_at(each, "pid"), reads ? " (reads)" : "");
    }
    const auto named = item.value("holders", Json::array()).size();
    const auto processes = item.value("processes", std::uint64_t{0});
    if (processes > named) holders += fmt::format(" and {} more", processes - named);
    for (const auto& node : item.value("holding_nodes", Json::array())) {
      holders += (holders.empty() ? "node " : ", node ") + cell_of(node);
    }
    const std::string copy = item.value("copy", false) ? " (copy)" : "";
    objects.add({cell_at(item, "object_id"), cell_at(item, "state") + copy,
                 cell_at(item, Column{"SIZE", "size_bytes", false, Shows::size}),
                 cell_at(item, "node_id"), cell_at(item, "job_id"), cell_at(item, "readers"),
                 holders});
  }
  std::string text = stores.text(colored) + "\n" + objects.text(colored);
  for (const auto& warning : report.value("warnings", Json::array())) {
    text += note_label(colored) + printable(cell_of(warning)) + "\n";
  }
  return text;
}

namespace {

// The reasons of each node, or of each node and bundle. Empty without nodes.
std::string reasons_of_nodes(const Json& explanation, bool colored) {
  const Json items = explanation.value("items", Json::array());
  if (items.empty()) return {};
  const bool of_bundles = items.front().contains("bundle");
  TextTable table;
  std::vector<std::string> names{"NODE_ID", "CODE", "REASON"};
  if (of_bundles) names.insert(names.begin(), "BUNDLE");
  table.add(names);
  for (const auto& item : items) {
    std::vector<std::string> cells{cell_at(item, "node_id"), cell_at(item, "code"),
                                   cell_at(item, "reason")};
    if (of_bundles) {
      const auto alike = item.value("alike", std::int64_t{0});
      cells.insert(cells.begin(), cell_at(item, "bundle") +
                                      (alike > 0 ? fmt::format(" and {} more alike", alike) : ""));
    }
    table.add(cells);
  }
  return table.text(colored);
}

// The shape of a node that could serve the request.
std::string shape_text(const Json& needed) {
  std::string shape = cell_at(needed, "resources");
  const auto bytes = needed.value("gpu_memory_bytes", std::int64_t{0});
  if (bytes > 0) shape += fmt::format(", gpu_memory={}", size_text(bytes));
  for (const char* more : {"accelerator_types", "labels"}) {
    if (!needed.value(more, Json()).empty()) shape += ", " + cell_at(needed, more);
  }
  return shape + "\n";
}

}  // namespace

std::string format_explanation(const Json& explanation, bool colored) {
  std::string text = cell_at(explanation, "reason") + "\n";
  if (explanation.contains("asks")) text += "request: " + cell_at(explanation, "asks") + "\n";
  text += reasons_of_nodes(explanation, colored);
  const Json holders = explanation.value("holders", Json::array());
  TextTable held;
  held.add({"SLOT_ID", "JOB_ID", "HELD_BY", "NAME", "ID", "RESOURCES"});
  for (const auto& each : holders) {
    held.add({cell_at(each, "slot_id"), cell_at(each, "job_id"), cell_at(each, "held_by"),
              cell_at(each, "name"), cell_at(each, "id"), cell_at(each, "resources")});
  }
  if (!holders.empty()) text += "\nblocked by:\n" + held.text(colored);
  if (const auto node = explanation.find("would_start_on"); node != explanation.end()) {
    text += "fits on node " + cell_of(*node) + "\n";
  }
  if (const auto queue = explanation.find("queue"); queue != explanation.end()) {
    text += "queued behind: " + cell_at(*queue, "text") + "\n";
  }
  std::string sums;
  const Json all_nodes = explanation.value("all_nodes", Json::object());
  for (const auto& [name, each] : all_nodes.items()) {
    sums +=
        fmt::format("{}{}: {} of {} free, needs {}", sums.empty() ? "" : "; ", name,
                    cell_at(each, "available"), cell_at(each, "total"), cell_at(each, "needed"));
  }
  if (!sums.empty()) text += "all nodes together: " + sums + "\n";
  if (const auto needed = explanation.find("node_needed"); needed != explanation.end()) {
    text += "a suitable node has " + shape_text(*needed);
  }
  for (const auto& needed : explanation.value("nodes_needed", Json::array())) {
    const int count = needed.value("count", 1);
    text +=
        fmt::format("it fits with {} more: {}",
                    count == 1 ? "one node" : fmt::format("{} nodes", count), shape_text(needed));
  }
  const Json warnings = explanation.value("warnings", Json::array());
  for (const auto& warning : warnings)
    text += note_label(colored) + printable(cell_of(warning)) + "\n";
  return text;
}

}  // namespace mobula::internal::cli
