// Calls of methods with JSON instead of typed values, for `mobula call`.
// Thread: any runner.
#pragma once

#include <string>

#include "base/model/task.h"
#include "mobula/detail/registry.h"

namespace mobula::internal::executor {

// Runs the method of the actor's class that `form.method` names: its whole name, or the part after
// the last "::". The only argument is a std::string with a JSON array of the arguments, the result
// a std::string with the JSON of the method's result.
detail::Outcome run_json_call(const CallForm& form, const void* class_tag,
                              const detail::Invocation& call);

}  // namespace mobula::internal::executor
