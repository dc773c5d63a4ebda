// What is busy, from two looks at it: processor time as percents of one processor, and which task each executor
// runs. Pure.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "cli/command_line.h"

namespace mobula::internal::cli {

// `before` and `after` are answers of the head to `usage`; `tasks` its list of those that run, or null. A document
// of kind Top: `nodes` and, as `items`, executors. What was not there before has no percents.
nlohmann::ordered_json top_of(const nlohmann::ordered_json& before, const nlohmann::ordered_json& after,
                              const nlohmann::ordered_json& tasks);

// As a page for people: nodes, then at most `rows` executors.
Result<std::string> format_top(const nlohmann::ordered_json& top, const TableFlags& style, bool wide, std::size_t rows);

// Which order a key stands for; empty: none.
std::string order_of_key(char key);

}  // namespace mobula::internal::cli
