// Start orders. Orders for tasks and actors are sent at once, because they may run again. A command
// runs at most once unless retries were requested, so its order is durable before it is sent
// (ActorRow::order). Part of SlotTable.
#include "base/coverage_mark.h"
#include "head/core/head_tables.h"
#include "head/core/slots/slot_table.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_stopped_in_time("head.command_stopped_before_its_order_went_out");
const CoverageMark mark_order_not_durable("head.order_not_durable");

}  // namespace

void SlotTable::order(Slot slot, StartSlot start) {
  if (!start.actor.entry.given()) {
    slot.started_by = tables_.nodes.send(slot.node, std::move(start));
    return add(std::move(slot));
  }
  slot.started_by = not_ordered;
  held_orders_.emplace(slot.id, HeldOrder{std::move(start), {}});
  tables_.journal.wait(OrderGate{slot.id});
  add(std::move(slot));
}

void SlotTable::order_durable(SlotId id) {
  const auto at = held_orders_.find(id);
  if (at == held_orders_.end()) return;  // its node has died
  Slot& slot = rows_.at(id);
  if (slot.stopping) {
    mark_stopped_in_time.hit();
    return remove(id, killed(at->second.stop_why), false);
  }
  slot.started_by = tables_.nodes.send(slot.node, std::move(at->second.start));
  held_orders_.erase(at);
}

// The command never ran and is placed again.
void SlotTable::order_not_durable(SlotId id, const std::string& why) {
  if (!held_orders_.contains(id)) return;
  mark_order_not_durable.hit();
  EndCause cause;
  cause.kind = EndKind::start_failed;
  cause.text = "its start cannot be made durable: " + why;
  remove(id, cause, false);
}

}  // namespace mobula::internal::head
