// How a place in the store comes back from a process that holds the object still. Plain structs of
// process_to_agent.h and agent_to_process.h.
#pragma once

#include <cstdint>

#include "base/fields.h"
#include "base/id.h"

namespace mobula::internal {

// Agent to process. Room is needed: PlaceReturned, as soon as nobody in this process looks at the
// object's bytes.
struct ReturnPlace {
  ObjectId object;
  std::uint64_t fetch = 0;  // by which it has the place; 0: it wrote the bytes itself
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ReturnPlace::object), field("fetch", &ReturnPlace::fetch));
  }
  friend bool operator==(const ReturnPlace&, const ReturnPlace&) = default;
};

// The answer: this process does not look at the bytes any more, but holds the object still. To read
// it again it fetches it again.
struct PlaceReturned {
  ObjectId object;
  std::uint64_t fetch = 0;  // as in ReturnPlace
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &PlaceReturned::object), field("fetch", &PlaceReturned::fetch));
  }
  friend bool operator==(const PlaceReturned&, const PlaceReturned&) = default;
};

}  // namespace mobula::internal
