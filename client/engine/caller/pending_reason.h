// Reasons why objects are pending, from this process and from the head.
// Thread: any, with the engine's lock.
#pragma once

#include <span>
#include <string>

#include "client/engine/process_engine.h"

namespace mobula::internal::client {

// Reason why the first unfinished object is not available.
std::string why_pending(ProcessEngine& engine, std::span<const detail::RawId> objects);

// "; the head: REASON (RULE)" if the first unfinished object waits for a placement, otherwise
// empty. Waits for the head, but at most 250 ms.
std::string why_not_placed(ProcessEngine& engine, ProcessEngine::Lock& lock,
                           std::span<const detail::RawId> objects);

}  // namespace mobula::internal::client
