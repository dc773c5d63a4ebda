#include "cli/commands/nodes/plan_command.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/text/json_writer.h"
#include "cli/exit_code.h"
#include "cli/head_query.h"
#include "cli/output/output.h"
#include "cli/output/pager.h"
#include "cli/tool_client.h"
#include "deploy/fleet/node_types.h"
#include "scheduler/planner/planner.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

Json number(Quantity amount) {
  if (amount.is_whole()) return amount.units() / Quantity::units_per_one;
  return amount.to_double();
}

Json resources_json(const ResourceSet& resources) {
  Json json = Json::object();
  for (const auto& [name, amount] : resources.amounts()) json[name] = number(amount);
  return json;
}

Json unserved_json(const planner::Unserved& each, const fleet::PlannerState& state) {
  const auto id = !each.group.empty()      ? each.group.hex()
                  : !each.class_id.empty() ? each.class_id.hex()
                                           : std::string();
  const auto name = state.names.find(id);
  Json json = {{"kind", !each.group.empty() ? "placement-group"
                        : id.empty()        ? "request"
                                            : "slots"},
               {"id", id.empty() ? Json(nullptr) : Json(id)},
               {"name", name == state.names.end() ? "" : name->second},
               {"count", each.count}};
  if (each.group.empty()) json["resources"] = resources_json(each.request.resources);
  json["reason"] = each.why;
  return json;
}

std::string causes_of(const Json& launch) {
  std::string text;
  const auto add = [&](const char* member, const char* what) {
    const auto count = launch.value(member, std::int64_t{0});
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
  };
  add("for_minimum", "for the minimum");
  add("for_standing", "for standing requests");
  add("for_groups", "for placement groups");
  add("for_slots", "for waiting slots");
  add("later", "more after these");
  return text;
}

std::string line_of(const char* verb, const Json& each) {
  const auto name = each.value("name", std::string());
  const auto kind = each.value("kind", std::string());
  std::string what = kind == "placement-group" ? "placement group " + each["id"].get<std::string>()
                     : kind == "slots" ? fmt::format("{} x", each.value("count", std::int64_t{1}))
                                       : fmt::format("{} x standing", each.value("count", 1));
  if (each.contains("resources")) what += " " + json_text(each["resources"]);
  if (!name.empty()) what += " (" + name + ")";
  return fmt::format("{}: {}: {}\n", verb, what, each.value("reason", std::string()));
}

Result<Json> request(ToolClient& client, const std::string& verb, const std::string& kind = {}) {
  const auto text = client.request(verb, kind);
  if (!text) return text.error();
  Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object())
    return failure(ErrorCode::corrupt, "read the reply of the head: not a JSON object");
  return json;
}

Result<fleet::PlannerState> state_of_cluster(const CommandLine& line) {
  const auto cluster = find_cluster(line);
  if (!cluster) return cluster.error();
  auto client = ToolClient::open(*cluster);
  if (!client) return client.error();
  const auto document = request(*client, "planner_state");
  if (!document) return document.error();
  auto state = fleet::planner_state_of(*document);
  if (!state) return state.error();
  const auto objects = request(*client, "list", "objects");
  if (!objects) return objects.error();
  fleet::add_objects(*state, *objects);
  return state;
}

}  // namespace

Json plan_document(const planner::Plan& plan, const fleet::PlannerState& state) {
  Json json = {{"apiVersion", "mobula/v1"}, {"kind", "Plan"}, {"items", Json::array()}};
  for (const auto& each : plan.launch) {
    json["items"].push_back({{"name", each.type},
                             {"count", each.count()},
                             {"for_minimum", each.for_minimum},
                             {"for_standing", each.for_standing},
                             {"for_groups", each.for_groups},
                             {"for_slots", each.for_slots},
                             {"later", each.later}});
  }
  json["terminate"] = Json::array();
  for (const auto& each : plan.terminate) {
    json["terminate"].push_back(
        {{"node_id", each.node.hex()}, {"type", each.type}, {"idle_s", each.idle / 1s}});
  }
  json["infeasible"] = Json::array();
  for (const auto& each : plan.infeasible) json["infeasible"].push_back(unserved_json(each, state));
  json["waiting"] = Json::array();
  for (const auto& each : plan.waiting) json["waiting"].push_back(unserved_json(each, state));
  json["warnings"] = state.warnings;
  return json;
}

std::string format_plan(const Json& document) {
  std::string text;
  for (const auto& each : document["items"]) {
    text += fmt::format("launch {} of {}: {}\n", each.value("count", std::int64_t{0}),
                        each.value("name", std::string()), causes_of(each));
  }
  for (const auto& each : document["terminate"]) {
    text += fmt::format("remove {} of {}: idle for {} s\n", each.value("node_id", std::string()),
                        each.value("type", std::string()), each.value("idle_s", std::int64_t{0}));
  }
  if (text.empty()) text = "no node to launch or remove\n";
  for (const auto& each : document["infeasible"]) text += line_of("never served", each);
  for (const auto& each : document["waiting"]) text += line_of("waits", each);
  for (const auto& each : document["warnings"]) text += "note: " + each.get<std::string>() + "\n";
  return text;
}

int show_plan(const CommandLine& line) {
  const auto types = fleet::read_node_types(line.types_file);
  if (!types) return complain(types.error());
  auto state = state_of_cluster(line);
  if (!state) return complain(state.error());
  state->cluster.standing = types->standing;
  const auto document =
      plan_document(planner::plan(state->cluster, types->types, types->limits), *state);
  const auto text =
      for_people(line) ? format_plan(document) : format_document(document, line.output, "plan");
  if (print_page(text, line) != exit_done) return exit_failed;
  return document["infeasible"].empty() ? exit_done : exit_never_scheduled;
}

}  // namespace mobula::internal::cli
