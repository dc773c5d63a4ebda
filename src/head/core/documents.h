// Pieces of the head's JSON documents that several kinds of them have. For sources of this folder.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "head/core/parts.h"
#include "model/request.h"
#include "scheduler/need.h"

namespace mobula::internal::head {

using Json = nlohmann::ordered_json;

inline Json document(const std::string& kind) {
  return {{"apiVersion", "mobula/v1"}, {"kind", kind}};
}

inline Json number(Quantity amount) {
  if (amount.is_whole()) return amount.units() / Quantity::units_per_one;
  return amount.to_double();
}

// Names from outside may be no UTF-8.
inline std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
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

// Rows as lists have them.
Json actor_json(const Actor& actor);
Json demand_json(const Parts& parts, const DemandRow& row);

// Why a demand gets no slot now: what holds its job back, and per node the first rule that refuses.
Json explanation_of(const Parts& parts, const DemandClass& demand, scheduler::Tenant tenant,
                    Json subject);

}  // namespace mobula::internal::head
