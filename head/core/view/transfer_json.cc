#include "head/core/view/transfer_json.h"

#include <fmt/format.h>

#include <charconv>

#include "head/core/head_tables.h"
#include "head/core/view/event_json.h"

namespace mobula::internal::head {
namespace {

double ms(Duration span) { return static_cast<double>(span.count()) * 1e-6; }
double transfer_seconds(Duration span) { return static_cast<double>(span.count()) * 1e-9; }

const char* state_of(const TransferFact& fact) {
  switch (fact.state) {
    case TransferState::pending: return "PENDING";
    case TransferState::running: return "RUNNING";
    case TransferState::ended: break;
  }
  return fact.failed ? "FAILED" : "FINISHED";
}

Json transfer_json(const HeadTables& tables, const TransferItem& item) {
  const TransferFact& fact = item.fact;
  Json refusals = Json::array();
  for (const auto& each : fact.refusals) refusals.push_back(each);
  Json sources = Json::array();
  for (const NodeId each : fact.sources) sources.push_back(each.hex());
  const Json size = fact.state == TransferState::ended ? Json() : Json(fact.whole_bytes);
  return {{"object_id", fact.group.empty() ? fact.object.hex() : std::string()},
          {"state", state_of(fact)},
          {"path", std::string(to_string(fact.path))},
          {"bytes", fact.size_bytes},
          {"size_bytes", size},
          {"process_id", item.process.hex()},
          {"node_id", id_json(item.node)},
          {"peer", fact.holder.empty() ? std::string() : fact.holder.hex()},
          {"peer_node_id",
           id_json(fact.holder.empty() ? fact.holder_node : tables.processes.node_of(fact.holder))},
          {"source_node_ids", std::move(sources)},
          {"group", fact.group},
          {"operation", fact.operation},
          {"sent_bytes", fact.sent_bytes},
          {"job_id", id_json(item.job)},
          {"encrypted", fact.encrypted},
          {"in_place", fact.in_place},
          {"queue_seconds", transfer_seconds(fact.queued)},
          {"wire_seconds", transfer_seconds(fact.moved)},
          {"since_ms", static_cast<std::int64_t>(ms(fact.ago))},
          {"since_at", utc_text(wall_ms(tables, tables.now - fact.ago))},
          {"refusals", std::move(refusals)},
          {"reason", fmt::format("{}", fmt::join(fact.refusals, "; "))}};
}

std::optional<DirectPath> path_named(const std::string& name) {
  for (std::size_t number = 1; number <= direct_paths; ++number) {
    const auto path = static_cast<DirectPath>(number);
    if (to_string(path) == name) return path;
  }
  return std::nullopt;
}

std::string all_paths() {
  std::string names;
  for (std::size_t number = 1; number <= direct_paths; ++number) {
    names += (names.empty() ? "" : ", ") + std::string(to_string(static_cast<DirectPath>(number)));
  }
  return names;
}

Result<void> add_filter(TransferFilters& filters, const std::string& name,
                        const std::string& wanted) {
  const auto refuse = [&](const std::string& why) {
    return failure(ErrorCode::invalid_argument, "filter " + name + ": " + why);
  };
  if (name == "path") {
    const auto path = path_named(wanted);
    if (!path) return refuse(fmt::format("'{}' is not one of {}", wanted, all_paths()));
    filters.query.paths.push_back(*path);
    return {};
  }
  if (name == "state") {
    const bool is_under_way = wanted == "PENDING" || wanted == "RUNNING";
    if (!is_under_way && wanted != "FINISHED" && wanted != "FAILED") {
      return refuse(fmt::format("'{}' is not one of PENDING, RUNNING, FINISHED, FAILED", wanted));
    }
    filters.query.failed_only = wanted != "FINISHED";
    filters.query.arrived_only = wanted != "FAILED";
    filters.query.under_way.clear();
    if (is_under_way)
      filters.query.under_way = {wanted == "PENDING" ? TransferState::pending
                                                     : TransferState::running};
    return {};
  }
  const auto take = [&]<class Tag>(Id<Tag>& into) -> Result<void> {
    const auto id = Id<Tag>::from_hex(wanted);
    if (!id) return refuse("'" + wanted + "' is no id");
    into = *id;
    return {};
  };
  if (name == "job_id") return take(filters.job);
  if (name == "node_id") return take(filters.node);
  if (name == "object_id") return take(filters.query.object);
  if (name == "limit") {
    const char* const end = wanted.data() + wanted.size();
    const auto read = std::from_chars(wanted.data(), end, filters.limit);
    if (read.ec == std::errc() && read.ptr == end && filters.limit > 0) return {};
    return refuse("'" + wanted + "' is no number of rows");
  }
  return refuse("is not known; known are path, state, job_id, node_id, object_id, limit");
}

}  // namespace

Result<TransferFilters> transfer_filters(const std::string& text) {
  TransferFilters filters;
  filters.query.under_way = {TransferState::running, TransferState::pending};
  if (text.empty()) return filters;
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object())
    return failure(ErrorCode::invalid_argument, "filters of transfers: no JSON object");
  for (const auto& [name, value] : json.items()) {
    if (!value.is_string())
      return failure(ErrorCode::invalid_argument, "filter " + name + ": is not a string");
    if (auto added = add_filter(filters, name, value.get<std::string>()); !added)
      return added.error();
  }
  return filters;
}

std::string transfers_json(const HeadTables& tables, const TransferAnswers& answers) {
  Json json = document("TransferList");
  Json items = Json::array();
  for (const auto& item : answers.items) items.push_back(transfer_json(tables, item));
  json["items"] = std::move(items);
  json["counts"] = counts_json(tables.transfer_counts.of_cluster());
  json["warnings"] = answers.warnings;
  if (answers.left_out > 0) {
    json["warnings"].push_back(fmt::format(
        "and {} more that are not listed: processes remember their latest ones, and at most {} are "
        "of each of them, {} in all; `counts` has all",
        answers.left_out, tables.options.max_tasks_per_owner, answers.limit));
  }
  if (tables.nodes.recovering()) {
    json["warnings"].push_back(
        fmt::format("the head is recovering and waits for {} nodes", tables.nodes.expected()));
  }
  return json_text(json);
}

Json counts_json(const PathCounts& counts) {
  Json items = Json::array();
  for (const auto& [path, each] : counts) {
    items.push_back({{"path", std::string(to_string(path))},
                     {"transfers", each.transfers},
                     {"bytes", each.bytes},
                     {"failures", each.failures},
                     {"fallbacks", each.fallbacks},
                     {"encrypted", each.encrypted},
                     {"in_place", each.in_place}});
  }
  return items;
}

std::string fabric_of(const HeadTables& tables, const Node& node) {
  if (!node.shape.fabric.empty()) return node.shape.fabric;
  return tables.options.settings.trusted_fabric ? std::string(cluster_fabric) : std::string();
}

}  // namespace mobula::internal::head
