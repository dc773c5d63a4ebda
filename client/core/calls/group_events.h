// Requests of user code about placement groups. Plain structs with field lists, part of
// client_events.h.
// Thread: any (values).
#pragma once

#include "base/fields.h"
#include "base/model/group.h"
#include "base/model/task.h"

namespace mobula::internal::client {

struct SubmitGroup {
  GroupSpec spec;  // without its creator, which is this process
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("spec", &SubmitGroup::spec));
  }
  friend bool operator==(const SubmitGroup&, const SubmitGroup&) = default;
};

// Makes `object`. It gets `value` when all bundles of the group are allocated, or an error if they
// never will be.
struct AwaitGroup {
  GroupId group;
  ObjectId object;
  ValueRecord value;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("group", &AwaitGroup::group), field("object", &AwaitGroup::object),
                 field("value", &AwaitGroup::value));
  }
  friend bool operator==(const AwaitGroup&, const AwaitGroup&) = default;
};

struct EndGroup {
  GroupId group;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("group", &EndGroup::group));
  }
  friend bool operator==(const EndGroup&, const EndGroup&) = default;
};

}  // namespace mobula::internal::client
