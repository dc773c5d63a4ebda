// Messages that return the location of an object in the store, while the process still holds the
// object. Parts of process_to_agent.h and agent_to_process.h.
// Thread: owner (plain values).
#pragma once

#include <cstdint>

#include "base/fields.h"
#include "base/id.h"

namespace mobula::internal {

// Agent to process: the store needs the space. UnpinReply follows as soon as no code in this
// process reads the bytes.
struct UnpinRequest {
  ObjectId object;
  // FetchObjectRequest that returned the location; 0: the process wrote the bytes
  std::uint64_t fetch = 0;
  MOBULA_FIELDS(object, fetch);
  friend bool operator==(const UnpinRequest&, const UnpinRequest&) = default;
};

// This process no longer reads the bytes but still holds the object. To read it again, it sends
// FetchObjectRequest.
struct UnpinReply {
  ObjectId object;
  std::uint64_t fetch = 0;  // as in UnpinRequest
  MOBULA_FIELDS(object, fetch);
  friend bool operator==(const UnpinReply&, const UnpinReply&) = default;
};

}  // namespace mobula::internal
