// Pages for people that are longer than the terminal go through the pager that the user likes: $MOBULA_PAGER, $PAGER,
// else `less -FRX`; one that is set and empty means none. Only where both standard input and output are terminals. A
// pager that cannot be run or fails costs nothing: the page is printed plainly. Main thread; waits for the pager.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "cli/command_line.h"

namespace mobula::internal::cli {

// To stdout, by way of the pager where `line` allows it; the code to end with.
int print_page(const std::string& text, const CommandLine& line);

// The command of the shell that shows pages; empty: none. Pure.
std::string pager_command(const char* own, const char* general);
// Whether it has more rows than a screen has beside the next prompt; lines wider than `columns` take several. Pure.
bool is_longer_than(std::string_view text, std::size_t rows, std::size_t columns);

}  // namespace mobula::internal::cli
