// The flags of the previous start of a head, in the state directory (head/flags.json). A start
// without such flags reuses them, so that a restarted head has the address that its nodes know.
// Thread: main.
#pragma once

#include <string>

#include "cli/command_line.h"

namespace mobula::internal::cli {

inline constexpr const char* default_cluster = "default";

// Saves the flags after the head serves. Flags of the agent on its machine are not saved.
Result<void> save_head_flags(const StartOptions& start, const std::string& directory);

// Completes the flags of a head's start from its previous start, and its name if exactly one
// cluster's head has died here and none is called "default". Returns the added flags as typed;
// empty: none. Fails if the file is broken.
Result<std::string> add_head_flags_of_before(CommandLine& line);

// Whether the previous start of the head in this directory had --expose-head-keys.
bool accepts_exposed_keys(const std::string& directory);

// Returns the command that restarts the head of this cluster.
std::string restart_command(const std::string& state_dir, const std::string& cluster);
// Quotes the text as one word of a shell.
std::string shell_word(const std::string& text);
// Returns " --name NAME --state-dir DIR", as far as needed to identify this cluster.
std::string cluster_flags(const std::string& state_dir, const std::string& cluster);

}  // namespace mobula::internal::cli
