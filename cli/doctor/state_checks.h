// Checks of the files of this machine's clusters: permissions, contents, and remains of dead
// processes. Changes nothing.
// Thread: main.
#pragma once

#include <string>

#include "cli/doctor/finding.h"

namespace mobula::internal::cli::doctor {

// Checks the state directory, and in it the files of `cluster`, or of all clusters if it is empty.
Findings check_state(const std::string& state_dir, const std::string& cluster);
// Checks the directory of sockets.
Findings check_runtime_dir(const std::string& directory);
// Checks a key file that the user names.
Findings check_key_file(const std::string& path);

// Returns the host part of the address that the head and the agent of this machine advertise; empty
// if none runs.
std::string advertised_host(const std::string& state_dir, const std::string& cluster);

}  // namespace mobula::internal::cli::doctor
