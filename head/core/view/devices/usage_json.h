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

// Latest samples, of at most 10 s ago: of a node, null without one; and the sums over all nodes.
// `busy_cpus` is null until a node has two samples.
Json sampled_use_json(const HeadTables& tables, NodeId node);
Json sampled_sums_json(const HeadTables& tables);

}  // namespace mobula::internal::head
