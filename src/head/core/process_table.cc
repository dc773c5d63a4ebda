#include "head/core/process_table.h"

#include "head/core/parts.h"

namespace mobula::internal::head {

void ProcessTable::attached(NodeId node, const ProcessFact& fact) {
  if (fact.process.empty()) return;
  rows_[fact.process] = Process{node, fact.principal, fact.pid};
}

void ProcessTable::executor_seen(NodeId node, const Endpoint& endpoint, JobId job) {
  if (endpoint.process.empty() || rows_.contains(endpoint.process)) return;
  rows_[endpoint.process] = Process{node, Principal{Role::executor, "", job}, 0};
}

void ProcessTable::ended(ProcessId process, const EndCause& cause) {
  if (!rows_.contains(process)) return;
  news_.push_back(process);
  if (!publish_at_) publish_at_ = parts_.now + parts_.options.publish_after;
  bury(process, cause);
}

void ProcessTable::reconcile(NodeId node, const Facts& facts) {
  std::set<ProcessId> there;
  for (const auto& fact : facts.processes) {
    there.insert(fact.process);
    const Process* known = find(fact.process);
    if (known == nullptr || known->node == node) attached(node, fact);
  }
  std::vector<ProcessId> gone;
  for (const auto& [process, row] : rows_) {
    if (row.node == node && !there.contains(process)) gone.push_back(process);
  }
  EndCause cause;
  cause.text = "its agent does not know the process";
  for (const auto process : gone) ended(process, cause);
}

std::vector<ProcessId> ProcessTable::node_died(NodeId node, const EndCause& cause) {
  std::vector<ProcessId> gone;
  for (const auto& [process, row] : rows_) {
    if (row.node == node) gone.push_back(process);
  }
  for (const auto process : gone) bury(process, cause);
  return gone;
}

// The row goes first, so that nobody is told anything through it. A driver takes its job along, and
// with the job what the driver held.
void ProcessTable::bury(ProcessId process, const EndCause& cause) {
  const bool driver = rows_.at(process).principal.role == Role::driver;
  rows_.erase(process);
  if (driver) parts_.jobs.driver_ended(process, cause);
  parts_.slots.lessee_ended(process, cause);
  parts_.actors.process_ended(process, cause);
}

void ProcessTable::tell(ProcessId process, HeadToProcess message) {
  if (const Process* row = rows_.find(process)) {
    parts_.nodes.send(row->node, ToProcess{process, std::move(message)});
  }
}

NodeId ProcessTable::node_of(ProcessId process) const {
  const Process* row = rows_.find(process);
  return row ? row->node : NodeId{};
}

void ProcessTable::publish() {
  if (!publish_at_ || *publish_at_ > parts_.now) return;
  publish_at_.reset();
  PeersChanged news;
  news.dead_processes = std::move(news_);
  news_.clear();
  parts_.nodes.broadcast(news);
}

}  // namespace mobula::internal::head
