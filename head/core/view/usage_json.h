// JSON of the resource usage of nodes and executors.
// Thread: any. Not: for sources outside this directory.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "head/core/view/documents.h"
#include "protocol/messages/node_queries.h"

namespace mobula::internal::head {

// `items` are at most `limit` executors and commands of jobs, and `nodes` are their nodes. CPU
// times are seconds since the start of each process. `at_s` is the clock of the node, so two
// replies give rates. `clock_ms` and `head_clock_ms` are wall clocks at one moment.
Json usage_json(const HeadTables& tables, const std::map<NodeId, NodeUsage>& usages, UsagePart part,
                std::uint64_t limit, std::vector<std::string> warnings);

}  // namespace mobula::internal::head
