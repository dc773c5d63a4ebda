// What can stand where the cursor is: verbs, options, kinds, live ids and names, files. Pure but for the questions
// it asks through LiveNames; main thread.
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
  std::map<std::string, std::vector<std::string>> methods{};  // of an actor, by its name
};

struct Completion {
  std::size_t from = 0;  // where the word begins that they complete
  std::vector<std::string> words{};  // in order, each once
};

// `before` is the line up to the cursor. With `console` also what is not a command of the command line.
Completion complete(const std::string& before, const CommandNode& tree, const LiveNames& names, bool console);

// The longest beginning that all have.
std::string common_beginning(const std::vector<std::string>& words);

}  // namespace mobula::internal::cli::repl
