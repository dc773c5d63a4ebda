// What completion finds in the cluster and in folders. Asks, with little patience; main thread.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"

namespace mobula::internal::cli::repl {

// Ids of what there is of a kind ("nodes"), and names where things have one; none where nobody answers soon.
std::vector<std::string> ids_of(const CommandLine& line, const std::string& kind);

// Paths that begin so; folders end with '/'.
std::vector<std::string> files_beginning(const std::string& begun);

// Prints what could stand at the end of this line of a shell, a word a line: for completion by shells.
int print_completions(const CommandLine& line, const std::string& typed);

}  // namespace mobula::internal::cli::repl
