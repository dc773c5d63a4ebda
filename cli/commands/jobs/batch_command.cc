#include "cli/commands/jobs/batch_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include "cli/command_line.h"
#include "cli/commands/jobs/job_flags.h"
#include "cli/exit_code.h"
#include "cli/output/help_renderer.h"
#include "cli/output/output.h"
#include "protocol/program/cluster_files.h"

namespace mobula::internal::cli {
namespace {

constexpr std::string_view directive = "#MOBULA";
constexpr std::size_t max_script_bytes = 1 << 20;

// Splits words as a shell does, with ' and ", without expansions.
Result<std::vector<std::string>> words_of_line(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool begun = false;
  char quote = 0;
  for (const char c : line) {
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c;
      }
    } else if (c == '\'' || c == '"') {
      quote = c;
      begun = true;
    } else if (c == ' ' || c == '\t') {
      if (begun) words.push_back(std::exchange(word, {}));
      begun = false;
    } else {
      word += c;
      begun = true;
    }
  }
  if (quote != 0)
    return failure(ErrorCode::invalid_argument, fmt::format("quote {} is not closed", quote));
  if (begun) words.push_back(word);
  return words;
}

// Returns the fault in the flags of a job, or an empty text.
std::string fault_of_flags(std::vector<std::string> words) {
  JobFlags flags;
  CLI::App app;
  app.add_flag("--no-wait", flags.no_wait);
  app.add_flag("--raw");
  app.set_help_flag();
  add_job_options(app, flags);
  std::ranges::reverse(words);  // CLI11 takes them in this order
  try {
    app.parse(words);
  } catch (const CLI::ExtrasError&) {
    return unexpected_words(app);
  } catch (const CLI::ParseError& why) {
    return why.what();
  }
  flags.argv = {"script"};
  const auto text = submission_text(flags, "", "");
  return text ? "" : text.error().text;
}

}  // namespace

Result<std::vector<std::string>> flags_of_script(const std::string& file, const std::string& text) {
  std::vector<std::string> flags;
  std::string faults;
  std::istringstream lines(text);
  int number = 0;
  bool commands = false;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const auto begin = line.find_first_not_of(" \t");
    if (begin == std::string::npos) continue;
    const auto fault = [&](const std::string& why) {
      faults += fmt::format("{}{}:{}: {}", faults.empty() ? "" : "\n", file, number, why);
    };
    const bool said = line.starts_with(directive) && line.find_first_of(" \t") == directive.size();
    if (!said) {
      commands = commands || line[begin] != '#';
      if (!commands && line.starts_with("#MOBULA"))
        fault("'" + line.substr(0, 60) + "' is not of the form '#MOBULA FLAGS'");
      continue;
    }
    if (commands) {
      fault("follows the first command of the script; move it before");
      continue;
    }
    auto words = words_of_line(line.substr(directive.size()));
    if (!words) {
      fault(words.error().text);
      continue;
    }
    if (const auto why = fault_of_flags(*words); !why.empty()) fault(why);
    flags.insert(flags.end(), words->begin(), words->end());
  }
  if (!faults.empty()) return failure(ErrorCode::invalid_argument, faults);
  return flags;
}

std::optional<int> read_batch(int argc, char** argv, std::vector<std::string>& words) {
  const std::vector<std::string> given(argv + 2, argv + argc);
  const auto dashes = std::ranges::find(given, "--");
  const std::vector<std::string> before(given.begin(), dashes);
  if (std::ranges::find(before, "--help") != before.end() ||
      std::ranges::find(before, "-h") != before.end()) {
    std::fputs(help_text(command_tree(), {"batch"}).value().c_str(), stdout);
    return exit_done;
  }
  if (before.empty() || before.back().starts_with("-")) {
    return complain(
        failure(ErrorCode::invalid_argument,
                "batch: no script given, or not last before '--'; see 'mobula batch --help'"));
  }
  const std::string& script = before.back();
  std::error_code code;
  if (!std::filesystem::is_regular_file(script, code)) {
    return complain(failure(ErrorCode::invalid_argument, "batch: " + script + " is not a file"));
  }
  const auto text = read_file(script);
  if (!text) return complain(text.error());
  if (text->size() > max_script_bytes || !text->starts_with("#!")) {
    return complain(failure(
        ErrorCode::invalid_argument,
        script +
            ": not a script; it must begin with '#!' and its interpreter, and have at most 1 MiB"));
  }
  auto flags = flags_of_script(script, *text);
  if (!flags) {
    std::istringstream faults(flags.error().text);
    for (std::string line; std::getline(faults, line);)
      complain(failure(ErrorCode::invalid_argument, line));
    return exit_wrong_use;
  }
  words = {argv[0], "submit"};
  words.insert(words.end(), flags->begin(), flags->end());
  words.insert(words.end(), before.begin(), before.end() - 1);
  for (const auto& word : {std::string("--ship"), script, std::string("--"), script})
    words.push_back(word);
  if (dashes != given.end()) words.insert(words.end(), dashes + 1, given.end());
  return std::nullopt;
}

}  // namespace mobula::internal::cli
