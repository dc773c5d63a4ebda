// Finds the function that a call names.
// Thread: any.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/model/task.h"
#include "mobula/detail/error_record.h"
#include "mobula/detail/registry.h"

namespace mobula::internal::executor {

// Methods of an actor class that this program can run.
std::vector<const detail::Entry*> methods_of(const void* class_tag);
// Their declarations, separated by commas.
std::string declarations_of(const std::vector<const detail::Entry*>& methods);

struct Callee {
  const detail::Entry* entry = nullptr;      // null: see `error`
  std::optional<detail::ErrorRecord> error;  // not_found or invalid_request
};

// A caller of this program names the function by its offset. A caller of another program names a
// method of the actor's class by name and types, and its key is remembered for later calls.
Callee callee_of(const CallForm& form, const void* class_tag);

}  // namespace mobula::internal::executor
