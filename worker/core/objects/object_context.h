// The parts of the agent core and the tables of the store that the components of Objects share.
// Thread: owner (Objects). Not: rows of the components.
#pragma once

#include "store/core/object_table.h"
#include "worker/core/head_session.h"
#include "worker/core/objects/object_timers.h"
#include "worker/core/outbox.h"
#include "worker/core/peers.h"
#include "worker/core/processes.h"
#include "worker/core/transfers/transfers.h"

namespace mobula::internal::worker {

struct ObjectContext {
  Outbox& outbox;
  const WorkerOptions& options;
  HeadSession& head;
  Processes& processes;
  Peers& peers;
  Transfers& transfers;
  NodeId self;      // this node
  ProcessId agent;  // this agent, as a holder and writer of objects
  ObjectTable table;
  ObjectTimers timers;

  Time now() const { return outbox.now(); }
  bool sealed(ObjectId object) const {
    const ObjectRow* row = table.find(object);
    return row != nullptr && row->state == ObjectState::sealed;
  }
  // True if all bytes are on this node, in memory or on disk.
  bool here(ObjectId object) const {
    const ObjectRow* row = table.find(object);
    return row != nullptr && row->here();
  }
};

}  // namespace mobula::internal::worker
