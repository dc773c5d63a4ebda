// The driver of a FleetHead: it leases a slot for each waiting task, and returns slots that are
// recalled or have no task.
#include <algorithm>

#include "sim/fleet/fleet_head.h"

namespace mobula::internal::sim {

DemandClass FleetHead::demand_class() const {
  DemandClass demand;
  demand.id = ClassId::of(1);
  demand.job = job();
  demand.program = ProgramId::of(1);
  demand.request.resources.set("CPU", options_.cpus_per_task);
  return demand;
}

void FleetHead::start_job() {
  admitted_ = false;
  StartJob start;
  start.job = job();
  start.driver = driver();
  start.name = "fleet";
  start.program.id = ProgramId::of(1);
  if (options_.cpu_quota) start.terms.quota["CPU"] = *options_.cpu_quota;
  driver_sends(std::move(start));
}

void FleetHead::driver_sends(ProcessToHead message) {
  send(agents_.at(home()), FromProcess{driver(), driver_principal(), std::move(message)});
}

void FleetHead::driver_receives(const HeadToProcess& message) {
  if (std::holds_alternative<StartJobReply>(message)) {
    admitted_ = true;
    fresh_.clear();
    for (const auto& [slot, lease] : leases_) {
      driver_sends(HoldSlot{slot, demand_class().id});
      fresh_.push_back(slot);
    }
    report_demand();
  } else if (std::holds_alternative<RequestRejected>(message)) {
    shell_.call_after(1s, [this, life = life_] {
      if (life == life_ && !admitted_) start_job();
    });
  } else if (const auto* ready = std::get_if<SlotReady>(&message)) {
    // A new head may grant a slot whose return it has not received.
    if (returned_.contains(ready->slot)) {
      return_slot(ready->slot);
      return report_demand();
    }
    if (!leases_.emplace(ready->slot, Lease{ready->node}).second) return;
    fresh_.push_back(ready->slot);
    serve(ready->slot);
    report_demand();
  } else if (const auto* lost = std::get_if<SlotLost>(&message)) {
    if (leases_.erase(lost->slot) == 0) return;
    std::erase(fresh_, lost->slot);
    shell_.slot_lost(lost->slot);
  } else if (const auto* recall = std::get_if<RecallSlot>(&message)) {
    const auto at = leases_.find(recall->slot);
    if (at != leases_.end()) at->second.recalled = true;
  } else if (const auto* refused = std::get_if<DemandInfeasible>(&message)) {
    if (refused->fatal) shell_.violation("demand", "refused: " + refused->summary);
  }
}

// Runs a task in the slot, or returns it.
void FleetHead::serve(SlotId slot) {
  Lease& lease = leases_.at(slot);
  lease.busy = !lease.recalled && shell_.slot_ready(slot, lease.node);
  if (lease.busy) return;
  leases_.erase(slot);
  std::erase(fresh_, slot);
  return_slot(slot);
}

void FleetHead::return_slot(SlotId slot) {
  returned_.insert(slot);
  driver_sends(ReturnSlot{slot});
}

void FleetHead::task_done(SlotId slot) {
  if (leases_.contains(slot)) serve(slot);
}

void FleetHead::set_waiting(std::int64_t tasks) {
  if (tasks == waiting_) return;
  waiting_ = tasks;
  report_demand();
}

void FleetHead::report_demand() {
  if (!admitted_ || demand_due_) return;
  demand_due_ = true;
  shell_.call_after(demand_delay, [this] {
    demand_due_ = false;
    if (!admitted_) return;
    Demand demand;
    demand.demand_class = demand_class();
    demand.version = ++demand_version_;
    demand.wanted_slots = waiting_;
    demand.waiting_tasks = waiting_;
    demand.example_name = "task";
    demand.received = std::exchange(fresh_, {});
    driver_sends(std::move(demand));
  });
}

}  // namespace mobula::internal::sim
