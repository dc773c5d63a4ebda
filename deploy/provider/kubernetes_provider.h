// The provider `kubernetes`: an instance is a pod with the name of the instance, made through the
// API server. A secret with the ticket belongs to the pod. docs/operations.md lists the settings.
// Thread: main; blocks. Errors: in the reply.
#pragma once

#include "deploy/fleet/provider_contract.h"
#include "deploy/provider/api_client.h"

namespace mobula::internal::provider {

fleet::ProviderReply answer_kubernetes(const fleet::ProviderRequest& request);

// The failure that an answer of the API server states.
fleet::ProviderFailure failure_of(const ApiAnswer& answer, const std::string& what);

}  // namespace mobula::internal::provider
