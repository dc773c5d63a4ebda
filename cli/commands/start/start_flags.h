// Grammar of `start`, and the checks of its flags.
// Thread: main, at start.
// Errors: CLI::ValidationError, which names the flag.
#pragma once

#include "cli/command_line.h"
#include "cli/flag_texts.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace mobula::internal::cli {

// Adds the options of `start`. Returns --trusted-fabric, which `start` owns: only the option knows
// that it was given without a value.
CLI::Option* add_start_options(CLI::App& start, CommandLine& line, FlagTexts& texts);

// Checks the combination of flags after the parse, and sets the values that are read as text.
void check_start(const CLI::Option& trusted_fabric, const FlagTexts& texts, CommandLine& line);

}  // namespace mobula::internal::cli
