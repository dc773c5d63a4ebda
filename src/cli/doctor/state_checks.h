// The files by which this machine is part of clusters: who may read them, what they say, and what dead processes
// have left. Changes nothing. Main thread.
#pragma once

#include <string>

#include "cli/doctor/finding.h"

namespace mobula::internal::cli::doctor {

// Of the state folder, and in it of `cluster`, or of all where it is empty.
Findings check_state(const std::string& state_folder, const std::string& cluster);
// Of the folder of sockets.
Findings check_runtime_folder(const std::string& folder);
// Of a key file that the user has named.
Findings check_key_file(const std::string& path);

// What the head and the agent of this machine have told others that they are: the host part of an address; empty
// where none runs.
std::string advertised_host(const std::string& state_folder, const std::string& cluster);

}  // namespace mobula::internal::cli::doctor
