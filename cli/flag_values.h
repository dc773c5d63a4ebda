// Parsers of structured flag values.
// Thread: main.
// Errors: CLI::ValidationError, which names the flag and ends the parse of the command line.
#pragma once

#include <string>
#include <utility>

#include "base/model/request.h"
#include "base/result.h"
#include "cli/command_line.h"

namespace mobula::internal::cli {

// Rejects the value of a flag.
[[noreturn]] void wrong(const std::string& flag, const std::string& why);

// Returns the value of `result`, or rejects the flag with its error.
template <class Value>
Value taken(const std::string& flag, Result<Value> result) {
  if (!result) wrong(flag, result.error().text);
  return std::move(result).value();
}

// Parses zone=a,disk=ssd.
Labels labels_of(const std::string& text);
// Rejects labels under mobula.io/ that only the runtime may set.
void refuse_reserved(const Labels& labels);
// Parses {"shuttle": 2, "fpga": {"total": 4, "unit": true}}.
void parse_resources(const std::string& text, NodeFlags& node);
// Parses "0.8" as 80.
int percent_of(const std::string& text);

}  // namespace mobula::internal::cli
