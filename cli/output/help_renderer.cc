#include "cli/output/help_renderer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cli/exit_code.h"
#include "cli/filters.h"
#include "cli/output/pager.h"

namespace mobula::internal::cli {
namespace {

constexpr std::size_t about_column = 34;
constexpr std::size_t help_width = 100;  // columns of a line of help
constexpr const char* version_text = MOBULA_VERSION;

struct Topic {
  const char* name;
  const char* title;
  const char* about;
  std::vector<std::pair<const char*, const char*>> rows;
};

const std::vector<Topic>& topics() {
  static const std::vector<Topic> all{
      {"exit-codes",
       "EXIT STATUS",
       "Exit codes of commands",
       {{"0", "done"},
        {"1",
         "failed; submit, run, and wait exit with the program's own code, 128 + N for signal N"},
        {"2", "wrong use"},
        {"3", "cluster unreachable"},
        {"4", "permission denied"},
        {"5", "timed out"},
        {"6", "can never be scheduled"},
        {"7", "not found"},
        {"130", "interrupted"}}},
      {"environment",
       "ENVIRONMENT",
       "Environment variables",
       {{"MOBULA_ADDRESS", "Default of --address: HOST:PORT of the head"},
        {"MOBULA_KEY_FILE", "Default of --key: key file of the cluster"},
        {"MOBULA_TOKEN",
         "Token of `mobula token create`, if no key file is given; also for programs"},
        {"MOBULA_TOKEN_FILE", "File of mode 0600 with a token, if MOBULA_TOKEN is not set"},
        {"MOBULA_STATE_DIR",
         "Default of --state-dir: directory for the files of this machine's clusters"},
        {"MOBULA_CLUSTER", "Default of --name: name of the cluster"},
        {"MOBULA_COLOR", "Default of --color: auto, always, or never"},
        {"NO_COLOR", "If set: no colors, unless --color or MOBULA_COLOR is always"},
        {"MOBULA_PAGER", "Pager for long pages, preferred to PAGER and less -FRX; empty: none"},
        {"MOBULA_LOG_LEVEL", "Log level: debug, info, warn, error, or off"}}}};
  return all;
}

std::string flags_of(const OptionNode& option) {
  std::string text;
  for (const auto& name : option.names) text += (text.empty() ? "" : ", ") + name;
  return text + (option.takes_value ? " " + option.value : "");
}

// Paragraphs of the help for commands that need more than their options.
std::string notes_of(const std::string& path) {
  if (path == "mobula symmetric") {
    return "Run it on every machine with srun, mpiexec, or mpirun. Rank 0 starts a head, the other "
           "ranks join\n"
           "it, and the program starts at rank 0 when all ranks have joined. Its end stops all "
           "processes of\n"
           "the launch. The exit code is that of the program. If several ranks share a machine, "
           "the first of\n"
           "them joins. Other flags go to `mobula start` on each machine.\n";
  }
  if (path == "mobula batch") {
    return "Lines of the script before its first command can contain flags, which the command line "
           "overrides:\n"
           "  #MOBULA --num-gpus 1 --time-limit 3600\n";
  }
  if (path == "mobula bench") return "'mobula bench --list' lists the measurements.\n";
  return {};
}

std::string upper(std::string text) {
  for (auto& c : text) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return text;
}

std::string synopsis_of(const CommandNode& node, const std::string& path) {
  std::string text = path;
  if (!node.commands.empty()) text += " COMMAND";
  for (const auto& each : node.positionals) {
    const std::string name = upper(each.names.front());
    text += each.required ? " " + name : " [" + name + "]";
  }
  return text + (node.options.empty() ? "" : " [OPTIONS]");
}

// Breaks `text` between words into lines of `help_width` columns that begin at `about_column`.
std::string wrapped(const std::string& text) {
  std::string lines;
  std::size_t column = about_column;
  std::size_t begin = 0;
  while (begin < text.size()) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::size_t size = end - begin;
    if (column > about_column && column + 1 + size > help_width) {
      lines += "\n" + std::string(about_column, ' ');
      column = about_column;
    } else if (column > about_column) {
      lines += ' ';
      ++column;
    }
    lines.append(text, begin, size);
    column += size;
    begin = end + 1;
  }
  return lines;
}

std::string row_of(const std::string& name, const std::string& about) {
  if (name.size() + 4 > about_column)
    return fmt::format("  {}\n{:{}}{}\n", name, "", about_column, wrapped(about));
  return fmt::format("  {:{}}{}\n", name, about_column - 2, wrapped(about));
}

std::string help_of(const CommandNode& node, const std::string& path) {
  std::string text =
      fmt::format("{}: {}\n\nUsage: {}\n", path, node.about, synopsis_of(node, path));
  if (const std::string notes = notes_of(path); !notes.empty()) text += "\n" + notes;
  if (!node.positionals.empty()) text += "\nArguments:\n";
  for (const auto& each : node.positionals) text += row_of(upper(each.names.front()), each.about);
  if (!node.options.empty()) text += "\nOptions:\n";
  for (const auto& each : node.options) text += row_of(flags_of(each), each.about);
  if (!node.commands.empty()) text += "\nCommands:\n";
  for (const auto& each : node.commands) text += row_of(each.name, each.about);
  if (path == "mobula") {
    text += "\nTopics of 'mobula help':\n";
    for (const auto& each : topics()) text += row_of(each.name, each.about);
  }
  return text;
}

int say(const std::string& text) {
  return std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0 ? exit_done
                                                                           : complain_of_output();
}

// ---- man(7) ------------------------------------------------------------------------------------

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else if (c == '\'')
      out += "\\(aq";
    else if (c == '"')
      out += "\\(dq";
    else if (c == '\n')
      out += "\n.br\n";
    else
      out += c;
  }
  return out.starts_with('.') ? "\\&" + out : out;
}

std::string item(const std::string& name, const std::string& about) {
  return ".TP\n.B " + escaped(name) + "\n" + (about.empty() ? "\\&" : escaped(about)) + "\n";
}

std::string page_name(const std::string& path) {
  std::string name = path;
  std::ranges::replace(name, ' ', '-');
  return name;
}

std::string section_of(const Topic& topic) {
  std::string text = fmt::format(".SH {}\n", topic.title);
  for (const auto& [name, about] : topic.rows) text += item(name, about);
  return text;
}

Result<void> write_pages(const CommandNode& node, const std::string& path,
                         const std::filesystem::path& directory) {
  const auto file = directory / (page_name(path) + ".1");
  std::ofstream out(file, std::ios::binary);
  out << manual_page(node, path, version_text);
  out.close();
  if (!out)
    return failure(ErrorCode::unavailable, "write " + file.string() + ": " + std::strerror(errno));
  for (const auto& each : node.commands) {
    if (auto written = write_pages(each, path + " " + each.name, directory); !written)
      return written;
  }
  return {};
}

// Returns the command that the words name; not_found suggests the nearest name.
Result<const CommandNode*> command_of(const CommandNode& tree,
                                      const std::vector<std::string>& words) {
  const CommandNode* node = &tree;
  for (const auto& word : words) {
    const CommandNode* below = node->command(word);
    if (below == nullptr) {
      std::vector<std::string> names = names_of(node->commands);
      if (node == &tree) {
        for (const auto& each : topics()) names.push_back(each.name);
      }
      const auto best = nearest_name(word, names);
      const std::string hint =
          best ? "did you mean 'mobula help " + *best + "'?" : "'mobula help' lists all commands";
      return failure(ErrorCode::not_found,
                     fmt::format("help {}: no such command or topic; {}", word, hint));
    }
    node = below;
  }
  return node;
}

std::string path_of(const std::vector<std::string>& words) {
  std::string path = "mobula";
  for (const auto& word : words) path += " " + word;
  return path;
}

}  // namespace

Result<std::string> help_text(const CommandNode& tree, const std::vector<std::string>& topic) {
  for (const auto& each : topics()) {
    if (topic.size() != 1 || topic.front() != each.name) continue;
    std::string text;
    for (const auto& [name, about] : each.rows) text += row_of(name, about);
    return text;
  }
  const auto node = command_of(tree, topic);
  if (!node) return node.error();
  return help_of(**node, path_of(topic));
}

std::string manual_page(const CommandNode& node, const std::string& path,
                        const std::string& version) {
  const std::string name = page_name(path);
  std::string text =
      fmt::format(".TH {} 1 \"\" \"Mobula {}\" \"Mobula\"\n", escaped(upper(name)), version);
  text += fmt::format(".SH NAME\n{} \\- {}\n", escaped(name), escaped(node.about));
  text +=
      fmt::format(".SH SYNOPSIS\n.B {}\n{}\n", escaped(path),
                  escaped(synopsis_of(node, path)
                              .substr(std::min(path.size() + 1, synopsis_of(node, path).size()))));
  if (const std::string notes = notes_of(path); !notes.empty())
    text += ".SH DESCRIPTION\n" + escaped(notes) + "\n";
  if (!node.positionals.empty()) text += ".SH ARGUMENTS\n";
  for (const auto& each : node.positionals) text += item(upper(each.names.front()), each.about);
  if (!node.options.empty()) text += ".SH OPTIONS\n";
  for (const auto& each : node.options) text += item(flags_of(each), each.about);
  if (!node.commands.empty()) text += ".SH COMMANDS\n";
  for (const auto& each : node.commands) text += item(each.name, each.about);
  for (const auto& each : topics()) text += section_of(each);
  std::string others;
  for (const auto& each : node.commands)
    others += fmt::format("{}.BR {} (1)", others.empty() ? "" : ",\n",
                          escaped(page_name(path + " " + each.name)));
  const auto above = path.rfind(' ');
  if (above != std::string::npos)
    others += fmt::format("{}.BR {} (1)", others.empty() ? "" : ",\n",
                          escaped(page_name(path.substr(0, above))));
  return others.empty() ? text : text + ".SH SEE ALSO\n" + others + "\n";
}

std::string completion_script(const std::string& shell) {
  if (shell == "bash") {
    return "# source <(mobula completion bash)\n"
           "_mobula() {\n"
           "  local IFS=$'\\n' line=\"${COMP_LINE:0:COMP_POINT}\"\n"
           "  COMPREPLY=($(mobula complete-line \"${line#* }\" 2>/dev/null))\n"
           "  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then compopt -o nospace; "
           "fi\n"
           "}\n"
           "complete -F _mobula mobula\n";
  }
  if (shell == "zsh") {
    return "#compdef mobula\n"
           "# source <(mobula completion zsh)\n"
           "_mobula() {\n"
           "  local -a found\n"
           "  found=(\"${(@f)$(mobula complete-line \"${(j: :)words[2,CURRENT-1]} ${PREFIX}\" "
           "2>/dev/null)}\")\n"
           "  compadd -a found\n"
           "}\n"
           "compdef _mobula mobula\n";
  }
  return "# mobula completion fish | source\n"
         "function __mobula_complete\n"
         "  set -l before (commandline -opc) ''\n"
         "  mobula complete-line (string join ' ' $before[2..-1])(commandline -ct) 2>/dev/null\n"
         "end\n"
         "complete -c mobula -f -a '(__mobula_complete)'\n";
}

int show_help(const CommandLine& line) {
  const auto text = help_text(command_tree(), line.shell.topic);
  if (text && line.shell.topic == std::vector<std::string>{"list"}) {
    return print_page(
        *text + "\nNames for --filter (headers of the table are also accepted):\n" + fields_text(),
        line);
  }
  return text ? print_page(*text, line) : complain(text.error());
}

int show_manual(const CommandLine& line) {
  const CommandNode tree = command_tree();
  if (!line.shell.man_dir.empty()) {
    std::error_code code;
    std::filesystem::create_directories(line.shell.man_dir, code);
    const auto written = write_pages(tree, "mobula", line.shell.man_dir);
    return written ? static_cast<int>(exit_done) : complain(written.error(), exit_failed);
  }
  const auto node = command_of(tree, line.shell.topic);
  if (!node) return complain(node.error());
  return say(manual_page(**node, path_of(line.shell.topic), version_text));
}

int show_completion(const CommandLine& line) { return say(completion_script(line.shell.shell)); }

}  // namespace mobula::internal::cli
