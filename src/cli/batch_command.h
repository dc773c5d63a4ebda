// `mobula batch [FLAGS] SCRIPT [-- ARGUMENTS]`: submits a script whose lines `#MOBULA FLAGS` say what it asks
// for. Main thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace mobula::internal::cli {

extern const char* const batch_help;

// The words of the `mobula submit` that it means, with those of the command line after those of the script, so
// that they count; or the exit code to end with, having said why: all wrong lines at once, with their numbers.
std::optional<int> read_batch(int argc, char** argv, std::vector<std::string>& words);

// The flags that a script's lines say, in order. They stand before its first command. invalid_argument has a line
// for each that is wrong: FILE:LINE: why.
Result<std::vector<std::string>> flags_of_script(const std::string& file, const std::string& text);

}  // namespace mobula::internal::cli
