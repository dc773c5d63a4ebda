// `mobula up|down|status|attach|exec CLUSTER.yaml`: clusters of machines that are reached over ssh.
// Main thread.
#pragma once

namespace mobula::internal::cli {

// Whether these arguments are such a command: `status` is one only with a YAML file.
bool is_fleet_command(int argc, char** argv);
// 0 where every machine did what it was told; 3 where some could not be reached, 4 where some refused
// ssh, and all others did; 1 otherwise, and where `status` finds a machine down or broken. `exec`: the
// command's code.
int run_fleet_command(int argc, char** argv);

}  // namespace mobula::internal::cli
