#include "head/core/view/state_json.h"

#include <fmt/format.h>

#include <functional>

#include "head/core/query/id_prefix.h"
#include "head/core/view/devices/device_json.h"
#include "head/core/view/devices/memory_json.h"
#include "head/core/view/devices/shared_use.h"
#include "head/core/view/documents.h"
#include "head/core/view/event_json.h"
#include "head/core/view/list_part.h"
#include "head/core/view/requests/group_json.h"
#include "head/core/view/requests/submission_json.h"
#include "head/core/view/requests/waiting_json.h"
#include "head/core/view/transfer_json.h"

namespace mobula::internal::head {
// ---- items -------------------------------------------------------------------------------------

Json use_json(const scheduler::Use& use) {
  Json json = Json::object();
  for (const auto& [name, each] : use) {
    json[name] = {{"total", number(each.total)}, {"available", number(each.available)}};
  }
  return json;
}

std::string state_of(const Node& node) {
  const bool draining = node.draining && node.state == NodeState::alive;
  return std::string(to_string(draining ? NodeState::draining : node.state));
}

const char* state_of(const Slot& slot) {
  return slot.stopping          ? "STOPPING"
         : slot.preempting      ? "PREEMPTING"
         : slot.recalled        ? "RECALLED"
         : slot.lent            ? "LENT"
         : slot.residence.any() ? "RESIDENT"
         : slot.ready           ? "READY"
                                : "STARTING";
}

std::string pressure_text(const Node& node) { return "short of memory: " + node.pressure.text; }

namespace {

Json node_json(const HeadTables& tables, const Node& node, const scheduler::Use& use,
               const PathCounts& transfers) {
  Json json = {{"node_id", node.id.hex()},
               {"state", state_of(node)},
               {"address", node.address.control},
               {"bulk_address", node.address.bulk},
               {"host", node.host},
               {"version", node.release},
               {"protocol", node.protocol},
               {"resources", use_json(use)},
               {"labels", node.shape.labels},
               {"devices", devices_json(node.shape)},
               {"device_policy", policy_json(node.shape.device_policy)},
               {"isolation", isolation_text(node.shape)},
               {"fabric", fabric_of(tables, node)},
               {"transfers", counts_json(transfers)},
               {"incarnation", node.address.incarnation.hex()}};
  if (!node.refused_devices.empty()) {
    json["refused_devices"] = Json::array();
    for (const auto& each : node.refused_devices) {
      json["refused_devices"].push_back({{"resource", each.resource},
                                         {"id", each.device.visible_id},
                                         {"uuid", each.device.uuid},
                                         {"held_by", each.holder.hex()}});
    }
  }
  if (node.draining && node.registered()) {
    json["drain"] = {{"reason", node.drain_why},
                     {"ends_in_ms", node.drained_by ? Json((*node.drained_by - tables.now) /
                                                           std::chrono::milliseconds(1))
                                                    : Json(nullptr)},
                     {"ends_at", node.drained_by ? Json(utc_text(wall_ms(tables, *node.drained_by)))
                                                 : Json(nullptr)},
                     {"ended_leases", node.drain_ended}};
  }
  if (!node.death.empty()) json["reason"] = node.death;
  if (node.pressure.on && node.registered()) {
    json["memory_pressure"] = {{"text", node.pressure.text},
                               {"used_bytes", node.pressure.used_bytes},
                               {"limit_bytes", node.pressure.limit_bytes}};
    json["reason"] = pressure_text(node);
  }
  return json;
}

}  // namespace

std::string state_of(const HeadTables& tables, const Job& job) {
  if (const auto* row = tables.submissions.find(job.start.job))
    return std::string(to_string(row->state));
  switch (job.end) {
    case JobEnd::runs: return job.durable ? "RUNNING" : "PENDING";
    case JobEnd::succeeded: return "SUCCEEDED";
    case JobEnd::failed: return "FAILED";
    case JobEnd::stopped: return "STOPPED";
  }
  return "UNKNOWN";
}

namespace {

// Reason in one word for an actor without a slot; otherwise empty.
std::string waiting_reason(const HeadTables& tables, const Actor* actor) {
  if (actor == nullptr || !actor->waits || !actor->slot.empty()) return {};
  return waits_for(tables, actor->spec().demand, scheduler::Tenant::actor);
}

// Adds the times of a submitted job, or the start of a driver's job.
void add_course(Json& json, const HeadTables& tables, const Job& job) {
  const auto* row = tables.submissions.find(job.start.job);
  json["started_ms"] = row == nullptr         ? Json(job.start.started_ms)
                       : row->started_ms == 0 ? Json(nullptr)
                                              : Json(row->started_ms);
  json["started_at"] = utc_or_null(row == nullptr ? job.start.started_ms : row->started_ms);
  if (row != nullptr) {
    json["submitted_at"] = utc_or_null(row->submitted_ms);
    json["ended_at"] = utc_or_null(row->ended_ms);
  }
  json["reason"] = row == nullptr || row->reason.empty() ? job.why : row->reason;
  if (row != nullptr) json["node_id"] = id_json(row->node);
  if (row == nullptr || row->state != SubmissionState::pending || !row->reason.empty()) return;
  json["reason"] = waiting_reason(tables, tables.actors.find(SubmissionTable::entry_of(row->job)));
}

std::string language_of(const Job& job) {
  return job.start.language.empty() ? "c++" : job.start.language;
}

// Count of running jobs by the language of their drivers.
Json running_languages(const HeadTables& tables) {
  std::map<std::string, std::int64_t> languages;
  for (const auto& [id, job] : tables.jobs.rows()) {
    if (job.end == JobEnd::runs) ++languages[language_of(job)];
  }
  return languages;
}

}  // namespace

Json job_json(const HeadTables& tables, const Job& job) {
  Json quota = Json::object();
  for (const auto& [name, most] : job.start.terms.quota) quota[name] = number(most);
  Json json = {{"priority", job.start.terms.priority},
               {"weight", job.start.terms.weight},
               {"quota", std::move(quota)},
               {"held", resources_json(tables.scheduler.held_by(job.start.job))},
               {"job_id", job.start.job.hex()},
               {"state", state_of(tables, job)},
               {"name", job.start.name},
               {"name_space", job.name_space},
               {"language", language_of(job)},
               {"driver", job.start.driver.hex()},
               {"node_id", id_json(job.node)}};
  add_course(json, tables, job);
  return json;
}

void for_each_job(const HeadTables& tables, const std::function<void(const Job&)>& visit) {
  for (const auto& [id, job] : tables.jobs.rows()) visit(job);
  for (const auto& [id, row] : tables.submissions.rows()) {
    if (tables.jobs.find(id) != nullptr) continue;
    Job job;
    job.start.job = id;
    job.start.name = row.name;
    job.start.terms = row.terms;
    visit(job);
  }
}

std::string state_of(const Actor& actor) {
  switch (actor.state) {
    case ActorState::placing:
    case ActorState::starting: return "PENDING_CREATION";
    case ActorState::alive: return "ALIVE";
    case ActorState::restarting: return "RESTARTING";
    case ActorState::dead: return "DEAD";
  }
  return "UNKNOWN";
}

Json actor_json(const Actor& actor) {
  const ActorSpec& spec = actor.spec();
  Json json = {{"actor_id", spec.actor.hex()},     {"state", state_of(actor)},
               {"class_name", spec.class_name},    {"name", spec.name},
               {"name_space", actor.name_space},   {"job_id", spec.job.hex()},
               {"node_id", id_json(actor.node)},   {"slot_id", id_json(actor.slot)},
               {"detached", spec.detached},        {"restarts", actor.row.restarts_used},
               {"max_restarts", spec.max_restarts}};
  if (spec.entry.given()) json["is_job"] = true;
  add_request(json, spec.demand.request);
  const bool down = actor.state == ActorState::dead || actor.state == ActorState::restarting;
  if (down) json["reason"] = to_string(actor.cause);
  if (actor.not_before) json["reason"] = "exclusive: waits until its silent node has fenced itself";
  return json;
}

namespace {

// Results that the executor of a resident slot holds, and their age.
Json residence_json(const HeadTables& tables, const Slot& slot) {
  const auto age = std::chrono::duration<double>(tables.now - slot.resident_since);
  return {{"results", slot.residence.results},
          {"bytes", slot.residence.bytes},
          {"oldest", slot.residence.oldest.hex()},
          {"age_s", age.count()},
          {"evacuating", slot.recalled || slot.stopping}};
}

Json lease_json(const HeadTables& tables, const Slot& slot) {
  const Node* node = tables.nodes.find(slot.node);
  static const NodeShape gone;
  const NodeShape& shape = node == nullptr ? gone : node->shape;
  const auto* booked = tables.scheduler.find_slot(slot.id);
  const Allocation allocation = booked == nullptr ? Allocation() : booked->allocation;
  Json json = {{"slot_id", slot.id.hex()},
               {"state", state_of(slot)},
               {"node_id", slot.node.hex()},
               {"job_id", slot.job.hex()},
               {"lessee", id_json(slot.lessee)},
               {"actor_id", id_json(slot.actor)},
               {"generation", slot.generation},
               {"resources", resources_json(scheduler::amounts_of(allocation))},
               {"instances", instances_json(allocation, shape)},
               {"devices", held_devices_json(allocation, shape)},
               {"isolation", isolation_text(allocation, shape)}};
  if (slot.residence.any()) json["resident"] = residence_json(tables, slot);
  if (!slot.over_share.empty()) json["over_share"] = slot.over_share;
  return json;
}

Json executor_json(const HeadTables& tables, const Slot& slot) {
  const ProcessId process = slot.endpoint.process;
  const Process* row = tables.processes.find(process);
  return {{"process_id", process.hex()}, {"state", slot.lent ? "BLOCKED" : "READY"},
          {"node_id", slot.node.hex()},  {"pid", row != nullptr ? row->pid : 0},
          {"slot_id", slot.id.hex()},    {"actor_id", id_json(slot.actor)},
          {"job_id", slot.job.hex()}};
}

}  // namespace

Json demand_json(const HeadTables& tables, const DemandRow& row) {
  const Demand& demand = row.demand;
  Json json = {{"class_id", demand.demand_class.id.hex()},
               {"name", demand.example_name},
               {"state", "PENDING_NODE_ASSIGNMENT"},
               {"count", demand.waiting_tasks},
               {"wanted_slots", demand.wanted_slots},
               {"job_id", demand.demand_class.job.hex()},
               {"priority", demand.demand_class.request.priority},
               {"reason", waits_for(tables, demand.demand_class, scheduler::Tenant::task)}};
  add_request(json, demand.demand_class.request);
  return json;
}

namespace {

// ---- lists -------------------------------------------------------------------------------------

struct Listing {
  std::string kind;                                 // kind of the document
  std::vector<std::pair<std::string, Json>> items;  // by hexadecimal id
  std::vector<std::string> warnings;

  template <class Id>
  void add(const Id& id, Json item) {
    items.emplace_back(id.hex(), std::move(item));
  }
};

void add_nodes(const HeadTables& tables, Listing& list) {
  std::map<NodeId, scheduler::Use> uses;
  auto transfers = tables.transfer_counts.by_node();
  for (auto& use : tables.scheduler.node_use()) uses[use.node] = std::move(use.resources);
  for (const auto& [id, node] : tables.nodes.rows()) {
    // The node of a driver runs no tasks.
    if (!node.slots_allowed()) continue;
    list.add(id, node_json(tables, node, uses[id], transfers[id]));
    for (const auto& device : node.refused_devices) {
      list.warnings.push_back(fmt::format("node {}: {}", id.hex(), describe(device)));
    }
  }
}

}  // namespace

Json listed_actor_json(const HeadTables& tables, const Actor& actor) {
  Json item = actor_json(actor);
  if (auto why = waiting_reason(tables, &actor); !why.empty() && !item.contains("reason"))
    item["reason"] = std::move(why);
  return item;
}

namespace {

void add_actors(const HeadTables& tables, Listing& list) {
  for (const auto& [id, actor] : tables.actors.rows()) {
    // The command of a submitted job, listed with the jobs.
    if (!actor.spec().entry.given()) list.add(id, listed_actor_json(tables, actor));
  }
}

Result<Listing> listing_of(const HeadTables& tables, const std::string& kind) {
  Listing list;
  const auto add = [&list](const auto& id, Json item) { list.add(id, std::move(item)); };
  if (kind == "nodes") {
    list.kind = "NodeList";
    add_nodes(tables, list);
  } else if (kind == "jobs") {
    list.kind = "JobList";
    for_each_job(tables, [&](const Job& job) { add(job.start.job, job_json(tables, job)); });
  } else if (kind == "submissions") {
    list.kind = "JobList";
    for (const auto& [id, row] : tables.submissions.rows()) add(id, submission_json(row));
  } else if (kind == "actors") {
    list.kind = "ActorList";
    add_actors(tables, list);
  } else if (kind == "leases") {
    list.kind = "LeaseList";
    for (const auto& [id, slot] : tables.slots.rows()) add(id, lease_json(tables, slot));
  } else if (kind == "executors") {
    list.kind = "ExecutorList";
    for (const auto& [id, slot] : tables.slots.rows()) {
      if (slot.ready) add(slot.endpoint.process, executor_json(tables, slot));
    }
  } else if (kind == "placement-groups" || kind == "placement_groups") {
    list.kind = "PlacementGroupList";
    for (const auto& [id, group] : tables.groups.rows()) add(id, listed_group_json(tables, group));
  } else if (kind == "demands") {
    list.kind = "DemandList";
    for (const auto& [key, row] : tables.slots.demands()) add(key.second, demand_json(tables, row));
  } else {
    return failure(
        ErrorCode::not_found,
        fmt::format(
            "list {}: no such kind; kinds are nodes, jobs, actors, leases, "
            "executors, placement-groups, tasks, demands, objects, transfers, submissions, events",
            kind));
  }
  if (tables.nodes.recovering()) {
    list.warnings.push_back(
        fmt::format("the head is recovering and waits for {} nodes", tables.nodes.expected()));
  }
  return list;
}

std::string list_text(const HeadTables& tables, Listing list) {
  Json json = document(list.kind);
  Json items = Json::array();
  const std::size_t limit = tables.options.max_listed;
  for (std::size_t i = 0; i < std::min(limit, list.items.size()); ++i) {
    items.push_back(std::move(list.items[i].second));
  }
  if (list.items.size() > limit) {
    list.warnings.push_back(
        fmt::format("{} of {} items are left out", list.items.size() - limit, list.items.size()));
  }
  json["items"] = std::move(items);
  json["warnings"] = list.warnings;
  return json_text(json);
}

std::string plural(const std::string& kind) {
  return !kind.empty() && kind.back() == 's' ? kind : kind + "s";
}

}  // namespace

Result<std::string> list_json(const HeadTables& tables, const std::string& kind) {
  auto list = listing_of(tables, kind);
  if (!list) return list.error();
  return list_text(tables, std::move(*list));
}

Result<std::string> get_json(const HeadTables& tables, const std::string& kind,
                             const std::string& id) {
  auto list = listing_of(tables, plural(kind));
  if (!list) return list.error();
  const Json* found = nullptr;
  for (const auto& [key, item] : list->items) {
    if (!is_id_or_prefix(key, id)) continue;
    if (found != nullptr) {
      return failure(
          ErrorCode::invalid_argument,
          fmt::format("get {} {}: more than one id begins with these digits; give more of them",
                      kind, id));
    }
    found = &item;
  }
  if (found == nullptr) {
    const char* hint =
        id.size() < shortest_id_prefix ? "; an id prefix needs at least 4 digits" : "";
    return failure(ErrorCode::not_found,
                   fmt::format("get {} {}: no such id{}; `mobula list {}` shows the ids", kind, id,
                               hint, plural(kind)));
  }
  Json json = document(list->kind.substr(0, list->kind.size() - std::string("List").size()));
  json.update(*found);
  json["warnings"] = list->warnings;
  return json_text(json);
}

Result<std::string> objects_json(const HeadTables& tables,
                                 const std::vector<ObjectQuery::Item>& items, const std::string& id,
                                 std::vector<std::string> warnings) {
  Listing list;
  list.kind = "ObjectList";
  list.warnings = std::move(warnings);
  for (const auto& [node, object] : items) {
    list.items.emplace_back(object.object.hex(), Json{{"object_id", object.object.hex()},
                                                      {"state", state_of(object)},
                                                      {"node_id", node.hex()},
                                                      {"size_bytes", object.size_bytes},
                                                      {"job_id", id_json(object.job)},
                                                      {"home", id_json(object.home)},
                                                      {"processes", object.processes},
                                                      {"nodes", object.nodes}});
  }
  if (!id.empty()) {
    // One object may have replicas on several nodes. All of them match.
    std::erase_if(list.items, [&](const auto& each) { return !each.first.starts_with(id); });
    if (list.items.empty()) {
      return failure(ErrorCode::not_found,
                     fmt::format("get object {}: no node has such an object in its store", id));
    }
  }
  return list_text(tables, std::move(list));
}

StateCounts state_counts(const HeadTables& tables) {
  StateCounts counts;
  for (const auto& [id, node] : tables.nodes.rows()) {
    if (node.slots_allowed()) ++counts.nodes[state_of(node)];
  }
  for_each_job(tables, [&](const Job& job) { ++counts.jobs[state_of(tables, job)]; });
  for (const auto& [id, actor] : tables.actors.rows()) {
    if (!actor.spec().entry.given()) ++counts.actors[state_of(actor)];
  }
  for (const auto& [id, group] : tables.groups.rows())
    ++counts.groups[std::string(to_string(group.state))];
  return counts;
}

namespace {

// Networks of the nodes, with the number of nodes in each.
Json fabrics_json(const HeadTables& tables) {
  std::map<std::string, std::int64_t> fabrics;
  for (const auto& [id, node] : tables.nodes.rows()) {
    if (node.registered() && node.slots_allowed()) ++fabrics[fabric_of(tables, node)];
  }
  Json json = Json::array();
  for (const auto& [name, count] : fabrics) {
    json.push_back({{"name", name}, {"encrypted", name.empty()}, {"nodes", count}});
  }
  return json;
}

// `add_waiting` adds the requests that wait.
Json status_document(const HeadTables& tables, const scheduler::Use& use,
                     const std::function<void(Json&)>& add_waiting) {
  Json json = document("Status");
  const auto& options = tables.options;
  json["cluster_name"] = options.settings.cluster_name;
  json["version"] = options.version;
  json["address"] = options.address;
  json["state"] = !tables.serving             ? "STARTING"
                  : tables.nodes.recovering() ? "RECOVERING"
                                              : "RUNNING";
  json["epoch"] = tables.epoch;
  if (!options.http_url.empty()) {
    json["http"] = {{"url", options.http_url}, {"token_file", options.http_token_file}};
  }
  const StateCounts counts = state_counts(tables);
  json["nodes"] = counts.nodes;
  json["resources"] = use_json(use);
  json["gpus"] = gpus_json(tables.nodes);
  json["jobs"] = counts.jobs;
  json["languages"] = running_languages(tables);
  json["actors"] = counts.actors;
  json["leases"] = tables.slots.rows().size();
  json["transfers"] = counts_json(tables.transfer_counts.of_cluster());
  json["fabrics"] = fabrics_json(tables);
  const auto& preempted = tables.slots.preemptions();
  json["preemption"] = {{"policy", options.preempt_delay ? "lower-priority" : "off"},
                        {"asked", preempted.requested},
                        {"refused", preempted.refused}};
  add_waiting(json);
  if (tables.experiments.size() > 0) json["experiments"] = tables.experiments.size();
  if (tables.fleet.is_current()) json["autoscaler"] = tables.fleet.line();
  json["warnings"] = Json::array();
  if (tables.nodes.recovering()) {
    json["warnings"].push_back(
        fmt::format("the head is recovering and waits for {} nodes", tables.nodes.expected()));
  }
  for (const auto& [id, node] : tables.nodes.rows()) {
    if (!node.pressure.on || !node.registered()) continue;
    json["warnings"].push_back(fmt::format("node {} is {}", id.brief(), pressure_text(node)));
  }
  for (const std::string& each : tables.links.warnings()) json["warnings"].push_back(each);
  if (!tables.journal.fault().empty()) {
    json["warnings"].push_back(
        "the journal cannot be written, so jobs, named "
        "actors and tokens are refused: " +
        tables.journal.fault());
  }
  return json;
}

}  // namespace

std::string status_json(const HeadTables& tables) {
  return json_text(status_document(tables, tables.scheduler.cluster_use(), [&](Json& json) {
    Json pending = Json::array();
    for (const auto& [key, row] : tables.slots.demands()) {
      if (row.demand.wanted_slots > 0 && pending.size() < tables.options.max_listed) {
        pending.push_back(demand_json(tables, row));
      }
    }
    json["pending"] = std::move(pending);
    json["waiting"] = waiting_json(tables);
  }));
}

void add_status_part(const HeadTables& tables, const ListPart& part, Json& json) {
  json = status_document(tables, shared_use(tables),
                         [&](Json& status) { add_waiting_part(tables, part, status); });
}

std::string named_actors_json(const HeadTables& tables, const std::string& name_space) {
  Listing list;
  list.kind = "NamedActorList";
  for (const auto& [id, actor] : tables.actors.rows()) {
    if (!tables.actors.has_name(actor)) continue;
    if (!name_space.empty() && actor.name_space != name_space) continue;
    list.items.emplace_back(id.hex(), Json{{"name", actor.spec().name},
                                           {"name_space", actor.name_space},
                                           {"actor_id", id.hex()},
                                           {"class_name", actor.spec().class_name},
                                           {"state", state_of(actor)}});
  }
  return list_text(tables, std::move(list));
}

std::string pong_json(const HeadTables& tables) {
  const auto now_ms = wall_ms(tables, tables.now);
  Json json = document("Pong");
  json["version"] = tables.options.version;
  json["protocol"] = {{"oldest", own_protocol.oldest}, {"newest", own_protocol.newest}};
  json["time"] = utc_text(now_ms);
  json["time_ms"] = now_ms;
  json["warnings"] = Json::array();
  return json_text(json);
}

std::string done_json(const std::string& kind, const std::vector<std::string>& warnings) {
  Json json = document(kind);
  json["warnings"] = warnings;
  return json_text(json);
}

}  // namespace mobula::internal::head
