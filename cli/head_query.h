// Common part of commands that query the head: the query, and the printing of its reply.
// Thread: main.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/result.h"
#include "cli/command_line.h"
#include "cli/tool_client.h"

namespace mobula::internal::cli {

// A client that connects at the first query and returns replies as documents.
class HeadQuery {
 public:
  explicit HeadQuery(const CommandLine& line) : line_(line) {}

  // Returns the head's document or its refusal; failures as in ToolClient.
  Result<nlohmann::ordered_json> request(const std::string& verb, const std::string& kind = {},
                                         const std::string& argument = {});
  // Like `request`, for a head that may restart: retries for 30 s, with one message on stderr.
  Result<nlohmann::ordered_json> request_patiently(const std::string& verb,
                                                   const std::string& kind = {},
                                                   const std::string& argument = {});
  // Makes the next query open a new connection.
  void forget() {
    client_.reset();
    seen_.clear();
  }
  // Reports whether the head's lists or its status may have changed since the latest query.
  bool changed();
  // Returns the bytes that followed the latest reply's document.
  std::string bytes() const;

 private:
  const CommandLine& line_;
  std::optional<ToolClient> client_;
  std::string seen_;  // the head's change counter
};

// Prints to stdout and returns the exit code.
int print(const std::string& text);
int print(nlohmann::ordered_json document, const CommandLine& line);
// Prints with the columns of `kind` instead of the user's kind.
int print(nlohmann::ordered_json document, const CommandLine& line, const std::string& kind);
// Returns the width of stdout in columns; 0 if it is not a terminal.
std::size_t terminal_width();
bool for_people(const CommandLine& line);
// Reports whether stdout gets colors. `style_of` adds this to the table flags.
bool colored(const CommandLine& line);
TableFlags style_of(const CommandLine& line);
// Reports whether a table of this list has no rows; note_empty then prints "no actors" to stderr
// after the table.
bool is_empty_table(const nlohmann::ordered_json& document, const CommandLine& line);
void note_empty(const std::string& what, const CommandLine& line);
// Sleeps for `span`.
void pause(Duration span);

}  // namespace mobula::internal::cli
