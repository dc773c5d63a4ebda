// The commands of `mobula` as data, derived from the grammar that parses them. Completion, help,
// and manual pages are made from it.
// Thread: any.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mobula::internal::cli {

struct OptionNode {
  std::vector<std::string> names{};  // "-o", "--output"; for a positional its one name
  std::string about{};
  bool takes_value = false;
  std::string value = "VALUE";  // kind of the value: SIZE, SECONDS, ...
  bool required = false;
};

struct CommandNode {
  std::string name{};
  std::string about{};
  std::vector<OptionNode> options{};
  std::vector<OptionNode> positionals{};
  std::vector<CommandNode> commands{};

  // Returns null if the name is unknown.
  const CommandNode* command(const std::string& of_name) const;
  const OptionNode* option(const std::string& of_name) const;
};

CommandNode tree_of(const CLI::App& app);

// Returns the most similar name, at an edit distance of at most 2; nothing if no name is that
// similar.
std::optional<std::string> nearest_name(const std::string& written,
                                        const std::vector<std::string>& names);
std::vector<std::string> names_of(const std::vector<CommandNode>& commands);

// Returns the unexpected words in typed order, with suggestions for options: "'--tow' and 'x' are
// not expected; did you mean '--two'?" Requires that parsing threw ExtrasError.
std::string unexpected_words(const CLI::App& app);

}  // namespace mobula::internal::cli
