// JSON documents of apiVersion mobula/v1 for the rows of the head's tables. Members have the order
// of the code, so equal states give equal text.
// Thread: any. Read-only.
// Units: resource quantities are exact to 1/10000.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/model/request.h"
#include "base/result.h"
#include "head/core/query/object_query.h"
#include "scheduler/queues/need.h"

namespace mobula::internal::head {

struct HeadTables;

// `kind` is "nodes", "jobs", "actors", "leases", "executors", "placement-groups", or "demands".
// Errors: not_found for another kind.
Result<std::string> list_json(const HeadTables& tables, const std::string& kind);
// Lists the part of "nodes", "gpus", "jobs", "actors", or "placement-groups" that `argument`
// describes (list_part()), with their numbers as `total` and `matching`. Items have only the
// members that a list shows. "status" has a part of its waiting requests.
// Errors: not_found for another kind, invalid_argument.
Result<std::string> list_part_json(const HeadTables& tables, const std::string& kind,
                                   const std::string& argument);
// Returns one item by its id, or by a unique prefix of at least four digits.
Result<std::string> get_json(const HeadTables& tables, const std::string& kind,
                             const std::string& id);
// Formats the replies of agents, restricted to objects whose id begins with `id`. Errors: not_found
// if none matches.
Result<std::string> objects_json(const HeadTables& tables,
                                 const std::vector<ObjectQuery::Item>& items, const std::string& id,
                                 std::vector<std::string> warnings);
std::string status_json(const HeadTables& tables);
// Numbers of nodes, jobs, actors, and placement groups by state, as in lists.
struct StateCounts {
  std::map<std::string, std::int64_t> nodes, jobs, actors, groups;
};
StateCounts state_counts(const HeadTables& tables);
std::string named_actors_json(const HeadTables& tables, const std::string& name_space);
// Returns the clock and the release of the head, which tools compare with their own.
std::string pong_json(const HeadTables& tables);
// Returns the reply to a successful order.
std::string done_json(const std::string& kind, const std::vector<std::string>& warnings);

}  // namespace mobula::internal::head
