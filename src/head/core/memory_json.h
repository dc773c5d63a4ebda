// The objects in the nodes' stores as text for people and programs. Pure functions of what the agents
// have answered.
#pragma once

#include <string>
#include <vector>

#include "head/core/object_lists.h"

namespace mobula::internal::head {

// "RESERVED", "SEALED" or "SPILLED".
std::string state_of(const ObjectFact& object);

// The stores of the nodes and what is in them, at most `limit` objects, the largest first.
std::string memory_json(std::vector<ObjectLists::Item> items,
                        const std::vector<ObjectLists::Store>& stores,
                        std::vector<std::string> warnings, std::size_t limit);

}  // namespace mobula::internal::head
