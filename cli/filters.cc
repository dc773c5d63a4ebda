#include "cli/filters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <set>
#include <vector>

#include "cli/output/table_columns.h"

namespace mobula::internal::cli {
namespace {

constexpr std::array listed_kinds{"nodes",     "jobs",   "tasks",     "actors",
                                  "objects",   "leases", "executors", "placement-groups",
                                  "transfers", "demands"};

// Fields without a column, which items may lack.
const std::vector<std::string>& other_fields(const std::string& kind) {
  static const std::map<std::string, std::vector<std::string>> all{
      {"nodes",
       {"bulk_address", "devices", "device_policy", "memory_pressure", "refused_devices",
        "transfers"}},
      {"jobs", {"started_ms"}},
      {"tasks", {"cancelled", "preemptions", "retries_left"}},
      {"actors",
       {"slot_id", "max_restarts", "resources", "gpu_memory", "accelerator_type",
        "label_selector"}},
      {"objects",
       {"object_id", "state", "node_id", "size_bytes", "job_id", "home", "processes", "nodes"}},
      {"leases", {"devices", "over_share", "resident"}},
      {"transfers", {"since_at", "source_node_ids", "refusals"}},
      {"demands", {"priority", "gpu_memory", "accelerator_type", "label_selector"}}};
  static const std::vector<std::string> none;
  const auto found = all.find(kind);
  return found == all.end() ? none : found->second;
}

std::string in_capitals(std::string text) {
  for (auto& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::vector<std::string> fields_of(const std::string& kind) {
  std::vector<std::string> fields;
  for (const auto& [header, member] : column_names(kind)) fields.push_back(member);
  const auto& others = other_fields(kind);
  fields.insert(fields.end(), others.begin(), others.end());
  return fields;
}

// Returns "labels" for "labels.zone".
std::string first_of(const std::string& path) { return path.substr(0, path.find('.')); }

}  // namespace

Filters named_as_fields(const std::string& kind, Filters filters) {
  const auto columns = column_names(kind);
  for (auto& [name, value] : filters) {
    const std::string first = first_of(name);
    const bool is_field =
        std::ranges::any_of(columns, [&](const auto& each) { return each.second == first; });
    const auto column = std::ranges::find_if(
        columns, [&](const auto& each) { return each.first == in_capitals(first); });
    if (!is_field && column != columns.end()) name.replace(0, first.size(), column->second);
    if (name == "state" || in_capitals(name) == "STATE") {
      name = "state";
      value = in_capitals(value);
    }
  }
  return filters;
}

Result<void> check_filters(const std::string& kind, const Filters& filters,
                           const DocumentJson& items) {
  const auto known = fields_of(kind);
  for (const auto& [name, value] : filters) {
    const std::string first = first_of(name);
    if (std::ranges::find(known, first) != known.end()) continue;
    if (std::ranges::any_of(
            items, [&](const auto& item) { return item.is_object() && item.contains(first); }))
      continue;
    std::set<std::string> there(known.begin(), known.end());
    for (const auto& item : items) {
      if (!item.is_object()) continue;
      for (const auto& [member, unused] : item.items()) there.insert(member);
    }
    std::string names;
    for (const auto& each : there) names += (names.empty() ? "" : ", ") + each;
    return failure(
        ErrorCode::invalid_argument,
        fmt::format("--filter: {} have no field '{}'; give one of {}", kind, first, names));
  }
  return {};
}

std::string fields_text() {
  std::string text;
  for (const char* kind : listed_kinds) {
    std::string names;
    for (const auto& each : fields_of(kind)) names += (names.empty() ? "" : ", ") + each;
    text += fmt::format("  {}: {}\n", kind, names);
  }
  return text;
}

}  // namespace mobula::internal::cli
