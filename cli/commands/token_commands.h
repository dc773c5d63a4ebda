// `mobula token create|list|revoke`, and joining with a token. The secret half of a token is
// created and shown here; the head gets the public half.
// Thread: main.
#pragma once

#include <string>

#include "cli/command_line.h"

namespace mobula::internal::cli {

int token_command(const CommandLine& line);

// Returns the name of a valid driver token of the head at `address`; empty if it has none or does
// not answer.
std::string driver_token_of(const std::string& address, const std::string& operator_key);

// Uses the token of `start --join`: the machine gets its own key, stored in the directory of the
// cluster. Sets the head's address and the key file in `line`. Waits for an absent head. Returns
// the exit code of the program if it is not 0. Call before any thread starts.
int join_by_ticket(CommandLine& line);

}  // namespace mobula::internal::cli
