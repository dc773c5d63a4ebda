#include "cli/output/table_columns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <string_view>

#include "base/text/json_writer.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

struct KindColumns {
  std::string_view kind;
  std::vector<Column> columns;
};

const KindColumns all_columns[] = {
    {"nodes",
     {{"NODE_ID", "node_id"},
      {"STATE", "state"},
      {"HOST", "host"},
      {"ADDRESS", "address"},
      {"RESOURCES", "resources"},
      {"LABELS", "labels", true},
      {"INCARNATION", "incarnation", true},
      {"ISOLATION", "isolation", true},
      {"REASON", "reason", true},
      {"FABRIC", "fabric", true}}},
    {"tokens",
     {{"TOKEN_ID", "token_id"},
      {"STATE", "state"},
      {"ROLE", "role"},
      {"NAME", "name"},
      {"CREATED", "created_at"},
      {"EXPIRES", "expires_at"},
      {"USED_BY", "used_by"},
      {"USED", "used_at", true},
      {"REVOKED", "revoked_at", true}}},
    {"submissions",
     {{"JOB_ID", "job_id"},
      {"STATE", "state"},
      {"NAME", "name"},
      {"NODE_ID", "node_id"},
      {"ATTEMPTS", "attempts"},
      {"EXIT", "exit_code"},
      {"SIGNAL", "signal"},
      {"PRIORITY", "priority", true},
      {"RESOURCES", "resources", true},
      {"LABELS", "labels", true},
      {"COMMAND", "argv", true},
      {"REASON", "reason"}}},
    {"jobs",
     {{"JOB_ID", "job_id"},
      {"STATE", "state"},
      {"NAME", "name"},
      {"NODE_ID", "node_id"},
      {"PRIORITY", "priority"},
      {"HELD", "held"},
      {"QUOTA", "quota"},
      {"WEIGHT", "weight", true},
      {"NAME_SPACE", "name_space", true},
      {"LANGUAGE", "language", true},
      {"DRIVER", "driver", true},
      {"REASON", "reason"}}},
    {"actors",
     {{"ACTOR_ID", "actor_id"},
      {"STATE", "state"},
      {"CLASS", "class_name"},
      {"NAME", "name"},
      {"NODE_ID", "node_id"},
      {"RESTARTS", "restarts"},
      {"JOB_ID", "job_id", true},
      {"NAME_SPACE", "name_space", true},
      {"DETACHED", "detached", true},
      {"REASON", "reason"}}},
    {"leases",
     {{"SLOT_ID", "slot_id"},
      {"STATE", "state"},
      {"NODE_ID", "node_id"},
      {"RESOURCES", "resources"},
      {"LESSEE", "lessee"},
      {"ACTOR_ID", "actor_id"},
      {"JOB_ID", "job_id", true},
      {"GENERATION", "generation", true},
      {"INSTANCES", "instances", true},
      {"ISOLATION", "isolation", true}}},
    {"executors",
     {{"PROCESS_ID", "process_id"},
      {"STATE", "state"},
      {"NODE_ID", "node_id"},
      {"PID", "pid", false, Shows::pid},
      {"SLOT_ID", "slot_id"},
      {"ACTOR_ID", "actor_id", true},
      {"JOB_ID", "job_id", true}}},
    {"placement-groups",
     {{"PLACEMENT_GROUP_ID", "placement_group_id"},
      {"STATE", "state"},
      {"NAME", "name"},
      {"STRATEGY", "strategy"},
      {"BUNDLES", "bundles"},
      {"JOB_ID", "job_id", true},
      {"NAME_SPACE", "name_space", true},
      {"DETACHED", "detached", true},
      {"PRIORITY", "priority", true},
      {"REASON", "reason"}}},
    {"tasks",
     {{"TASK_ID", "task_id"},
      {"STATE", "state"},
      {"NAME", "name"},
      {"NODE_ID", "node_id"},
      {"ATTEMPT", "attempt"},
      {"SINCE", "since_ms", false, Shows::age},
      {"DURATION", "duration_us", false, Shows::span},
      {"ERROR", "error_type"},
      {"TYPE", "type", true},
      {"JOB_ID", "job_id", true},
      {"OWNER", "owner", true},
      {"EXECUTOR", "executor", true},
      {"ACTOR_ID", "actor_id", true},
      {"CLASS_ID", "class_id", true},
      {"REASON", "reason", true},
      {"MESSAGE", "error_message", true}}},
    {"experiments",
     {{"NAME", "name"},
      {"STATE", "state"},
      {"TRIALS", "trials"},
      {"METRIC", "metric"},
      {"MODE", "mode"},
      {"BEST", "best"},
      {"TRIAL", "best_trial"},
      {"AGE", "age_ms", false, Shows::age},
      {"SEED", "seed", true},
      {"CONTROLLER", "controller", true},
      {"FILE", "file", true},
      {"REASON", "reason", true}}},
    {"trials",
     {{"TRIAL", "trial"},
      {"STATE", "state"},
      {"BEST", "best"},
      {"LAST", "last"},
      {"ITERATIONS", "iterations"},
      {"TIME", "time_ms", false, Shows::age},
      {"NODE", "node"},
      {"PARAMS", "params"},
      {"ATTEMPTS", "attempts", true},
      {"BRACKET", "bracket", true},
      {"PARENT", "parent", true},
      {"ERROR", "error", true}}},
    {"decisions",
     {{"ITERATION", "iteration"},
      {"DECISION", "decision"},
      {"MILESTONE", "milestone"},
      {"BRACKET", "bracket"},
      {"VALUE", "value"},
      {"CUTOFF", "cutoff"},
      {"OF", "compared"},
      {"DONOR", "donor"},
      {"REPLACED", "replaced"},
      {"ATTEMPT", "attempt", true}}},
    {"attempts",
     {{"ATTEMPT", "attempt"},
      {"STATE", "state"},
      {"NODE", "node"},
      {"PID", "pid", false, Shows::pid},
      {"TIME", "time_ms", false, Shows::age},
      {"REASON", "reason"}}},
    {"reports", {{"ATTEMPT", "attempt"}, {"ITERATION", "iteration"}, {"METRICS", "metrics"}}},
    {"checkpoints",
     {{"CHECKPOINT", "checkpoint"},
      {"STATE", "state"},
      {"ITERATION", "iteration"},
      {"SIZE", "size_bytes", false, Shows::size},
      {"SCORE", "score"},
      {"REFS", "refs"},
      {"DIRECTORY", "directory"}}},
    {"transfers",
     {{"OBJECT_ID", "object_id"},
      {"STATE", "state"},
      {"PATH", "path"},
      {"BYTES", "bytes", false, Shows::size},
      {"OF", "size_bytes", false, Shows::size},
      {"WIRE_S", "wire_seconds"},
      {"ENCRYPTED", "encrypted"},
      {"IN_PLACE", "in_place"},
      {"GROUP", "group"},
      {"NODE_ID", "node_id"},
      {"PEER_NODE_ID", "peer_node_id"},
      {"SINCE", "since_ms", false, Shows::age},
      {"QUEUE_S", "queue_seconds", true},
      {"PROCESS_ID", "process_id", true},
      {"PEER", "peer", true},
      {"JOB_ID", "job_id", true},
      {"OPERATION", "operation", true},
      {"SENT_BYTES", "sent_bytes", true, Shows::size},
      {"REASON", "reason", true}}},
    {"logs",
     {{"LOG", "log"},
      {"NODE_ID", "node_id"},
      {"HOST", "host"},
      {"JOB_ID", "job_id"},
      {"BYTES", "size_bytes", false, Shows::size},
      {"CHANGED", "changed_at"},
      {"OPEN", "open"},
      {"REASON", "reason", true}}},
    {"top",
     {{"CPU%", "cpu_percent"},
      {"MEMORY", "own_bytes", false, Shows::size},
      {"GPU_MEMORY", "gpu_bytes", false, Shows::size},
      {"RUNS_FOR", "since_ms", false, Shows::age},
      {"NAME", "name"},
      {"PID", "pid", false, Shows::pid},
      {"NODE_ID", "node_id"},
      {"ACTOR_ID", "actor_id"},
      {"TASK_ID", "task_id"},
      {"RESIDENT", "resident_bytes", true, Shows::size},
      {"CPU_S", "cpu_s", true},
      {"THREADS", "threads", true},
      {"PROCESS_ID", "process_id", true},
      {"SLOT_ID", "slot_id", true},
      {"JOB_ID", "job_id", true}}},
    {"top-nodes",
     {{"NODE_ID", "node_id"},
      {"HOST", "host"},
      {"CPU%", "cpu_percent"},
      {"CPUS", "cpus"},
      {"MEMORY", "memory_used_bytes", false, Shows::size},
      {"OF", "memory_bytes", false, Shows::size},
      {"STORE", "store_used_bytes", false, Shows::size},
      {"OF", "store_capacity_bytes", false, Shows::size},
      {"SPILLED", "store_spilled_bytes", true, Shows::size},
      {"GPUS", "gpus_text"}}},
    {"counts",
     {{"PATH", "path"},
      {"TRANSFERS", "transfers"},
      {"BYTES", "bytes", false, Shows::size},
      {"FAILURES", "failures"},
      {"FALLBACKS", "fallbacks"},
      {"ENCRYPTED", "encrypted"},
      {"IN_PLACE", "in_place"}}},
    {"demands",
     {{"CLASS_ID", "class_id"},
      {"NAME", "name"},
      {"STATE", "state"},
      {"COUNT", "count"},
      {"WANTED_SLOTS", "wanted_slots"},
      {"RESOURCES", "resources"},
      {"REASON", "reason"},
      {"JOB_ID", "job_id", true}}},
    {"waiting",
     {{"WAITING", "kind"},
      {"COUNT", "count"},
      {"JOBS", "jobs"},
      {"ASKS FOR", "asks"},
      {"REASON", "reason"},
      {"WHY", "text"}}},
    {"memory",
     {{"OBJECT_ID", "object_id"},
      {"STATE", "state"},
      {"SIZE", "size_bytes", false, Shows::size},
      {"NODE_ID", "node_id"},
      {"JOB_ID", "job_id"},
      {"READERS", "readers"},
      {"COPY", "copy", true},
      {"HELD BY", "holders", true}}},
    {"summary", {{"KIND", "kind"}, {"STATE", "state"}, {"COUNT", "count"}}},
    {"checks", {{"CHECK", "name"}, {"RESULT", "result"}, {"WHAT", "text"}}}};

std::vector<Column> columns_of(const std::string& kind) {
  const auto* found = std::ranges::find(all_columns, kind, &KindColumns::kind);
  return found == std::end(all_columns) ? std::vector<Column>() : found->columns;
}

// Columns of unknown kinds: their plain members.
std::vector<Column> columns_from(const Json& items) {
  std::vector<Column> columns;
  if (items.empty() || !items.front().is_object()) return columns;
  for (const auto& [name, value] : items.front().items()) {
    std::string header = name;
    for (auto& c : header) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    columns.push_back({header, name, value.is_structured()});
  }
  return columns;
}

bool same_name(const std::string& a, const std::string& b) {
  const auto same = [](unsigned char x, unsigned char y) {
    return std::tolower(x) == std::tolower(y);
  };
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), same);
}

// Returns the member that a user's name means, if an item has one.
std::string member_called(const Json& items, const std::vector<Column>& columns,
                          const std::string& name) {
  for (const auto& column : columns) {
    if (same_name(column.header, name) || same_name(column.member, name)) return column.member;
  }
  for (const auto& item : items) {
    if (item.is_object() && item.contains(name)) return name;
  }
  return {};
}

Failure unknown_column(const std::string& flag, const std::string& name, const Json& items,
                       const std::vector<Column>& columns) {
  std::string known;
  const auto add = [&](const std::string& member) {
    known += (known.empty() ? "" : ", ") + member;
  };
  for (const auto& column : columns) add(column.member);
  if (!items.empty() && items.front().is_object()) {
    for (const auto& [member, value] : items.front().items()) {
      if (std::ranges::find(columns, member, &Column::member) == columns.end()) add(member);
    }
  }
  return failure(ErrorCode::invalid_argument,
                 fmt::format("{}: no column '{}'; give one of {}", flag, name, known));
}

}  // namespace

std::vector<std::pair<std::string, std::string>> column_names(const std::string& kind) {
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& column : columns_of(kind)) names.emplace_back(column.header, column.member);
  return names;
}

std::vector<Column> columns_for(const Json& items, const std::string& kind, bool wide) {
  auto columns = columns_of(kind);
  if (columns.empty()) columns = columns_from(items);
  if (!wide) std::erase_if(columns, [](const Column& each) { return each.wide; });
  return columns;
}

Result<std::vector<Column>> chosen_columns(const Json& items, const std::string& kind, bool wide,
                                           const TableFlags& style) {
  if (style.columns.empty()) return columns_for(items, kind, wide);
  const auto all = columns_for(items, kind, true);
  std::vector<Column> chosen;
  for (const auto& name : style.columns) {
    const std::string member = member_called(items, all, name);
    if (member.empty()) return unknown_column("--columns", name, items, all);
    const auto known = std::ranges::find(all, member, &Column::member);
    std::string header = member;
    for (auto& c : header) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    chosen.push_back(known != all.end() ? *known : Column{header, member});
  }
  return chosen;
}

Result<void> sort_items(Json& items, const std::string& kind, const TableFlags& style) {
  if (style.sort_by.empty() || items.empty()) return {};
  const bool backwards = style.sort_by.front() == '-';
  const std::string name = style.sort_by.substr(backwards ? 1 : 0);
  const auto columns = columns_for(items, kind, true);
  const std::string member = member_called(items, columns, name);
  if (member.empty()) return unknown_column("--sort-by", name, items, columns);
  const auto value_of = [&](const Json& item) {
    const auto at = item.find(member);
    return at == item.end() ? Json(nullptr) : *at;
  };
  const auto earlier = [&](const Json& a, const Json& b) {
    const Json x = value_of(a);
    const Json y = value_of(b);
    if (x.is_null() || y.is_null()) return !x.is_null();
    const bool less = x.is_number() && y.is_number()
                          ? x.get<double>() < y.get<double>()
                          : (x.is_string() ? x.get<std::string>() : json_text(x)) <
                                (y.is_string() ? y.get<std::string>() : json_text(y));
    if (!backwards) return less;
    return x.is_number() && y.is_number()
               ? x.get<double>() > y.get<double>()
               : (x.is_string() ? x.get<std::string>() : json_text(x)) >
                     (y.is_string() ? y.get<std::string>() : json_text(y));
  };
  const auto strictly = [&](const Json& a, const Json& b) {
    return value_of(a).is_null() && value_of(b).is_null() ? false : earlier(a, b);
  };
  std::stable_sort(items.begin(), items.end(), strictly);
  return {};
}

std::string age_text(std::int64_t milliseconds) {
  const std::int64_t seconds = milliseconds / 1000;
  if (milliseconds < 1000) return fmt::format("{}ms", milliseconds);
  if (seconds < 60) return fmt::format("{}.{}s", seconds, milliseconds % 1000 / 100);
  if (seconds < 3600) return fmt::format("{}m{:02}s", seconds / 60, seconds % 60);
  if (seconds < 86'400) return fmt::format("{}h{:02}m", seconds / 3600, seconds % 3600 / 60);
  return fmt::format("{}d{:02}h", seconds / 86'400, seconds % 86'400 / 3600);
}

std::string span_text(std::int64_t microseconds) {
  if (microseconds < 1000) return fmt::format("{}us", microseconds);
  if (microseconds < 1'000'000)
    return fmt::format("{}.{}ms", microseconds / 1000, microseconds % 1000 / 100);
  return age_text(microseconds / 1000);
}

std::string size_text(std::int64_t bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double size = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; size >= 1024 && unit < 4; ++unit) size /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", size, units[unit]);
}

}  // namespace mobula::internal::cli
