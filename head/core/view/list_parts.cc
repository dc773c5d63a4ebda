// Parts of lists, for readers that show few rows: see list_part.h.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "head/core/view/devices/gpu_map_json.h"
#include "head/core/view/devices/usage_json.h"
#include "head/core/view/documents.h"
#include "head/core/view/list_part.h"
#include "head/core/view/requests/group_json.h"
#include "head/core/view/state_json.h"

namespace mobula::internal::head {
namespace {

void add_actors_part(const HeadTables& tables, const ListPart& part, Json& json) {
  std::vector<const Actor*> all;
  for (const auto& [id, actor] : tables.actors.rows()) {
    if (!actor.spec().entry.given()) all.push_back(&actor);
  }
  const auto text_of = [](const Actor& actor) {
    const ActorSpec& spec = actor.spec();
    return fmt::format("{} {} {} {} {} {}", state_of(actor), spec.class_name, spec.name,
                       spec.actor.hex(), actor.node.empty() ? "" : actor.node.hex(),
                       spec.job.hex());
  };
  const auto urgency_of = [](const Actor& actor) { return urgency(state_of(actor)); };
  add_part(json, part, all, urgency_of, text_of,
           [&](const Actor& actor) { return listed_actor_json(tables, actor); });
}

void add_nodes_part(const HeadTables& tables, const ListPart& part, Json& json) {
  std::vector<const Node*> all;
  for (const auto& [id, node] : tables.nodes.rows()) {
    if (node.slots_allowed()) all.push_back(&node);
  }
  const auto text_of = [](const Node& node) {
    return fmt::format("{} {} {} {}", node.host, node.address.control, node.id.hex(),
                       state_of(node));
  };
  const auto urgency_of = [](const Node& node) { return urgency(state_of(node)); };
  json["use"] = sampled_sums_json(tables);
  add_part(json, part, all, urgency_of, text_of, [&](const Node& node) {
    const bool pressed = node.pressure.on && node.registered();
    return Json{{"node_id", node.id.hex()},
                {"state", state_of(node)},
                {"address", node.address.control},
                {"host", node.host},
                {"resources", use_json(tables.scheduler.node_use(node.id))},
                {"use", sampled_use_json(tables, node.id)},
                {"reason", pressed ? pressure_text(node) : node.death}};
  });
}

// A job, and its row if it was submitted.
struct JobItem {
  Job job;
  const SubmissionRow* submission = nullptr;
};

// Without the command of a submitted job, which may have 512 KiB.
void add_jobs_part(const HeadTables& tables, const ListPart& part, Json& json) {
  std::vector<JobItem> items;
  for_each_job(tables, [&](const Job& job) {
    items.push_back({job, tables.submissions.find(job.start.job)});
  });
  std::ranges::stable_sort(items, std::greater<>(), [](const JobItem& item) {
    return item.submission == nullptr ? item.job.start.started_ms : item.submission->submitted_ms;
  });
  std::vector<const JobItem*> all;
  for (const auto& item : items) all.push_back(&item);
  const auto text_of = [&](const JobItem& item) {
    return fmt::format("{} {} {} {}", state_of(tables, item.job), item.job.start.name,
                       item.job.start.job.hex(),
                       item.submission == nullptr ? "driver" : "submitted");
  };
  const auto urgency_of = [&](const JobItem& item) { return urgency(state_of(tables, item.job)); };
  add_part(json, part, all, urgency_of, text_of, [&](const JobItem& item) {
    Json row = job_json(tables, item.job);
    row["submitted"] = item.submission != nullptr;
    if (item.submission != nullptr && item.submission->exit_code >= 0)
      row["exit_code"] = item.submission->exit_code;
    return row;
  });
}

void add_groups_part(const HeadTables& tables, const ListPart& part, Json& json) {
  std::vector<const Group*> all;
  for (const auto& [id, group] : tables.groups.rows()) all.push_back(&group);
  const auto text_of = [](const Group& group) {
    return fmt::format("{} {} {} {} {} {}", group.infeasible ? "INFEASIBLE" : "",
                       to_string(group.state), group.spec.name, group.spec.id.hex(),
                       to_string(group.spec.strategy), group.spec.job.hex());
  };
  const auto urgency_of = [](const Group& group) {
    return group.infeasible ? 0 : urgency(to_string(group.state));
  };
  add_part(json, part, all, urgency_of, text_of,
           [&](const Group& group) { return group_row_json(tables, group); });
}

}  // namespace

Result<std::string> list_part_json(const HeadTables& tables, const std::string& kind,
                                   const std::string& argument) {
  using AddPart = void (*)(const HeadTables&, const ListPart&, Json&);
  struct Kind {
    const char* document;
    AddPart add;
  };
  static const std::map<std::string, Kind, std::less<>> kinds{
      {"nodes", {"NodeList", &add_nodes_part}},
      {"gpus", {"GpuList", &add_gpus_part}},
      {"jobs", {"JobList", &add_jobs_part}},
      {"actors", {"ActorList", &add_actors_part}},
      {"placement-groups", {"PlacementGroupList", &add_groups_part}},
      {"status", {"Status", &add_status_part}}};
  const auto part = list_part(argument);
  if (!part) return part.error();
  const auto at = kinds.find(kind);
  if (at == kinds.end()) {
    std::string names;
    for (const auto& [name, each] : kinds) names += (names.empty() ? "" : ", ") + name;
    return failure(ErrorCode::not_found, "list " + kind + ": only these have parts: " + names);
  }
  Json json = document(at->second.document);
  at->second.add(tables, *part, json);
  if (!json.contains("warnings")) json["warnings"] = Json::array();
  return json_text(json);
}

}  // namespace mobula::internal::head
