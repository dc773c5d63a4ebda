// The commands of `mobula` as data, taken from the grammar that parses them: what completion, help and manual
// pages are made of. Values.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace mobula::internal::cli {

struct OptionNode {
  std::vector<std::string> names{};  // "-o", "--output"; of a positional: its one name
  std::string about{};
  bool takes_value = false;
  std::string value = "VALUE";  // kind of the value, for help: SIZE, SECONDS, ...
  bool required = false;
};

struct CommandNode {
  std::string name{};
  std::string about{};
  std::vector<OptionNode> options{};
  std::vector<OptionNode> positionals{};
  std::vector<CommandNode> commands{};

  // Null where there is none.
  const CommandNode* command(const std::string& of_name) const;
  const OptionNode* option(const std::string& of_name) const;
};

CommandNode tree_of(const CLI::App& app);

// The one of `names` that was likely meant: at most two letters away; nothing where none is.
std::optional<std::string> nearest_name(const std::string& written, const std::vector<std::string>& names);
std::vector<std::string> names_of(const std::vector<CommandNode>& commands);

// What was typed and means nothing to the command, in the order typed, with what an option may have been meant to be:
// "'--tow' and 'x' are not expected; did you mean '--two'?" Of an app whose parsing has thrown ExtrasError.
std::string unexpected_words(const CLI::App& app);

}  // namespace mobula::internal::cli
