// What frameworks are told of a part of a GPU: variables by which their own allocators keep to it. They bind whoever
// reads them, and nobody else. Pure; any thread.
#pragma once

#include <span>

#include "model/node_shape.h"
#include "model/request.h"

namespace mobula::internal {

// The variables that are ever set.
std::span<const char* const> framework_limit_variables();

// For an executor with `allocation`: a part of one GPU whose bytes are counted. The part that is left for allocations
// once its context is there, of the device's memory. Nothing for whole devices, and nothing that `users` (the
// variables that it will have anyway) or the node's policy name.
Environment framework_limits(const NodeShape& node, const Allocation& allocation, const Environment& users);

}  // namespace mobula::internal
