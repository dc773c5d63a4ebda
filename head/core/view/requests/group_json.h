// JSON of placement groups.
// Thread: any. Read-only.
#pragma once

#include <nlohmann/json.hpp>

#include "head/core/actors/group_table.h"
#include "head/core/head_tables.h"
#include "scheduler/scheduler.h"

namespace mobula::internal::head {

// Returns {"placement_group_id", "state", "name", …, "bundles": [{"resources", "node_id", "free"},
// …]}.
nlohmann::ordered_json group_json(const Group& group, const scheduler::Scheduler& scheduler);
// The same, and the action of the autoscaler for a group that waits.
nlohmann::ordered_json listed_group_json(const HeadTables& tables, const Group& group);
// The same with numbers of bundles in place of their members: "bundle_count", "placed_bundles", and
// the resources of the first one as "each".
nlohmann::ordered_json group_row_json(const HeadTables& tables, const Group& group);

}  // namespace mobula::internal::head
