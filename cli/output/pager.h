// Sends long pages to a pager: $MOBULA_PAGER, $PAGER, else `less -FRX`; an empty variable disables
// it. Only if standard input and output are terminals. If the pager fails, the page is printed
// directly.
// Thread: main; waits for the pager.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "cli/command_line.h"

namespace mobula::internal::cli {

// Prints to stdout, through the pager if `line` allows it. Returns the exit code.
int print_page(const std::string& text, const CommandLine& line);

// Returns the shell command of the pager; empty: none. Pure.
std::string pager_command(const char* own, const char* general);
// Reports whether `text` exceeds a screen minus the next prompt. Lines wider than `columns` take
// several rows. Pure.
bool is_longer_than(std::string_view text, std::size_t rows, std::size_t columns);

}  // namespace mobula::internal::cli
