// `mobula help`, `mobula man` and `mobula completion`: texts made of the one tree of commands. Main thread; the
// functions that return text are pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command_line.h"
#include "cli/command_tree.h"

namespace mobula::internal::cli {

int show_help(const CommandLine& line);
int show_manual(const CommandLine& line);
int show_completion(const CommandLine& line);

// Of a command ({"job", "list"}), of a topic such as "exit-codes", of everything without words. not_found names the
// nearest.
Result<std::string> help_text(const CommandNode& tree, const std::vector<std::string>& topic);

// In the language of man(7). `path` is "mobula" and the words of the command.
std::string manual_page(const CommandNode& node, const std::string& path, const std::string& version);

// For bash, zsh or fish: asks this program what could stand there.
std::string completion_script(const std::string& shell);

}  // namespace mobula::internal::cli
