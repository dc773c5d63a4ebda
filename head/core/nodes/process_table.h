// Processes that agents report (drivers and executors): the node of each, the path of messages to
// it, and the deaths of processes, which are collected briefly and then sent to all agents.
// Thread: owner (one HeadCore).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/containers/deadline_map.h"
#include "base/containers/table.h"
#include "protocol/messages/agent_control.h"

namespace mobula::internal::head {

struct HeadTables;

struct Process {
  NodeId node;
  Principal principal;
  std::int64_t pid = 0;
  SlotId slot{};  // slot of an executor, once known
  // Until then, counts of tasks may leave the process out: it owned no task when last queried, and
  // has sent nothing since.
  Time idle_until{};
};

class ProcessTable {
 public:
  explicit ProcessTable(HeadTables& tables) : tables_(tables) {}

  void attached(NodeId node, const ProcessFact& fact);
  // Ends the slots, actors, jobs, groups, and queries of the process. Agents are notified even if
  // the process is unknown, because an earlier head may have died before it had notified all of
  // them.
  void ended(ProcessId process, const EndCause& cause);
  // Adds the executor of a slot's generation, known from its endpoint.
  void executor_seen(NodeId node, const Endpoint& endpoint, JobId job, SlotId slot);
  // Compares with the agent's list: a missing process has ended. A driver may still return.
  void reconcile(NodeId node, const Facts& facts);
  // Ends all processes of a node at once, and returns them for the notification of its death. If
  // `drivers_return`, drivers may survive their agent. They end if they do not attach to another
  // agent in time.
  std::vector<ProcessId> node_died(NodeId node, const EndCause& cause, bool drivers_return);

  // Expects a driver whose job the journal names but that is absent after a restart of the head:
  // its agent may have died with the head. The job ends if the driver attaches nowhere in time.
  void expect(ProcessId driver);
  bool expected(ProcessId process) const { return expected_.contains(process); }

  void set_idle_until(ProcessId process, Time until);

  // Whether its node died and it has not attached to another agent yet.
  bool lost(ProcessId process) const { return lost_.contains(process); }

  // Sends through the agent of the process. Drops the message if the process is unknown.
  void send(ProcessId process, HeadToProcess message);
  const Process* find(ProcessId process) const { return rows_.find(process); }
  NodeId node_of(ProcessId process) const;
  const Table<ProcessId, Process>& rows() const { return rows_; }

  // Ends drivers that did not return in time, and sends the collected deaths to all agents.
  void tick();
  std::optional<Time> next_deadline() const;

 private:
  void enter(ProcessId process, Process row);
  void leave(NodeId node, ProcessId process);
  std::vector<ProcessId> on_node(NodeId node) const;
  void note_end(ProcessId process, const Process& row, const EndCause& cause) const;
  void bury(ProcessId process, const EndCause& cause);
  void publish();

  HeadTables& tables_;
  Table<ProcessId, Process> rows_;
  std::map<NodeId, std::vector<ProcessId>> by_node_;  // in the order of arrival
  std::map<ProcessId, EndCause> lost_;                // drivers of dead nodes
  DeadlineMap<ProcessId> lost_until_;                 // time by which each must return
  DeadlineMap<ProcessId> expected_;                   // drivers
  std::vector<ProcessId> news_;
  std::optional<Time> publish_at_;
};

}  // namespace mobula::internal::head
