// Text of the objects in the nodes' stores. Pure functions of the agents' replies.
// Thread: any.
#pragma once

#include <string>
#include <vector>

#include "head/core/query/object_query.h"

namespace mobula::internal::head {

// Returns "RESERVED", "SEALED", or "SPILLED".
std::string state_of(const ObjectFact& object);

// Lists the stores of the nodes and at most `limit` objects, the largest first.
std::string memory_json(std::vector<ObjectQuery::Item> items,
                        const std::vector<ObjectQuery::Store>& stores,
                        std::vector<std::string> warnings, std::size_t limit);

}  // namespace mobula::internal::head
