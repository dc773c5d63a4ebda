// Names for completion, from the cluster and from directories. Queries have a short timeout.
// Thread: main.
#pragma once

#include <string>
#include <vector>

#include "cli/command_line.h"

namespace mobula::internal::cli::repl {

// Returns ids of a kind ("nodes"), and names if the items have names; empty if the head does not
// answer soon.
std::vector<std::string> ids_of(const CommandLine& line, const std::string& kind);

// Returns paths with this prefix; directories end with '/'.
std::vector<std::string> files_beginning(const std::string& begun);

// Prints the possible next words of a shell's line, one per line, for completion by shells.
int print_completions(const CommandLine& line, const std::string& typed);

}  // namespace mobula::internal::cli::repl
