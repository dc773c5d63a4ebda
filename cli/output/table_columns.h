// The columns of tables, by kind of item, and their selection by users.
// Thread: any; pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/command_line.h"

namespace mobula::internal::cli {

// Format of a number in tables.
enum class Shows : std::uint8_t { as_it_is, age, size, span, pid };

struct Column {
  std::string header;
  std::string member;
  bool wide = false;  // only in wide tables
  Shows shows = Shows::as_it_is;
};

// Returns the columns of the user's kind ("nodes"); for unknown kinds the members of the first
// item.
std::vector<Column> columns_for(const nlohmann::ordered_json& items, const std::string& kind,
                                bool wide);
// Returns header and member of each column of a kind's table; empty if the kind has no table.
std::vector<std::pair<std::string, std::string>> column_names(const std::string& kind);
// Returns the columns that `style` names, by header or member, in its order; all columns if it
// names none. invalid_argument lists the known names.
Result<std::vector<Column>> chosen_columns(const nlohmann::ordered_json& items,
                                           const std::string& kind, bool wide,
                                           const TableFlags& style);
// Sorts by the member or header that `style` names, "-NAME" descending: numbers by value, other
// values as text, missing values last. invalid_argument if no item has it.
Result<void> sort_items(nlohmann::ordered_json& items, const std::string& kind,
                        const TableFlags& style);

// Returns "950ms", "12.5s", "3m12s", "5h07m", or "2d03h".
std::string age_text(std::int64_t milliseconds);
// Returns "12us" or "3.4ms", and from one second on an age.
std::string span_text(std::int64_t microseconds);
// Returns "512 B", "1.5 MiB", or "80.0 GiB".
std::string size_text(std::int64_t bytes);

}  // namespace mobula::internal::cli
