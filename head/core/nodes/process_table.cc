#include "head/core/nodes/process_table.h"

#include "base/coverage_mark.h"
#include "head/core/head_tables.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_back("head.driver_came_back_without_its_agent");
const CoverageMark mark_expected_back(
    "head.driver_came_back_after_its_agent_and_the_head_had_died");
const CoverageMark mark_reported_again("head.death_perhaps_published_by_an_earlier_head");
const CoverageMark mark_stayed_away("head.driver_ended_with_its_node");

}  // namespace

void ProcessTable::attached(NodeId node, const ProcessFact& fact) {
  if (fact.process.empty()) return;
  if (lost_.erase(fact.process) > 0) {
    lost_until_.erase(fact.process);
    mark_back.hit();
  }
  if (expected_.erase(fact.process)) mark_expected_back.hit();
  tables_.jobs.driver_present(fact.process);
  const Process* known = rows_.find(fact.process);
  enter(fact.process, {node, fact.principal, fact.pid, known == nullptr ? SlotId() : known->slot});
}

void ProcessTable::executor_seen(NodeId node, const Endpoint& endpoint, JobId job, SlotId slot) {
  if (endpoint.process.empty()) return;
  if (rows_.contains(endpoint.process)) {
    rows_.at(endpoint.process).slot = slot;
  } else {
    enter(endpoint.process, {node, Principal{Role::executor, "", job}, 0, slot});
  }
}

void ProcessTable::enter(ProcessId process, Process row) {
  auto [known, fresh] = rows_.insert(process, row);
  if (!fresh && known->node != row.node) leave(known->node, process);
  if (fresh || known->node != row.node) by_node_[row.node].push_back(process);
  *known = std::move(row);
}

void ProcessTable::leave(NodeId node, ProcessId process) {
  const auto at = by_node_.find(node);
  if (at == by_node_.end()) return;
  std::erase(at->second, process);
  if (at->second.empty()) by_node_.erase(at);
}

std::vector<ProcessId> ProcessTable::on_node(NodeId node) const {
  const auto at = by_node_.find(node);
  return at == by_node_.end() ? std::vector<ProcessId>() : at->second;
}

void ProcessTable::ended(ProcessId process, const EndCause& cause) {
  news_.push_back(process);
  if (!publish_at_) publish_at_ = tables_.now + tables_.options.publish_delay;
  if (!rows_.contains(process)) return mark_reported_again.hit();
  note_end(process, rows_.at(process), cause);
  bury(process, cause);
}

// Notes the end of an executor, as a warning if it was not planned. Ends of drivers are events of
// their jobs.
void ProcessTable::note_end(ProcessId process, const Process& row, const EndCause& cause) const {
  if (row.principal.role != Role::executor) return;
  if (const auto kind = static_cast<std::size_t>(cause.kind); kind < end_kinds)
    ++tables_.counts.executor_ends[kind];
  const bool failed = cause.kind == EndKind::signalled || cause.kind == EndKind::out_of_memory ||
                      cause.kind == EndKind::start_failed ||
                      (cause.kind == EndKind::exited && cause.exit_code != 0);
  tables_.events.note(
      failed ? Severity::warning : Severity::debug,
      cause.kind == EndKind::out_of_memory ? "EXECUTOR_OOM_KILLED"
      : failed                             ? "EXECUTOR_DIED"
                                           : "EXECUTOR_ENDED",
      {.node = row.node, .job = row.principal.job, .process = process, .slot = row.slot},
      "the executor " + to_string(cause));
}

void ProcessTable::reconcile(NodeId node, const Facts& facts) {
  std::set<ProcessId> there;
  for (const auto& fact : facts.processes) {
    there.insert(fact.process);
    const Process* known = find(fact.process);
    if (known == nullptr || known->node == node) attached(node, fact);
  }
  std::vector<ProcessId> gone;
  for (const auto process : on_node(node)) {
    if (!there.contains(process) && !lost(process)) gone.push_back(process);
  }
  EndCause cause;
  cause.text = "its agent does not know the process";
  for (const auto process : gone) ended(process, cause);
}

std::vector<ProcessId> ProcessTable::node_died(NodeId node, const EndCause& cause,
                                               bool drivers_return) {
  std::vector<ProcessId> gone, drivers;
  for (const auto process : on_node(node)) {
    if (drivers_return && rows_.at(process).principal.role == Role::driver) {
      if (lost_.try_emplace(process, cause).second)
        lost_until_.set(process, tables_.jobs.driver_absent(process));
      drivers.push_back(process);
    } else {
      gone.push_back(process);
    }
  }
  // Updates the index once, because removing processes one by one takes quadratic time.
  if (drivers.empty()) {
    by_node_.erase(node);
  } else {
    by_node_[node] = std::move(drivers);
  }
  for (const auto process : gone) {
    note_end(process, rows_.at(process), cause);
    bury(process, cause);
  }
  return gone;
}

// Removes the row first, so that no message is sent through it. The end of a driver also ends its
// job and the resources of the job.
void ProcessTable::bury(ProcessId process, const EndCause& cause) {
  const Process row = rows_.at(process);
  const bool driver = row.principal.role == Role::driver;
  leave(row.node, process);
  rows_.erase(process);
  lost_.erase(process);
  lost_until_.erase(process);
  if (driver) tables_.jobs.driver_ended(process, cause);
  tables_.slots.lessee_ended(process, cause);
  tables_.actors.process_ended(process, cause);
  tables_.groups.process_ended(process);
  tables_.tasks.process_ended(process);
  tables_.transfers.process_ended(process);
  tables_.spans.process_ended(process);
  tables_.transfer_counts.ended(process);
  tables_.class_use.ended(process);
}

void ProcessTable::send(ProcessId process, HeadToProcess message) {
  if (const Process* row = rows_.find(process)) {
    tables_.nodes.send(row->node, ToProcess{process, std::move(message)});
  }
}

void ProcessTable::set_idle_until(ProcessId process, Time until) {
  if (Process* row = rows_.find(process)) row->idle_until = until;
}

NodeId ProcessTable::node_of(ProcessId process) const {
  const Process* row = rows_.find(process);
  return row ? row->node : NodeId{};
}

void ProcessTable::expect(ProcessId driver) {
  if (!expected_.contains(driver)) expected_.set(driver, tables_.jobs.driver_absent(driver));
}

void ProcessTable::tick() {
  for (const auto driver : expected_.take_due(tables_.now)) tables_.jobs.driver_missing(driver);
  for (const auto process : lost_until_.take_due(tables_.now)) {
    const auto lost = lost_.extract(process);
    if (lost.empty()) continue;
    mark_stayed_away.hit();
    ended(process, lost.mapped());
  }
  publish();
}

std::optional<Time> ProcessTable::next_deadline() const {
  return earlier(publish_at_, earlier(lost_until_.earliest(), expected_.earliest()));
}

void ProcessTable::publish() {
  if (!publish_at_ || *publish_at_ > tables_.now) return;
  publish_at_.reset();
  PeersChanged news;
  news.dead_processes = std::move(news_);
  news_.clear();
  tables_.nodes.broadcast(news);
}

}  // namespace mobula::internal::head
