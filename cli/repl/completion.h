// Completion at the cursor: verbs, options, kinds, live ids and names, and files. Pure except for
// the queries of LiveNames.
// Thread: main.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cli/command_tree.h"

namespace mobula::internal::cli::repl {

struct LiveNames {
  std::function<std::vector<std::string>(const std::string& kind)> ids{};  // "nodes": ids and names
  std::function<std::vector<std::string>(const std::string& begun)> files{};
  std::vector<std::string> functions{};
  std::vector<std::string> classes{};
  std::vector<std::string> results{};
  std::vector<std::string> actors{};
  std::map<std::string, std::vector<std::string>> methods{};  // methods of an actor, by its name
};

struct Completion {
  std::size_t from = 0;              // beginning of the completed word
  std::vector<std::string> words{};  // sorted, without duplicates
};

// `before` is the line up to the cursor. `console` adds statements that are not commands of the
// command line.
Completion complete(const std::string& before, const CommandNode& tree, const LiveNames& names,
                    bool console);

// Returns the longest common prefix.
std::string common_beginning(const std::vector<std::string>& words);

}  // namespace mobula::internal::cli::repl
