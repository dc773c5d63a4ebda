// Finds the cluster that runs from a state directory, for programs that name no address.
// Thread: any; reads files.
// Errors: invalid_argument (several clusters run).
// Not: addresses that the user gives.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace mobula::internal::runtime {

struct RunningCluster {
  std::string name;
  std::string address;  // HOST:PORT of the head
};

// Returns the cluster whose head, or else whose agent, this user runs from the directory, or
// nullopt if no cluster runs. `name` selects one of several clusters and may be empty.
Result<std::optional<RunningCluster>> running_cluster(const std::string& state_directory,
                                                      const std::string& name);

}  // namespace mobula::internal::runtime
