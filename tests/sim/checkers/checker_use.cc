#include "sim/checkers/checker_use.h"

#include "sim/world.h"

namespace mobula::internal::sim {

void UseCheckers::head_received(const AgentToHead& message) {
  const auto* frame = std::get_if<AgentFrame>(&message);
  if (frame == nullptr || !frame->frame.message) return;
  auto& last = received_[{frame->head_epoch, frame->incarnation}];
  if (frame->frame.sequence != last + 1) return;
  last = frame->frame.sequence;
  const auto* relayed = std::get_if<FromProcess>(&*frame->frame.message);
  if (relayed == nullptr) return;
  if (const auto* use = std::get_if<ClassUse>(&relayed->message)) reported(relayed->process, *use);
  if (std::holds_alternative<EndJob>(relayed->message)) job_ended(relayed->process);
}

void UseCheckers::reported(ProcessId owner, const ClassUse& use) {
  for (const auto& row : use.rows) {
    auto& known = rows_[owner][{row.demand_class, row.name}];
    if (row.submitted < known.submitted || row.finished < known.finished ||
        row.run_us < known.run_us) {
      world_.violation("counts", "the totals of " + row.name + " of " + owner.brief() + " fall");
    }
    known = row;
  }
}

void UseCheckers::job_ended(ProcessId owner) {
  std::uint64_t submitted = 0;
  for (const auto& [key, row] : rows_[owner]) {
    submitted += row.submitted;
    if (row.submitted == row.finished + row.failed + row.cancelled) continue;
    world_.violation("counts", "driver " + owner.brief() + " has ended, and of " +
                                   std::to_string(row.submitted) + " calls of " + row.name +
                                   " the head counts " + std::to_string(row.finished) +
                                   " finished, " + std::to_string(row.failed) + " failed, and " +
                                   std::to_string(row.cancelled) + " cancelled");
  }
  if (submitted < submitted_[owner]) {
    world_.violation("counts", "driver " + owner.brief() + " has submitted " +
                                   std::to_string(submitted_[owner]) +
                                   " calls, and the head counts " + std::to_string(submitted));
  }
}

}  // namespace mobula::internal::sim
