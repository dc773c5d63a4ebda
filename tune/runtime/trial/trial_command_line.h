// The command line of a program with the parameters of a trial: "{lr}" stands for the parameter lr.
// "{{lr}}" is the text "{lr}", and "${lr}" stays as it is for shells.
// Thread: any (functions of their arguments). Errors: InvalidRequestError names the argument.
#pragma once

#include <optional>
#include <string>

#include <mobula/detail/tune_trainable.h>

#include "tune/core/space/search_space.h"

namespace mobula::internal::tune {

// Absent: a parameter is inactive in this configuration.
std::optional<std::string> with_parameters(const std::string& text,
                                           const mobula::tune::Config& config);
// The program exists, and each name is a parameter of the space. `open`: others may add parameters.
void check_command(const mobula::tune::Command& command, const Space& space, bool open);

}  // namespace mobula::internal::tune
