// `mobula batch [FLAGS] SCRIPT [-- ARGUMENTS]`: submits a script whose lines `#MOBULA FLAGS` are
// flags.
// Thread: main.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace mobula::internal::cli {

// Replaces `words` by those of the equivalent `mobula submit`; flags of the command line follow
// those of the script and override them. Otherwise prints every faulty line with its number and
// returns the exit code.
std::optional<int> read_batch(int argc, char** argv, std::vector<std::string>& words);

// Returns the flags of a script's directives, in order. Directives precede the first command.
// invalid_argument has one line FILE:LINE: FAULT per faulty line.
Result<std::vector<std::string>> flags_of_script(const std::string& file, const std::string& text);

}  // namespace mobula::internal::cli
