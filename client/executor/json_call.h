// Calls of functions whose arguments and result are converted: JSON for `mobula call`, and neutral
// values (<mobula/neutral.h>) for untyped callers.
// Thread: any runner.
#pragma once

#include <string>

#include "base/model/task.h"
#include "client/api/untyped/language_host.h"
#include "mobula/detail/registry.h"

namespace mobula::internal::executor {

// Runs the method of the actor's class that `form.method` names: its whole name, or the part after
// the last "::". The only argument is a std::string with a JSON array of the arguments, the result
// a std::string with the JSON of the method's result.
detail::Outcome run_json_call(const CallForm& form, const void* class_tag,
                              const detail::Invocation& call);

// Whether this program has a typed function that `form.method` names.
bool has_function(const CallForm& form);

// Runs the function that `form.method` names, or the method if the call has an actor. Arguments and
// result, or the items of a stream, are neutral values. A failure names the programs of both sides
// and is not retried.
detail::Outcome run_neutral_call(const CallForm& form, const client::UntypedCaller& caller,
                                 const void* class_tag, const detail::Invocation& call);

}  // namespace mobula::internal::executor
