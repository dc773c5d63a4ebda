// Messages that return the location of an object in the store, while the process still holds the
// object. Parts of process_to_agent.h and agent_to_process.h.
// Thread: owner (plain values).
#pragma once

#include <cstdint>

#include "base/fields.h"
#include "base/id.h"

namespace mobula::internal {

// Agent to process: the store needs the space. PlaceReturned follows as soon as no code in this
// process reads the bytes.
struct ReturnPlace {
  ObjectId object;
  // FetchObject that returned the location; 0: the process wrote the bytes
  std::uint64_t fetch = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("object", &ReturnPlace::object), field("fetch", &ReturnPlace::fetch));
  }
  friend bool operator==(const ReturnPlace&, const ReturnPlace&) = default;
};

// This process no longer reads the bytes but still holds the object. To read it again, it sends
// FetchObject.
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
