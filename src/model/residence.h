// What an executor still has of its calls after their end: elements of tensors that others refer to and that
// lie in its own memory. Its slot is then resident: booked, first for who needs them, given up when somebody
// needs the room. A plain value.
#pragma once

#include <cstdint>

#include "base/fields.h"
#include "base/id.h"

namespace mobula::internal {

struct Residence {
  std::int64_t results = 0;  // how many; 0: the slot is not resident
  std::int64_t bytes = 0;    // of all of them
  ObjectId oldest;           // the one that has been there for longest
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("results", &Residence::results), field("bytes", &Residence::bytes),
                 field("oldest", &Residence::oldest));
  }
  friend bool operator==(const Residence&, const Residence&) = default;

  bool any() const { return results > 0; }
};

}  // namespace mobula::internal
