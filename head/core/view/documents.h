// Parts that several JSON documents of the head share.
// Thread: any. Not: for sources outside this directory.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/model/request.h"
#include "base/text/json_writer.h"
#include "head/core/head_tables.h"
#include "scheduler/queues/need.h"

namespace mobula::internal::head {

using Json = nlohmann::ordered_json;

inline Json document(const std::string& kind) {
  return {{"apiVersion", "mobula/v1"}, {"kind", kind}};
}

inline Json number(Quantity amount) {
  if (amount.is_whole()) return amount.units() / Quantity::units_per_one;
  return amount.to_double();
}

template <class Tag>
Json id_json(const Id<Tag>& id) {
  return id.empty() ? Json(nullptr) : Json(id.hex());
}

inline Json resources_json(const ResourceSet& resources) {
  Json json = Json::object();
  for (const auto& [name, amount] : resources.amounts()) json[name] = number(amount);
  return json;
}

// Adds the fields of a request: `resources` and, if set, `to_place` (totals that a node must have,
// which are not allocated), `gpu_memory` (per device), `accelerator_type`, and `label_selector`.
inline void add_request(Json& json, const Request& request) {
  json["resources"] = resources_json(request.resources);
  if (!request.required_totals.empty()) json["to_place"] = resources_json(request.required_totals);
  if (request.gpu_memory > 0) json["gpu_memory"] = request.gpu_memory;
  if (!request.accelerator_type.empty()) json["accelerator_type"] = request.accelerator_type;
  if (!request.label_selector.empty()) json["label_selector"] = request.label_selector;
}

// States as they appear in lists.
std::string state_of(const Node& node);
std::string state_of(const Actor& actor);
std::string state_of(const HeadTables& tables, const Job& job);
const char* state_of(const Slot& slot);
std::string pressure_text(const Node& node);

// Visits all jobs, also submitted ones that only the history knows, as after a restart of the head.
void for_each_job(const HeadTables& tables, const std::function<void(const Job&)>& visit);

// Items as they appear in lists.
Json use_json(const scheduler::Use& use);
Json job_json(const HeadTables& tables, const Job& job);
Json actor_json(const Actor& actor);
// With the reason why it waits.
Json listed_actor_json(const HeadTables& tables, const Actor& actor);

// Sets the document to the status with a part of the waiting requests: see waiting_json.h.
struct ListPart;
void add_status_part(const HeadTables& tables, const ListPart& part, Json& json);
Json demand_json(const HeadTables& tables, const DemandRow& row);

// Explains why a demand gets no slot now: the limit of its job, and for each node the first rule
// that rejects it. `callers` are nodes that must reach it, if known.
Json explanation_of(const HeadTables& tables, const DemandClass& demand, scheduler::Tenant tenant,
                    Json subject, const std::vector<NodeId>& callers = {});

}  // namespace mobula::internal::head
