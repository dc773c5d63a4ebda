#include "cli/command_tree.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text/edit_distance.h"

namespace mobula::internal::cli {
namespace {

constexpr std::size_t most_edits = 2;

// The kind of value of each option, for usage lines.
constexpr std::pair<std::string_view, std::string_view> value_kinds[] = {
    {"accelerator-type", "TYPE"},
    {"address", "HOST:PORT"},
    {"advertise", "HOST"},
    {"autoscale", "FILE"},
    {"number", "N"},
    {"parallel", "N"},
    {"bind", "HOST"},
    {"bulk-connections", "N"},
    {"cluster", "NAME"},
    {"color", "WHEN"},
    {"columns", "NAMES"},
    {"cwd", "DIR"},
    {"deadline", "SECONDS"},
    {"driver-absence", "SECONDS"},
    {"env", "NAME=VALUE"},
    {"format", "FORMAT"},
    {"for", "ID"},
    {"gpu-over-share", "ACTION"},
    {"grep", "REGEX"},
    {"local-rank", "N"},
    {"preemption", "POLICY"},
    {"rank", "N"},
    {"role", "ROLE"},
    {"run", "NAME"},
    {"severity", "LEVEL"},
    {"size", "N"},
    {"sort-by", "NAME"},
    {"storage", "DIR"},
    {"study", "NAME"},
    {"trusted-fabric", "NAME"},
    {"with", "LAUNCHER"},
    {"executor-memory", "SIZE"},
    {"expires", "TIME"},
    {"file", "FILE"},
    {"filter", "NAME=VALUE"},
    {"folder", "DIR"},
    {"grace", "SECONDS"},
    {"gpu-context-memory", "SIZE"},
    {"gpu-memory", "SIZE"},
    {"gpu-watch-period", "MILLISECONDS"},
    {"head-host", "HOST"},
    {"host", "HOST"},
    {"http", "HOST:PORT"},
    {"http-cert", "FILE"},
    {"http-key", "FILE"},
    {"job", "ID"},
    {"join", "TOKEN"},
    {"key", "FILE"},
    {"kind", "KIND"},
    {"label", "NAME=VALUE"},
    {"label-selector", "NAME=VALUE"},
    {"labels", "NAME=VALUE,..."},
    {"labels-file", "FILE"},
    {"limit", "N"},
    {"memory", "SIZE"},
    {"memory-threshold", "PART"},
    {"name", "NAME"},
    {"num-cpus", "N"},
    {"num-gpus", "N"},
    {"object-spilling-directory", "DIR"},
    {"object-spilling-threshold", "PART"},
    {"object-store-memory", "SIZE"},
    {"otlp", "URL"},
    {"output", "FORMAT"},
    {"port", "PORT"},
    {"preempt-after", "SECONDS"},
    {"priority", "N"},
    {"record", "DIR"},
    {"resources", "JSON"},
    {"retries", "N"},
    {"rows", "N"},
    {"selector", "NAME=VALUE,..."},
    {"ship", "FILE"},
    {"ship-lib", "FILE"},
    {"since", "TIME"},
    {"spin-us", "MICROSECONDS"},
    {"state-dir", "DIR"},
    {"tail", "N"},
    {"time-limit", "SECONDS"},
    {"timeout", "SECONDS"},
    {"shared-folder", "DIR"},
    {"types", "FILE"},
    {"wait", "SECONDS"},
    {"watch", "SECONDS"},
    {"workdir", "DIR"}};

std::string value_kind_of(const CLI::Option& option) {
  if (option.check_lname("output") && !option.check_sname("o")) return "FILE";  // not a format
  for (const auto& [name, kind] : value_kinds) {
    if (option.check_lname(std::string(name))) return std::string(kind);
  }
  return option.check_sname("c") ? "COMMAND" : "VALUE";
}

}  // namespace

std::optional<std::string> nearest_name(const std::string& written,
                                        const std::vector<std::string>& names) {
  const auto best = std::ranges::min_element(
      names, {}, [&](const std::string& name) { return edit_distance(written, name); });
  if (best == names.end() || edit_distance(written, *best) > most_edits) return std::nullopt;
  return *best;
}

std::string unexpected_words(const CLI::App& app) {
  std::vector<std::string> known;
  std::vector<std::string> words;
  std::vector<const CLI::App*> chain{&app};
  for (std::size_t i = 0; i < chain.size(); ++i) {
    for (const CLI::Option* each : chain[i]->get_options()) {
      if (each->get_group().empty()) continue;  // hidden
      for (const auto& name : each->get_lnames()) known.push_back("--" + name);
    }
    const auto left = chain[i]->remaining(false);
    words.insert(words.end(), left.begin(), left.end());
    for (const CLI::App* below : chain[i]->get_subcommands()) chain.push_back(below);
  }
  std::string text;
  std::string meant;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += (i == 0 ? "'" : i + 1 == words.size() ? " and '" : ", '") + words[i] + "'";
    const auto option = words[i].substr(0, words[i].find('='));
    const auto best = option.starts_with("--") ? nearest_name(option, known) : std::nullopt;
    if (best) meant += (meant.empty() ? "'" : ", '") + *best + "'";
  }
  text += words.size() == 1 ? " is not expected" : " are not expected";
  return meant.empty() ? text : text + "; did you mean " + meant + "?";
}

std::vector<std::string> names_of(const std::vector<CommandNode>& commands) {
  std::vector<std::string> names;
  for (const auto& each : commands) names.push_back(each.name);
  return names;
}

const CommandNode* CommandNode::command(const std::string& of_name) const {
  const auto found = std::ranges::find(commands, of_name, &CommandNode::name);
  return found == commands.end() ? nullptr : &*found;
}

const OptionNode* CommandNode::option(const std::string& of_name) const {
  const auto found = std::ranges::find_if(options, [&](const OptionNode& each) {
    return std::ranges::find(each.names, of_name) != each.names.end();
  });
  return found == options.end() ? nullptr : &*found;
}

CommandNode tree_of(const CLI::App& app) {
  CommandNode node;
  node.name = app.get_name();
  node.about = app.get_description();
  for (const CLI::Option* each : app.get_options()) {
    if (each->get_group().empty()) continue;  // hidden
    OptionNode option;
    option.about = each->get_description();
    option.takes_value = each->get_items_expected_max() > 0;
    option.value = value_kind_of(*each);
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
