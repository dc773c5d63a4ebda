// `mobula token create|list|revoke`, and joining by a ticket. The secret half of a token is made here
// and shown here; the head gets the public one. Main thread.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

int token_command(const CommandLine& line);

// Uses the ticket of `start --join`: the machine gets a key of its own, which is kept in the folder
// of the cluster. Leaves in `line` the head's address and that key's file. Waits for a head that is
// not there yet. The exit code of the program where that is not 0. Before any thread is started.
int join_by_ticket(CommandLine& line);

}  // namespace mobula::internal::cli
