#include "cli/repl/completion.h"

#include <algorithm>
#include <set>

namespace mobula::internal::cli::repl {
namespace {

const std::vector<std::string> kinds{"actors", "demands", "executors",        "jobs",  "leases",
                                     "nodes",  "objects", "placement-groups", "tasks", "transfers"};
const std::vector<std::string> formats{"csv", "json", "jsonl", "name", "table", "wide", "yaml"};
const std::vector<std::string> metas{"\\!",      "\\d",      "\\help",  "\\o",
                                     "\\source", "\\timing", "\\watch", "\\x"};
const std::vector<std::string> verbs{"actor", "call", "exit", "get", "kill", "let", "quit", "use"};

bool is_space(char c) { return c == ' ' || c == '\t'; }

class Completer {
 public:
  Completer(const CommandNode& tree, const LiveNames& names, bool console)
      : tree_(tree), names_(names), console_(console) {}

  Completion complete(const std::string& before, std::size_t begin) {
    std::vector<std::string> words;
    std::size_t at = begin;
    std::string word;
    for (std::size_t i = begin; i < before.size(); ++i) {
      if (is_space(before[i])) {
        if (!word.empty()) words.push_back(word);
        word.clear();
        at = i + 1;
      } else {
        word += before[i];
      }
    }
    if (!words.empty() && words.front() == "mobula") words.erase(words.begin());
    if (console_ && !words.empty() && words.front() == "\\watch" && words.size() >= 2) {
      words.erase(words.begin(), words.begin() + 2);
    }
    begun_ = word;
    if (words.empty()) {
      first_word();
    } else if (!console_ || !console_word(words)) {
      command_word(words);
    }
    return {at, {found_.begin(), found_.end()}};
  }

 private:
  void offer(const std::string& word) {
    if (word.starts_with(begun_)) found_.insert(word);
  }
  void offer(const std::vector<std::string>& words) {
    for (const auto& each : words) offer(each);
  }
  void offer_ids(const std::string& kind) {
    if (names_.ids) offer(names_.ids(kind));
  }
  void offer_files() {
    if (names_.files) offer(names_.files(begun_));
  }

  void first_word() {
    for (const auto& each : tree_.commands) offer(each.name);
    if (!console_) return;
    offer(begun_.starts_with('\\') ? metas : verbs);
    offer_actors();
  }
  // Offers actors, and after the point their methods.
  void offer_actors() {
    for (const auto& actor : names_.actors) {
      const auto methods = names_.methods.find(actor);
      if (!begun_.starts_with(actor + ".") || methods == names_.methods.end()) {
        offer(actor + ".");
        continue;
      }
      for (const auto& method : methods->second) offer(actor + "." + method);
    }
  }

  // Reports whether the line is a statement of the console.
  bool console_word(const std::vector<std::string>& words) {
    const std::string& verb = words.front();
    if (verb == "\\o")
      offer(formats);
    else if (verb == "\\source" || verb == "\\!" || verb == "use")
      offer_files();
    else if (verb == "kill")
      offer(names_.actors);
    else if (verb == "call")
      words.size() == 1 ? offer(names_.functions) : offer_arguments();
    else if (verb == "actor")
      offer(names_.classes);
    else if (verb == "let")
      offer_called(words);
    else if (verb == "get" && words.size() == 1)
      return offer(names_.results), false;
    else
      return verb.starts_with('\\');
    return true;
  }

  void offer_called(const std::vector<std::string>& words) {
    const auto call = std::ranges::find(words, "call");
    if (call == words.end()) {
      for (const char* each : {"call", "submit", "run", "batch"}) offer(each);
      offer_actors();
    } else {
      words.end() - call == 1 ? offer(names_.functions) : offer_arguments();
    }
  }
  void offer_arguments() {
    offer(names_.results);
    offer("with");
  }

  void command_word(const std::vector<std::string>& words) {
    const CommandNode* node = &tree_;
    std::vector<std::string> given;    // positionals
    const OptionNode* open = nullptr;  // an option that needs a value
    for (const auto& word : words) {
      if (word == "--") return offer_files();
      if (open != nullptr) {
        open = nullptr;
      } else if (word.starts_with('-')) {
        const auto* option = node->option(word);
        if (option != nullptr && option->takes_value) open = option;
      } else if (const auto* below = given.empty() ? node->command(word) : nullptr) {
        node = below;
      } else {
        given.push_back(word);
      }
    }
    if (open != nullptr) return value_of(*open);
    if (node == &tree_) return;
    if (begun_.starts_with('-')) {
      for (const auto& option : node->options) offer(option.names);
      return;
    }
    for (const auto& each : node->commands) offer(each.name);
    if (node->positionals.empty()) return;
    const std::size_t which = std::min(given.size(), node->positionals.size() - 1);
    positional(node->name, node->positionals[which].names.front(), given);
  }

  void value_of(const OptionNode& option) {
    const auto is = [&](const char* name) {
      return std::ranges::find(option.names, name) != option.names.end();
    };
    if (is("--format")) return offer(formats);
    for (const char* file : {"--output", "--key", "--labels-file", "--types", "--state-dir",
                             "--workdir", "--folder"}) {
      if (is(file)) return offer_files();
    }
  }

  void positional(const std::string& command, const std::string& name,
                  const std::vector<std::string>& given) {
    if (name == "kind") {
      for (const auto& kind : kinds)
        offer(command == "get" ? kind.substr(0, kind.size() - 1) : kind);
    } else if (name == "id") {
      const std::string kind = given.empty() ? std::string() : given.front();
      offer_ids(kind.ends_with('s') ? kind : kind + "s");
    } else if (name == "node") {
      offer_ids("nodes");
    } else if (name == "job") {
      offer_ids("submissions");
    } else if (name == "subject") {
      if (command == "logs") offer(std::vector<std::string>{"agent", "head"});
      for (const char* kind : {"tasks", "actors"}) offer_ids(kind);
    } else if (name == "topic") {
      const CommandNode* node = &tree_;
      for (const auto& word : given) node = node == nullptr ? nullptr : node->command(word);
      if (node == nullptr) return;
      for (const auto& each : node->commands) offer(each.name);
    } else if (name == "benchmark") {
      offer_ids("benchmarks");
    } else if (name == "shell") {
      offer(std::vector<std::string>{"bash", "fish", "zsh"});
    } else {
      offer_files();
    }
  }

  const CommandNode& tree_;
  const LiveNames& names_;
  const bool console_;
  std::string begun_;
  std::set<std::string> found_;
};

// Begins after the last ';' outside quotes.
std::size_t statement_begin(const std::string& line) {
  char quote = '\0';
  std::size_t begin = 0;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (quote != '\0') {
      if (line[at] == quote) quote = '\0';
    } else if (line[at] == '"' || line[at] == '\'') {
      quote = line[at];
    } else if (line[at] == ';') {
      begin = at + 1;
    }
  }
  return begin;
}

}  // namespace

Completion complete(const std::string& before, const CommandNode& tree, const LiveNames& names,
                    bool console) {
  return Completer(tree, names, console).complete(before, console ? statement_begin(before) : 0);
}

std::string common_beginning(const std::vector<std::string>& words) {
  if (words.empty()) return {};
  std::string common = words.front();
  for (const auto& word : words) {
    std::size_t same = 0;
    while (same < common.size() && same < word.size() && common[same] == word[same]) ++same;
    common.resize(same);
  }
  return common;
}

}  // namespace mobula::internal::cli::repl
