// The flags of `mobula start` for the agent of an instance.
// Thread: any; pure.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "deploy/fleet/provider_contract.h"

namespace mobula::internal::provider {

// Returns the credential (`--join @ticket_file`, or `--address` of a head without keys), the
// labels, the resources of the node type, and the `flags` of its `config`. Without `with_machine`,
// the agent detects CPUs, GPUs, and memory itself. Errors: invalid_argument.
Result<std::vector<std::string>> agent_flags(const fleet::InstanceSpec& instance,
                                             const std::string& head,
                                             const std::string& ticket_file,
                                             bool with_machine = true);

}  // namespace mobula::internal::provider
