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
  MOBULA_FIELDS(spec);
  friend bool operator==(const SubmitGroup&, const SubmitGroup&) = default;
};

// Makes `object`. It gets `value` when all bundles of the group are allocated, or an error if they
// never will be.
struct AwaitGroup {
  GroupId group;
  ObjectId object;
  ValueRecord value;
  MOBULA_FIELDS(group, object, value);
  friend bool operator==(const AwaitGroup&, const AwaitGroup&) = default;
};

struct EndGroup {
  GroupId group;
  MOBULA_FIELDS(group);
  friend bool operator==(const EndGroup&, const EndGroup&) = default;
};

}  // namespace mobula::internal::client
