// Refs that arrive in replies and items, which their receiver must hold.
// Thread: any (pure functions).
#pragma once

#include "base/model/task.h"
#include "protocol/messages/call_stream.h"

namespace mobula::internal::client {

// The store holds the contents of a stored value.
inline void add_contents(RefRecords& contents, const ValueRecord& value) {
  if (!value.in_store)
    contents.insert(contents.end(), value.contained.begin(), value.contained.end());
}

inline void add_contents(RefRecords& contents, const Handover& handover) {
  for (const auto& argument : *handover.call.arguments) {
    if (argument.is_ref) {
      contents.push_back(argument.ref);
    } else {
      contents.insert(contents.end(), argument.value.contained.begin(),
                      argument.value.contained.end());
    }
  }
}

}  // namespace mobula::internal::client
