// What commands that ask the head have in common: the question, and how its answer is printed. Main thread.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/command_line.h"
#include "cli/tool_client.h"

namespace mobula::internal::cli {

// A client, connected at the first question, and what it was asked, as documents.
class Asker {
 public:
  explicit Asker(const CommandLine& line) : line_(line) {}

  // The head's document, or its refusal; failures as of ToolClient.
  Result<nlohmann::ordered_json> ask(const std::string& verb, const std::string& kind = {},
                                     const std::string& argument = {});
  // The same of a head that may be away for a while: tried again for 30 s, which is said once on stderr.
  Result<nlohmann::ordered_json> ask_patiently(const std::string& verb, const std::string& kind = {},
                                               const std::string& argument = {});
  // The next question opens a connection of its own.
  void forget() {
    client_.reset();
    seen_.clear();
  }
  // Whether the head's lists or its status may differ from what they were when this was asked last.
  bool changed();
  // What came beside the last answer's document.
  std::string bytes() const;

 private:
  const CommandLine& line_;
  std::optional<ToolClient> client_;
  std::string seen_;  // the head's count of changes
};

// To stdout; the code to end with.
int print(const std::string& text);
int print(nlohmann::ordered_json document, const CommandLine& line);
// Likewise, with the columns of another kind than the one that the user has named.
int print(nlohmann::ordered_json document, const CommandLine& line, const std::string& kind);
// Of the terminal that stdout is; 0 where it is none.
std::size_t terminal_width();
bool for_people(const CommandLine& line);
// Whether what goes to stdout has colours; and how tables are shown, with that.
bool coloured(const CommandLine& line);
TableFlags style_of(const CommandLine& line);
// Whether a table of this list has no rows. note_empty writes "no actors" to stderr then, after the table.
bool is_empty_table(const nlohmann::ordered_json& document, const CommandLine& line);
void note_empty(const std::string& what, const CommandLine& line);
// Sleeps.
void pause(Duration span);

}  // namespace mobula::internal::cli
