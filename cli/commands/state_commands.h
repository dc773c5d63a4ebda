// Commands that query the head: status, list, get, summary, and explain.
// Thread: main.
#pragma once

#include "cli/command_line.h"

namespace mobula::internal::cli {

// Each prints the answer or the fault and returns the exit code.
int show_status(const CommandLine& line);
int list_items(const CommandLine& line);
int show_memory(const CommandLine& line);
// Prints the link of the web page with the token of its file.
int show_page(const CommandLine& line);
int get_item(const CommandLine& line);
int summarise(const CommandLine& line);
int explain(const CommandLine& line);

}  // namespace mobula::internal::cli
