// Use of the resources of the cluster, for readers that show each resource.
// Thread: any. Read-only.
#pragma once

#include "scheduler/scheduler.h"

namespace mobula::internal::head {

struct HeadTables;

// Without `node:ADDRESS`, which each node has once so that requests can name it.
scheduler::Use shared_use(const HeadTables& tables);

}  // namespace mobula::internal::head
