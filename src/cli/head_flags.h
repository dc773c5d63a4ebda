// What the head of a cluster was started with, in its state folder (head/flags.json): a start that is not told otherwise
// takes it from there, so that a head that has died comes back where its nodes look for it. Values and file I/O; main
// thread.
#pragma once

#include <string>

#include "cli/command_line.h"

namespace mobula::internal::cli {

// To be kept once the head serves. What belongs to its machine's agent is not in it.
Result<void> save_head_flags(const StartOptions& start, const std::string& folder);

// Of a start of a head: its name, where exactly one cluster's head has died here and none is called "default", and what
// its head was started with, as far as the line does not say itself. The flags that were added, as they would be typed;
// empty: none. Fails where the file is broken.
Result<std::string> add_head_flags_of_before(CommandLine& line);

// How the head of this cluster is started again, as a command to type.
std::string restart_command(const std::string& state_folder, const std::string& cluster);
// As a shell takes it as one word.
std::string shell_word(const std::string& text);
// " --name NAME --state-dir DIR", as far as it takes them to mean this cluster.
std::string flags_of_place(const std::string& state_folder, const std::string& cluster);

}  // namespace mobula::internal::cli
