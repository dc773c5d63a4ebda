// `mobula up|down|status|attach|exec CLUSTER.yaml`: clusters of machines that are reached over ssh.
// Main thread.
#pragma once

#include <optional>
#include <string>

#include "cli/command_tree.h"

namespace mobula::internal::cli {

// Whether these arguments are such a command: `status` is one only with a YAML file.
bool is_fleet_command(int argc, char** argv);
// 0 where every machine did what it was told; 3 where some could not be reached, 4 where some refused
// ssh, and all others did; 1 otherwise, and where `status` finds a machine down or broken. `exec`: the
// command's code.
int run_fleet_command(int argc, char** argv);
// The grammar of up, down, attach and exec; nothing for other names.
std::optional<CommandNode> fleet_command(const std::string& name);

}  // namespace mobula::internal::cli
