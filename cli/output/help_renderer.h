// `mobula help`, `mobula man`, and `mobula completion`: texts made from the tree of commands.
// Thread: main; functions that return text are pure.
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

// Returns help for a command ({"job", "list"}), for a topic such as "exit-codes", or without words
// for all commands. not_found suggests the nearest name.
Result<std::string> help_text(const CommandNode& tree, const std::vector<std::string>& topic);

// Returns a page in the format of man(7). `path` is "mobula" and the words of the command.
std::string manual_page(const CommandNode& node, const std::string& path,
                        const std::string& version);

// Returns a script for bash, zsh, or fish that queries this program for completions.
std::string completion_script(const std::string& shell);

}  // namespace mobula::internal::cli
