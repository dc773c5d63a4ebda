// `mobula up|down|status|attach|exec CLUSTER.yaml`: clusters of machines that are reached over ssh.
// Thread: main.
#pragma once

#include <optional>
#include <string>

#include "cli/command_tree.h"

namespace mobula::internal::cli {

// Reports whether the arguments are such a command. `status` is one only with a YAML file.
bool is_fleet_command(int argc, char** argv);
// Returns 0 if every machine completed the command. If the others completed it: 3 if some were
// unreachable, 4 if some refused ssh. Otherwise 1, also if `status` finds a machine down or broken.
// `exec` returns the code of the command.
int run_fleet_command(int argc, char** argv);
// Returns the grammar of up, down, attach, or exec; nothing for other names.
std::optional<CommandNode> fleet_command(const std::string& name);

}  // namespace mobula::internal::cli
