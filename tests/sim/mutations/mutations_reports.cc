// Mutations of reports of the head: plans of demands, and reasons.
#include <nlohmann/json.hpp>

#include "protocol/codec/messages.h"
#include "sim/mutations/mutations.h"

namespace mobula::internal::sim {
namespace {

template <class Change>
Hooks plans_change(Change change) {
  Hooks hooks;
  hooks.head.out = [change](std::vector<head::Command>& commands) {
    for (auto& each : commands) {
      auto* send = std::get_if<head::SendToAgent>(&each);
      auto* frame = send ? std::get_if<HeadFrame>(&send->message) : nullptr;
      if (frame == nullptr || !frame->frame.message) continue;
      auto* relay = std::get_if<ToProcess>(&frame->frame.message->edit());
      auto* plan = relay ? std::get_if<DemandPlanned>(&relay->message) : nullptr;
      if (plan != nullptr) change(*plan);
    }
  };
  return hooks;
}

Hooks starting_slots_are_not_named() {
  return plans_change([](DemandPlanned& plan) { plan.starting.clear(); });
}
Hooks plans_are_outdated() {
  return plans_change([](DemandPlanned& plan) { --plan.version; });
}

Hooks reasons_are_dropped() {
  Hooks hooks;
  hooks.head.out = [](std::vector<head::Command>& commands) {
    for (auto& each : commands) {
      auto* reply = std::get_if<head::ReplyToTool>(&each);
      auto json =
          reply ? nlohmann::json::parse(reply->reply.json, nullptr, false) : nlohmann::json();
      if (!json.is_object() || !json.contains("waiting")) continue;
      for (auto& item : json["waiting"]) item["text"] = "";
      reply->reply.json = json.dump();
    }
  };
  return hooks;
}

}  // namespace

std::vector<Mutation> report_mutations() {
  return {
      {"head does not name slots that start", {"spread"}, starting_slots_are_not_named},
      {"head reports the plan of an earlier demand", {"spread"}, plans_are_outdated},
      {"head drops reasons", {"groups", "fairness"}, reasons_are_dropped},
  };
}

}  // namespace mobula::internal::sim
