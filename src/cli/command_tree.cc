#include "cli/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>

namespace mobula::internal::cli {

const CommandNode* CommandNode::command(const std::string& of_name) const {
  const auto found = std::ranges::find(commands, of_name, &CommandNode::name);
  return found == commands.end() ? nullptr : &*found;
}

const OptionNode* CommandNode::option(const std::string& of_name) const {
  const auto found = std::ranges::find_if(
      options, [&](const OptionNode& each) { return std::ranges::find(each.names, of_name) != each.names.end(); });
  return found == options.end() ? nullptr : &*found;
}

CommandNode tree_of(const CLI::App& app) {
  CommandNode node;
  node.name = app.get_name();
  node.about = app.get_description();
  for (const CLI::Option* each : app.get_options()) {
    if (each->get_group().empty()) continue;  // not for people
    OptionNode option;
    option.about = each->get_description();
    option.takes_value = each->get_items_expected_max() > 0;
    option.required = each->get_required();
    if (each->nonpositional()) {
      for (const auto& name : each->get_snames()) option.names.push_back("-" + name);
      for (const auto& name : each->get_lnames()) option.names.push_back("--" + name);
      node.options.push_back(std::move(option));
    } else {
      option.names.push_back(each->get_name(true, false));
      node.positionals.push_back(std::move(option));
    }
  }
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; })) {
    node.commands.push_back(tree_of(*each));
  }
  return node;
}

}  // namespace mobula::internal::cli
