// Finds the function that a call names.
// Thread: any.
#pragma once

#include <optional>

#include "base/model/task.h"
#include "mobula/detail/error_record.h"
#include "mobula/detail/registry.h"

namespace mobula::internal::executor {

struct Callee {
  const detail::Entry* entry = nullptr;      // null: see `error`
  std::optional<detail::ErrorRecord> error;  // not_found or invalid_request
};

// A caller of this program names the function by its offset. A caller of another program names a
// method of the actor's class by name and types, and its key is remembered for later calls.
Callee callee_of(const CallForm& form, const void* class_tag);

}  // namespace mobula::internal::executor
