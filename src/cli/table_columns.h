// The columns of tables, by the kind of what stands in them, and what people may want otherwise. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/command_line.h"

namespace mobula::internal::cli {

// How a number is shown in tables.
enum class Shows : std::uint8_t { as_it_is, age, size, span, pid };

struct Column {
  std::string header;
  std::string member;
  bool wide = false;  // shown in wide tables alone
  Shows shows = Shows::as_it_is;
};

// Of the kind as the user names it ("nodes"); of others the members that the first item has.
std::vector<Column> columns_for(const nlohmann::ordered_json& items, const std::string& kind, bool wide);
// Of the kind's table, each column's header and the member that it shows; empty where the kind has no table of its own.
std::vector<std::pair<std::string, std::string>> column_names(const std::string& kind);
// Those that `style` names, by header or member, in its order; all of them where it names none.
// invalid_argument names what there is.
Result<std::vector<Column>> chosen_columns(const nlohmann::ordered_json& items, const std::string& kind, bool wide,
                                           const TableFlags& style);
// By the member or header that `style` names, "-NAME" backwards: numbers by size, other things as text, what is
// missing last. invalid_argument where no item has it.
Result<void> sort_items(nlohmann::ordered_json& items, const std::string& kind, const TableFlags& style);

// "950ms", "12.5s", "3m12s", "5h07m", "2d03h".
std::string age_text(std::int64_t milliseconds);
// "12us", "3.4ms", from a second on as an age.
std::string span_text(std::int64_t microseconds);
// "512 B", "1.5 MiB", "80.0 GiB".
std::string size_text(std::int64_t bytes);

}  // namespace mobula::internal::cli
