#include "sim/checkers/checker_reports.h"

#include <nlohmann/json.hpp>

#include "protocol/codec/messages.h"
#include "sim/agent_role.h"
#include "sim/process_role.h"
#include "sim/world.h"

namespace mobula::internal::sim {
namespace {

constexpr Duration report_bound = 1s;
// The report of the caller passes its agent and the head.
constexpr Duration stop_bound = 25ms;

}  // namespace

// ---- messages -----------------------------------------------------------------------------------

void ReportCheckers::head_received(const AgentToHead& message) {
  const auto* frame = std::get_if<AgentFrame>(&message);
  if (frame == nullptr || !frame->frame.message) return;
  auto& last = received_[{frame->head_epoch, frame->incarnation}];
  if (frame->frame.sequence != last + 1) return;
  last = frame->frame.sequence;
  const AgentMessage& news = *frame->frame.message;
  if (const auto* relayed = std::get_if<FromProcess>(&news)) {
    if (const auto* demand = std::get_if<Demand>(&relayed->message))
      demanded(relayed->process, *demand);
  } else if (const auto* started = std::get_if<SlotStarted>(&news)) {
    const auto at = slots_.find(started->slot);
    if (at != slots_.end()) at->second.started = true;
  } else if (const auto* ended = std::get_if<SlotGenerationEnded>(&news)) {
    const auto at = slots_.find(ended->slot);
    if (at != slots_.end()) at->second.started = false;
  } else if (const auto* gone = std::get_if<SlotGone>(&news)) {
    slots_.erase(gone->slot);
    given_up_.erase(gone->slot);
  } else if (const auto* released = std::get_if<SlotCpuReleased>(&news)) {
    if (released->departed) slots_.erase(released->slot);
  }
}

void ReportCheckers::head_sends(const HeadToAgent& message) {
  const auto* frame = std::get_if<HeadFrame>(&message);
  if (frame == nullptr || !frame->frame.message) return;
  const HeadMessage& order = **frame->frame.message;
  if (const auto* start = std::get_if<StartSlot>(&order)) {
    if (!start->lessee.empty())
      slots_.try_emplace(start->slot, SlotState{{start->lessee, start->demand_class.id}, false});
  } else if (const auto* stop = std::get_if<StopSlot>(&order)) {
    slots_.erase(stop->slot);
    given_up_.erase(stop->slot);
  } else if (const auto* relay = std::get_if<ToProcess>(&order)) {
    const auto* report = std::get_if<DemandPlanned>(&relay->message);
    if (report != nullptr) planned(relay->process, *report);
  }
}

// ---- plans --------------------------------------------------------------------------------------

void ReportCheckers::demanded(ProcessId lessee, const Demand& message) {
  const DemandKey key{lessee, message.demand_class.id};
  auto& version = demands_[key];
  if (message.version < version) return;
  version = message.version;
  if (message.report_plan && message.wanted_slots > 0) reports_due_.try_emplace(key, world_.now());
  if (message.wanted_slots == 0) reports_due_.erase(key);
}

void ReportCheckers::planned(ProcessId lessee, const DemandPlanned& message) {
  const DemandKey key{lessee, message.demand_class};
  reports_due_.erase(key);
  if (any_fault_) return;
  const std::string what = "the plan of class " + message.demand_class.brief() + " ";
  if (message.version != demands_[key]) {
    return world_.violation("plans", what + "has version " + std::to_string(message.version) +
                                         ", and the head has the demand " +
                                         std::to_string(demands_[key]));
  }
  std::set<SlotId> starting;
  for (const auto& [slot, state] : slots_) {
    if (state.demand == key && !state.started) starting.insert(slot);
  }
  if (starting == std::set<SlotId>(message.starting.begin(), message.starting.end())) return;
  world_.violation("plans", what + "names " + std::to_string(message.starting.size()) +
                                " slots that start, and " + std::to_string(starting.size()) +
                                " have not started");
}

// ---- reasons ------------------------------------------------------------------------------------

void ReportCheckers::status_read(const std::string& json) {
  const auto status = nlohmann::json::parse(json, nullptr, false);
  if (status.is_discarded() || !status.contains("waiting"))
    return world_.violation("reasons", "the status lists no waiting requests: " + json);
  for (const auto& item : status.at("waiting")) {
    const std::string reason = item.value("reason", ""), text = item.value("text", "");
    if (reason.size() > 2 && !text.empty()) continue;
    world_.violation("reasons", item.value("kind", "") + " " + item.value("id", "") +
                                    " wait without a reason: " + item.dump());
  }
}

// ---- cut links ----------------------------------------------------------------------------------

void ReportCheckers::stream_closed(const Process& caller, ProcessId executor) {
  const Process* there = world_.process_of(executor);
  if (there == nullptr || !world_.has_no_contact(caller.host(), there->host())) return;
  if (!slots_.contains(there->slot())) return;
  given_up_.try_emplace(there->slot(), GivenUp{&caller, world_.now()});
}

void ReportCheckers::head_stepped() {
  for (const auto& [key, since] : reports_due_) {
    if (any_fault_ || world_.now() - since <= report_bound) continue;
    return world_.violation("plans",
                            "the head does not report the plan of class " + key.second.brief());
  }
  for (const auto& [slot, given_up] : given_up_) {
    if (!given_up.caller->alive() || world_.now() - given_up.at <= stop_bound) continue;
    return world_.violation("links", "slot " + slot.brief() +
                                         " is not stopped, and its caller gave it up behind a cut "
                                         "link");
  }
}

}  // namespace mobula::internal::sim
