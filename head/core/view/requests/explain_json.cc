#include "head/core/view/requests/explain_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "head/core/query/id_prefix.h"
#include "head/core/view/documents.h"
#include "head/core/view/requests/group_json.h"
#include "head/core/view/requests/request_json.h"
#include "head/core/view/requests/submission_json.h"

namespace mobula::internal::head {
namespace {

Json reason_json(const NodeReason& each) {
  return {{"node_id", each.node.hex()},
          {"code", to_string(each.reason.code)},
          {"what", each.reason.what},
          {"needed", number(each.reason.needed)},
          {"available", number(each.reason.available)},
          {"reason", to_string(each.reason)}};
}

// Holder of a blocking slot.
Json holder_json(const HeadTables& tables, const scheduler::Slot& slot) {
  Json json = {
      {"slot_id", slot.id.hex()}, {"node_id", slot.node.hex()}, {"job_id", id_json(slot.job)}};
  const auto is = [&](const char* kind, const std::string& name, const std::string& id) {
    json["held_by"] = kind;
    json["name"] = name;
    json["id"] = id;
  };
  const Actor* actor = tables.actors.find(slot.actor);
  const Slot* row = tables.slots.find(slot.id);
  if (!slot.bundle_of.empty()) {
    const Group* group = tables.groups.find(slot.bundle_of);
    is("placement group", group == nullptr ? "" : group->spec.name, slot.bundle_of.hex());
  } else if (!slot.actor.empty()) {
    is("actor", actor == nullptr ? "" : actor->spec().class_name, slot.actor.hex());
  } else {
    is("task", row == nullptr ? "" : row->name, slot.class_id.hex());
  }
  const bool recalled = row != nullptr && (row->recalled || row->stopping);
  json["recalled"] = recalled;
  if (row != nullptr && row->residence.any()) {
    is("result", row->name, row->residence.oldest.hex());
    json["results"] = row->residence.results;
    json["bytes"] = row->residence.bytes;
    json["evacuating"] = recalled;
  }
  json["resources"] = resources_json(scheduler::amounts_of(slot.allocation));
  return json;
}

// Slots that must end before the request fits.
Json holders_json(const HeadTables& tables, const std::vector<SlotId>& slots) {
  Json holders = Json::array();
  for (const auto id : slots) {
    if (holders.size() >= tables.options.max_listed) break;
    holders.push_back(holder_json(tables, *tables.scheduler.find_slot(id)));
  }
  return holders;
}

std::string leases_text(std::size_t count, const char* where) {
  return fmt::format("{} of {} leases {} ended", count, where, count == 1 ? "has" : "have");
}

// Text about blocking slots that only hold results: their owners and their future. Empty if no such
// slot exists.
std::string residents_text(const HeadTables& tables, const std::vector<SlotId>& slots) {
  std::string text;
  for (const auto id : slots) {
    const Slot* row = tables.slots.find(id);
    if (row == nullptr || !row->residence.any()) continue;
    const auto& residence = row->residence;
    const auto more =
        residence.results == 1 ? std::string() : fmt::format(" and {} more", residence.results - 1);
    text += fmt::format("{}held by result {}{} ({} bytes), {}", text.empty() ? "" : "; ",
                        residence.oldest.hex(), more, residence.bytes,
                        row->recalled || row->stopping ? "evacuating" : "to be evacuated");
  }
  return text;
}

// Requirements for a new node, for a request that no node can hold.
Json node_needed_json(const Request& request, scheduler::Tenant tenant) {
  const scheduler::Need need(request, tenant);
  return {{"resources", resources_json(scheduler::most_held_by(need))},
          {"gpu_memory_bytes", request.gpu_memory},
          {"accelerator_types", need.types},
          {"labels", request.label_selector}};
}

// All label conditions of bundles on one node: by label, a condition or a list of conditions.
Json labels_of_all(const std::vector<const Request*>& bundles) {
  Json labels = Json::object();
  for (const auto* bundle : bundles) {
    for (const auto& [key, selector] : bundle->label_selector) {
      Json& known = labels[key];
      if (known.is_null()) {
        known = selector;
      } else if (known.is_string() && known != selector) {
        known = Json::array({known, selector});
      } else if (known.is_array() && std::ranges::find(known, Json(selector)) == known.end()) {
        known.push_back(selector);
      }
    }
  }
  return labels;
}

// Requirements for the unplaced bundles of a group: one node per bundle, or one for a STRICT_PACK
// group.
Json nodes_needed_json(const GroupSpec& spec, const std::vector<std::int32_t>& left_over) {
  Json nodes = Json::array();
  const auto bundle_at = [&](std::int32_t i) -> const Request& {
    return spec.bundles[static_cast<std::size_t>(i)];
  };
  if (spec.strategy == GroupStrategy::strict_pack) {
    ResourceSet sum;
    Json node = {{"count", 1}, {"gpu_memory_bytes", 0}, {"accelerator_types", Json::array()}};
    std::vector<const Request*> bundles;
    for (const auto i : left_over) {
      const scheduler::Need need(bundle_at(i), scheduler::Tenant::bundle);
      scheduler::add_at_most(sum, scheduler::most_held_by(need));
      node["gpu_memory_bytes"] =
          std::max(node["gpu_memory_bytes"].get<std::int64_t>(), bundle_at(i).gpu_memory);
      for (const auto& type : need.types) {
        if (std::ranges::find(node["accelerator_types"], Json(type)) ==
            node["accelerator_types"].end()) {
          node["accelerator_types"].push_back(type);
        }
      }
      bundles.push_back(&bundle_at(i));
    }
    node["labels"] = labels_of_all(bundles);
    node["resources"] = resources_json(sum);
    nodes.push_back(std::move(node));
    return nodes;
  }
  // Pairs of the first bundle of each kind and the number of such bundles.
  std::vector<std::pair<std::int32_t, int>> kinds;
  for (const auto i : left_over) {
    const auto same = std::ranges::find_if(
        kinds, [&](const auto& each) { return bundle_at(each.first) == bundle_at(i); });
    if (same != kinds.end()) {
      ++same->second;
    } else {
      kinds.emplace_back(i, 1);
    }
  }
  for (const auto& [bundle, count] : kinds) {
    Json node = node_needed_json(bundle_at(bundle), scheduler::Tenant::bundle);
    node["count"] = count;
    nodes.push_back(std::move(node));
  }
  return nodes;
}

std::string nodes_text(const std::set<NodeId>& nodes) {
  std::string text;
  for (const auto& node : nodes) text += (text.empty() ? "" : ", ") + node.hex();
  return (nodes.size() == 1 ? "node " : "nodes ") + text;
}

std::string reserved_text(const scheduler::GroupExplanation& explanation) {
  return fmt::format("capacity is reserved for it on {}, until {} slot{} there return{}",
                     nodes_text(explanation.reserved), explanation.slots_to_return,
                     explanation.slots_to_return == 1 ? "" : "s",
                     explanation.slots_to_return == 1 ? "s" : "");
}

}  // namespace

std::string reason_of(const scheduler::GroupExplanation& explanation) {
  if (explanation.bundles.empty()) return "all bundles are placed";
  if (explanation.held_back) return to_string(*explanation.held_back);
  if (!explanation.reserved.empty()) return reserved_text(explanation);
  if (explanation.fits_now) return "it fits now";
  if (!explanation.feasible) return explanation.shortage;
  if (!explanation.blockers) return "it fits when running work has ended";
  return fmt::format("it fits on {} when {}", nodes_text(explanation.blocker_nodes),
                     leases_text(explanation.blockers->size(),
                                 explanation.blocker_nodes.size() == 1 ? "its" : "their"));
}

namespace {

// Requested resources summed over all nodes, without dead ones.
Json sums_json(const HeadTables& tables, const ResourceSet& requested) {
  const auto use = tables.scheduler.cluster_use();
  Json sums = Json::object();
  for (const auto& [name, needed] : requested.amounts()) {
    const auto at = use.find(name);
    const auto all = at == use.end() ? scheduler::ResourceUse() : at->second;
    sums[name] = {{"needed", number(needed)},
                  {"available", number(all.available)},
                  {"total", number(all.total)}};
  }
  return sums;
}

// Requests that would precede this one if enough resources for all of them were free.
Json queue_json(const scheduler::QueuePosition& position) {
  std::string text;
  const auto add = [&](std::int64_t count, const char* one, const char* many) {
    if (count > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, count == 1 ? one : many);
  };
  add(position.higher_priority, "request of jobs of a higher priority",
      "requests of jobs of a higher priority");
  add(position.smaller_share, "request of jobs with a smaller share or a longer wait",
      "requests of jobs with a smaller share or a longer wait");
  add(position.own_job, "request of the same job", "requests of the same job");
  add(position.groups, "placement group", "placement groups");
  if (text.empty()) text = "nothing";
  if (position.at_least) text = "at least " + text;
  return {{"before", position.before()},
          {"higher_priority", position.higher_priority},
          {"smaller_share", position.smaller_share},
          {"own_job", position.own_job},
          {"placement_groups", position.groups},
          {"at_least", position.at_least},
          {"text", std::move(text)}};
}

// Checks the job of a request. An empty id means a job without terms.
Result<void> check_job(const HeadTables& tables, JobId job) {
  if (job.empty() || tables.jobs.works(job)) return {};
  return failure(
      ErrorCode::not_found,
      fmt::format("request: job_id {}: no such job runs; `mobula list jobs` has them", job.hex()));
}

void add_warnings(const HeadTables& tables, Json& json) {
  if (!json.contains("warnings")) json["warnings"] = Json::array();
  if (tables.nodes.recovering()) {
    json["warnings"].push_back("the head is recovering: more nodes may come");
  }
}

// Adds what the autoscaler does for the waiting request.
void add_fleet_reason(const std::string& reason, Json& json) {
  if (reason.empty()) return;
  json["autoscaler"] = reason;
  json["reason"] = fmt::format("{}; autoscaler: {}", json["reason"].get<std::string>(), reason);
}

// Explains a group, whether it exists or is hypothetical: for each unplaced bundle, the first rule
// that rejects it on each node. Equal bundles are listed once, under the index of the first.
Json group_explanation_of(const HeadTables& tables, const GroupSpec& spec, Json subject) {
  const auto explanation = tables.scheduler.explain(spec);
  Json json = document("Explanation");
  json["subject"] = std::move(subject);
  ResourceSet sum;
  for (const auto& bundle : spec.bundles) {
    scheduler::add_at_most(
        sum, scheduler::most_held_by(scheduler::Need(bundle, scheduler::Tenant::bundle)));
  }
  json["resources"] = resources_json(sum);
  json["all_nodes"] = sums_json(tables, sum);
  json["strategy"] = to_string(spec.strategy);
  json["feasible"] = explanation.feasible;
  json["fits_now"] = explanation.fits_now;
  json["reason"] = reason_of(explanation);
  json["priority"] = spec.priority;
  if (explanation.feasible && !explanation.bundles.empty())
    json["queue"] = queue_json(tables.scheduler.position_in_queue(spec));
  json["items"] = Json::array();
  std::size_t left_out = 0;
  for (const auto& bundle : explanation.bundles) {
    for (const auto& each : bundle.nodes) {
      if (json["items"].size() >= tables.options.max_listed) {
        ++left_out;
        continue;
      }
      Json item = {{"bundle", bundle.bundle}};
      if (bundle.alike > 0) item["alike"] = bundle.alike;
      item.update(reason_json(each));
      json["items"].push_back(std::move(item));
    }
  }
  if (explanation.blockers) json["holders"] = holders_json(tables, *explanation.blockers);
  if (!explanation.left_over.empty())
    json["nodes_needed"] = nodes_needed_json(spec, explanation.left_over);
  add_fleet_reason(tables.fleet.reason_of(spec.id), json);
  json["warnings"] = Json::array();
  if (left_out > 0) {
    json["warnings"].push_back(
        fmt::format("{} reasons of bundles and nodes are left out", left_out));
  }
  add_warnings(tables, json);
  return json;
}

}  // namespace

Json explanation_of(const HeadTables& tables, const DemandClass& demand, scheduler::Tenant tenant,
                    Json subject, const std::vector<NodeId>& callers) {
  const auto explanation = tables.scheduler.explain(demand, tenant, callers);
  const auto fits = [](const NodeReason& each) { return each.reason.code == ReasonCode::fits; };
  const bool fits_now = !explanation.held_back && std::ranges::any_of(explanation.nodes, fits);
  Json json = document("Explanation");
  json["subject"] = std::move(subject);
  add_request(json, demand.request);
  json["all_nodes"] =
      sums_json(tables, scheduler::most_held_by(scheduler::Need(demand.request, tenant)));
  json["priority"] = demand.request.priority;
  if (explanation.feasible)
    json["queue"] = queue_json(tables.scheduler.position_in_queue(demand, tenant));
  json["feasible"] = explanation.feasible;
  json["fits_now"] = fits_now;
  if (explanation.held_back && (explanation.feasible || explanation.never_allowed)) {
    json["reason"] = to_string(*explanation.held_back);
  } else {
    const bool drains =
        !explanation.blockers && std::ranges::any_of(explanation.nodes, [](const NodeReason& each) {
          return each.reason.code == ReasonCode::node_draining;
        });
    const auto cut = std::ranges::find(explanation.nodes, ReasonCode::link_cut,
                                       [](const NodeReason& each) { return each.reason.code; });
    const bool waits_for_link = !explanation.blockers && cut != explanation.nodes.end();
    json["reason"] =
        fits_now                ? "it fits now"
        : !explanation.feasible ? summary_of(demand.request, explanation.nodes)
        : drains                ? "it fits when a draining node is undrained"
        : waits_for_link
            ? fmt::format("it fits when the link between node {} and node {} works again",
                          cut->reason.what, cut->node.hex())
            : "it fits when running work has ended";
  }
  if (fits_now) json["would_start_on"] = id_json(tables.scheduler.choice(demand, tenant, callers));
  json["items"] = Json::array();
  for (const auto& each : explanation.nodes) json["items"].push_back(reason_json(each));
  if (const auto& blockers = explanation.blockers; blockers && !explanation.held_back) {
    json["reason"] = fmt::format("it fits on node {} when {}", blockers->node.hex(),
                                 leases_text(blockers->slots.size(), "its"));
    if (const auto residents = residents_text(tables, blockers->slots); !residents.empty()) {
      json["reason"] = fmt::format("{}: {}", json["reason"].get<std::string>(), residents);
    }
    json["holders"] = holders_json(tables, blockers->slots);
  }
  if (!explanation.feasible && !explanation.never_allowed &&
      demand.request.placement.group.empty() && !insists_on_node(demand.request)) {
    json["node_needed"] = node_needed_json(demand.request, tenant);
  }
  const Group* group = tables.groups.find(demand.request.placement.group);
  if (group != nullptr && group->state == GroupState::pending) {
    const Json why = group_explanation_of(tables, group->spec, nullptr);
    json["feasible"] = why["feasible"];
    json["reason"] = "its placement group waits: " + why["reason"].get<std::string>();
  }
  add_fleet_reason(tables.fleet.reason_of(demand.id), json);
  add_warnings(tables, json);
  return json;
}

namespace {

// Interprets a typed request, because many of its values may be defaults.
std::string request_text(const Request& request, const std::string& typed) {
  const std::string needs = to_string(scheduler::Need(request, scheduler::Tenant::task));
  if (needs == "nothing") {
    return "no resources at all: any node that takes work and that its labels and strategy allow "
           "can run it, however busy "
           "its devices are; a task without num_cpus requests 1 CPU";
  }
  const bool is_given = Json::parse(typed, nullptr, false).contains("num_cpus");
  return needs + (is_given ? "" : "; a task without num_cpus requests 1 CPU");
}

// Explanation for an actor that does not wait.
Json settled_actor_json(const HeadTables& tables, const Actor& actor) {
  Json json = document("Explanation");
  json["subject"] = actor_json(actor);
  json["feasible"] = true;
  json["fits_now"] = false;
  json["reason"] = actor.state == ActorState::dead ? "it is dead: " + to_string(actor.cause)
                   : actor.slot.empty()            ? "it awaits placement"
                   : actor.state == ActorState::alive
                       ? "it runs on node " + actor.node.hex()
                       : fmt::format("it starts on node {}", actor.node.hex());
  json["items"] = Json::array();
  add_warnings(tables, json);
  return json;
}

}  // namespace

namespace {

std::string course_of(const SubmissionRow& row) {
  if (row.state == SubmissionState::running) return "it runs on node " + row.node.hex();
  const std::string why = row.reason.empty() ? "" : ": " + row.reason;
  if (row.state == SubmissionState::pending) return "it awaits placement" + why;
  const bool reached =
      row.state == SubmissionState::succeeded || row.state == SubmissionState::failed;
  return fmt::format("it {} {}{}", reached ? "has" : "is", to_string(row.state), why);
}

// Explanation for a submitted job: if it waits, that of its actor.
Json submission_explanation(const HeadTables& tables, const SubmissionRow& row) {
  const Actor* actor = tables.actors.find(SubmissionTable::entry_of(row.job));
  if (row.state == SubmissionState::pending && actor != nullptr && actor->waits) {
    return explanation_of(tables, actor->spec().demand, scheduler::Tenant::actor,
                          submission_json(row), tables.actors.callers_of(*actor));
  }
  Json json = document("Explanation");
  json["subject"] = submission_json(row);
  json["feasible"] = true;
  json["fits_now"] = false;
  json["reason"] = course_of(row);
  json["items"] = Json::array();
  add_warnings(tables, json);
  return json;
}

bool is_name(const std::string& argument) {
  const auto begin = argument.find_first_not_of(" \t\r\n");
  return begin != std::string::npos && argument[begin] != '{' && argument[begin] != '[';
}

// Explains the actor, group, or demand class with this id. `argument` is the text of the user.
Result<std::string> explanation_of_id(const HeadTables& tables, const Hash128& bits,
                                      const std::string& argument) {
  if (const Actor* actor = tables.actors.find(ActorId(bits))) {
    if (!actor->waits) return json_text(settled_actor_json(tables, *actor));
    return json_text(explanation_of(tables, actor->spec().demand, scheduler::Tenant::actor,
                                    actor_json(*actor), tables.actors.callers_of(*actor)));
  }
  if (const Group* group = tables.groups.find(GroupId(bits))) {
    return json_text(
        group_explanation_of(tables, group->spec, group_json(*group, tables.scheduler)));
  }
  for (const auto& [key, row] : tables.slots.demands()) {
    if (key.second != ClassId(bits)) continue;
    return json_text(explanation_of(tables, row.demand.demand_class, scheduler::Tenant::task,
                                    demand_json(tables, row),
                                    {tables.processes.node_of(key.first)}));
  }
  if (tables.jobs.find(JobId(bits)) != nullptr) {
    return failure(
        ErrorCode::not_found,
        fmt::format("explain {0}: the job of a program does not wait itself; explain one of "
                    "its tasks, which `mobula list tasks --filter job_id={0}` lists",
                    JobId(bits).hex()));
  }
  return failure(
      ErrorCode::not_found,
      fmt::format(
          "explain {}: no submitted job, no actor and no placement group has this id, and no "
          "task of such a class waits for a slot",
          argument));
}

}  // namespace

Result<std::string> explain_json(const HeadTables& tables, const std::string& argument) {
  if (const auto job = tables.submissions.resolve(argument)) {
    return json_text(submission_explanation(tables, *tables.submissions.find(*job)));
  } else if (job.error().code == ErrorCode::invalid_argument) {
    return job.error();
  }
  std::string id = argument;
  if (const auto ids = known_ids(tables, argument); !ids.empty()) {
    if (ids.size() > 1) {
      return failure(
          ErrorCode::invalid_argument,
          fmt::format("explain {}: more than one id begins with these digits; give more of them",
                      argument));
    }
    id = *ids.begin();
  }
  if (const auto bits = bits_from_hex(id)) return explanation_of_id(tables, *bits, argument);
  if (is_name(argument)) {
    return failure(
        ErrorCode::not_found,
        fmt::format(
            "explain {}: no submitted job has this id or name, and a request is a JSON object as "
            "'{{\"num_gpus\": 2}}'; actors, tasks and placement groups are named by their ids",
            argument.substr(0, 200)));
  }
  auto requested = shape_from_json(argument);
  if (!requested) return requested.error();
  if (const auto* group = std::get_if<GroupSpec>(&*requested)) {
    if (auto checked = check_job(tables, group->job); !checked) return checked.error();
    return json_text(group_explanation_of(tables, *group, nullptr));
  }
  auto& about = std::get<ParsedRequest>(*requested);
  if (auto checked = check_job(tables, about.job); !checked) return checked.error();
  DemandClass demand;
  demand.job = about.job;
  demand.request = std::move(about.request);
  const Job* job = tables.jobs.find(about.job);
  Json json = explanation_of(tables, demand, scheduler::Tenant::task, nullptr,
                             job == nullptr ? std::vector<NodeId>() : std::vector{job->node});
  json["asks"] = request_text(demand.request, argument);
  return json_text(json);
}

}  // namespace mobula::internal::head
