// The values of flags that are more than a word or a number. What is wrong with one is thrown as CLI::ValidationError,
// which names the flag; the parse of the command line ends with it.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"
#include "cli/command_line.h"
#include "model/request.h"

namespace mobula::internal::cli {

[[noreturn]] void wrong(const std::string& flag, const std::string& why);

template <class Value>
Value taken(const std::string& flag, Result<Value> result) {
  if (!result) wrong(flag, result.error().text);
  return std::move(result).value();
}

// zone=a,disk=ssd
Labels labels_of(const std::string& text);
// Under mobula.io/ are the runtime's own, of which some may be given by hand.
void refuse_reserved(const Labels& labels);
// {"shuttle": 2, "fpga": {"total": 4, "unit": true}}
void parse_resources(const std::string& text, NodeFlags& node);
// "0.8": 80.
int percent_of(const std::string& text);

}  // namespace mobula::internal::cli
