// The side of a built-in provider: one call from standard input, its answer on standard output.
// Thread: main.
#pragma once

#include <functional>
#include <string>

#include "deploy/fleet/provider_contract.h"

namespace mobula::internal::provider {

using Provider = std::function<fleet::ProviderReply(const fleet::ProviderRequest&)>;

// Answers the request on standard input and returns the exit code: 0 if an answer was written, also
// one that reports a failure. `call`: as on the command line, if it was given there.
int serve_provider(const Provider& provider, const std::string& call);

// A reply that reports this failure for the whole call.
fleet::ProviderReply failed_reply(const fleet::ProviderRequest& request, fleet::FailureKind kind,
                                  std::string text);
// The kind of failure that an operation of this machine reports.
fleet::ProviderFailure failure_of(const Failure& why);

}  // namespace mobula::internal::provider
