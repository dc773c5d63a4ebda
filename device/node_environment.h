// Reads the facts about a node from the agent's environment. Variables are listed at
// `with_environment`.
// Thread: any (pure).
#pragma once

#include "base/result.h"
#include "device/node_devices.h"

namespace mobula::internal {

// Returns `request` with the settings of these variables. Fails with invalid_argument, naming the
// variable, for an unknown value.
//
// The masks of all vendors list the visible devices. A flag takes precedence over a label variable.
//
//   MOBULA_GPU_VENDOR=amd    Selects the vendor of `GPU` on a machine with several vendors.
//   MOBULA_SHOW_DEVICES=1    Shows all devices of the agent to slots without devices.
//   MOBULA_NODE_TYPE_NAME    Sets the label mobula.io/node-group.
//   MOBULA_NODE_MARKET_TYPE  Sets the label mobula.io/market-type.
//   MOBULA_NODE_REGION       Sets the label mobula.io/availability-region.
//   MOBULA_NODE_ZONE         Sets the label mobula.io/availability-zone.
//   MOBULA_NOSET_<mask>=1    Never sets this mask (Ray: RAY_EXPERIMENTAL_NOSET_<mask>).
Result<NodeRequest> with_environment(NodeRequest request, const Environment& environment);

}  // namespace mobula::internal
