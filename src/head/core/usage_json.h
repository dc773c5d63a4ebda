// What nodes and executors use, as tools get it. For sources of this folder.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "head/core/documents.h"
#include "protocol/node_questions.h"

namespace mobula::internal::head {

// `items` are executors and commands of jobs, at most `limit`, and `nodes` their nodes. Times of processors are
// seconds since each began; `at_s` is the node's own clock, so that two answers give rates. `clock_ms` and
// `head_clock_ms` are wall clocks at one moment.
Json usage_json(const Parts& parts, const std::map<NodeId, NodeUsage>& usages, std::uint64_t limit,
                std::vector<std::string> warnings);

}  // namespace mobula::internal::head
