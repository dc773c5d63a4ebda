// What the agent's environment says about its node:
//   the masks of all vendors       which devices are visible
//   MOBULA_GPU_VENDOR=amd          whose devices `GPU` means, where a machine has several
//   MOBULA_SHOW_DEVICES=1          slots without devices see what the agent sees
//   MOBULA_NODE_TYPE_NAME, MOBULA_NODE_MARKET_TYPE, MOBULA_NODE_REGION, MOBULA_NODE_ZONE
//                                  labels mobula.io/node-group, market-type, availability-region and
//                                  availability-zone, where no flag gives them
//   MOBULA_NOSET_<mask>=1          this mask is never set (as Ray's RAY_EXPERIMENTAL_NOSET_<mask>)
// Pure; any thread.
#pragma once

#include "base/result.h"
#include "device/node_devices.h"

namespace mobula::internal {

// `request` with that. invalid_argument names a variable whose value is not understood.
Result<NodeRequest> with_environment(NodeRequest request, const Environment& environment);

}  // namespace mobula::internal
