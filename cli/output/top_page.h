// Use of nodes and executors from two samples: processor time in percent of one processor, and the
// task of each executor.
// Thread: any; pure.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "cli/command_line.h"

namespace mobula::internal::cli {

// `before` and `after` are replies of the head to `usage`; `tasks` is its list of running tasks, or
// null. Returns a document of kind Top: `nodes`, and executors as `items`. New entries have no
// percentage.
nlohmann::ordered_json top_of(const nlohmann::ordered_json& before,
                              const nlohmann::ordered_json& after,
                              const nlohmann::ordered_json& tasks);

// Formats a human-readable page: nodes, then at most `rows` executors.
Result<std::string> format_top(const nlohmann::ordered_json& top, const TableFlags& style,
                               bool wide, std::size_t rows);

// Returns the order that a key selects; empty: none.
std::string order_of_key(char key);

}  // namespace mobula::internal::cli
