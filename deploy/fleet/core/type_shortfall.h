// Compares a node that joined with the node type for which its instance was launched.
// Thread: any.
#pragma once

#include <string>

#include "base/model/node_shape.h"

namespace mobula::internal::fleet {

// The first resource or accelerator type that the type promises and the node lacks, as a text:
// "GPU: 1 instead of 2". Empty if the node lacks nothing. Memory is not compared: machines of one
// kind differ, and the system takes a part.
std::string shortfall_of(const NodeShape& node, const NodeShape& type);

}  // namespace mobula::internal::fleet
