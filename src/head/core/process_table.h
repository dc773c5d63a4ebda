// The processes that agents speak for (drivers and executors): on which node each is, how messages
// reach it, and the news that some are gone, gathered for a moment and then told to all agents.
// Owned by one HeadCore; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/table.h"
#include "protocol/agent_control.h"

namespace mobula::internal::head {

struct Parts;

struct Process {
  NodeId node;
  Principal principal;
  std::int64_t pid = 0;
  SlotId slot{};  // of an executor, once it is known
};

class ProcessTable {
 public:
  explicit ProcessTable(Parts& parts) : parts_(parts) {}

  void attached(NodeId node, const ProcessFact& fact);
  // Everything that lived by the process ends. Others are told of it even if it is not known here:
  // an earlier head may have died before it told all of them.
  void ended(ProcessId process, const EndCause& cause);
  // The executor of a slot's generation, known from its endpoint; and its end.
  void executor_seen(NodeId node, const Endpoint& endpoint, JobId job, SlotId slot);
  // The node's agent states who is there: who is not has ended. A driver may still come back.
  void reconcile(NodeId node, const Facts& facts);
  // All processes of a node at once; returns those that have ended, for the news of its death.
  // Drivers may live on without their agent, if `drivers_return`: they end if they attach nowhere in time.
  std::vector<ProcessId> node_died(NodeId node, const EndCause& cause, bool drivers_return);

  // A driver that has a job and is not here after a restart of the head: its agent may have died with the
  // head. The job ends if it attaches nowhere in time.
  void expect(ProcessId driver);
  bool expected(ProcessId process) const { return expected_.contains(process); }

  // Its node has died, and it has not attached to another agent yet.
  bool lost(ProcessId process) const { return lost_.contains(process); }

  // Through the process's agent; dropped if the process is not known.
  void tell(ProcessId process, HeadToProcess message);
  const Process* find(ProcessId process) const { return rows_.find(process); }
  NodeId node_of(ProcessId process) const;
  const Table<ProcessId, Process>& rows() const { return rows_; }

  // Ends drivers that did not come back; tells all agents what died, once it is time.
  void tick();
  std::optional<Time> next_deadline() const;

 private:
  struct Lost {
    Time until;
    EndCause cause;
  };

  void enter(ProcessId process, Process row);
  void leave(NodeId node, ProcessId process);
  std::vector<ProcessId> on_node(NodeId node) const;
  void note_end(ProcessId process, const Process& row, const EndCause& cause) const;
  void bury(ProcessId process, const EndCause& cause);
  void publish();

  Parts& parts_;
  Table<ProcessId, Process> rows_;
  std::map<NodeId, std::vector<ProcessId>> by_node_;  // as they came
  std::map<ProcessId, Lost> lost_;  // drivers
  std::map<ProcessId, Time> expected_;  // drivers, and until when
  std::vector<ProcessId> news_;
  std::optional<Time> publish_at_;
};

}  // namespace mobula::internal::head
