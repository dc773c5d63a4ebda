// `mobula autoscale`: launches nodes for demand that the cluster cannot serve, and gives back idle
// nodes. `mobula autoscaler`: shows and controls it through the head.
// Thread: main.
#pragma once

#include <functional>
#include <string>

#include "cli/command_line.h"

namespace mobula::internal::cli {

// Checks a types file for `autoscale`: its node types and its provider.
Result<void> check_types_file(const std::string& file);
// Runs until SIGTERM or SIGINT and returns the exit code. `ready` is called once it runs.
int run_autoscaler(const CommandLine& line, const std::function<void()>& ready);
int autoscale(const CommandLine& line);

// `mobula autoscaler status|pause TYPE|resume TYPE`.
int autoscaler_command(const CommandLine& line);

}  // namespace mobula::internal::cli
