// Part of a list for a reader that shows few rows, such as the web page: failures first, then rows
// that wait, then the others, each by id. Rows that are left out cost no JSON.
// Thread: any.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "head/core/view/documents.h"

namespace mobula::internal::head {

struct ListPart {
  static constexpr std::size_t max_rows = 1000;
  std::size_t limit = max_rows;  // rows
  std::string find;              // in lower case; text that a row has; empty: every row
};

// Parses {"limit", "find"}. Errors: invalid_argument.
Result<ListPart> list_part(const std::string& argument);

// Order of a state in the part: 0 for failures.
int urgency(std::string_view state);

// Whether `text` contains `find`, which is in lower case, in any case.
bool contains(std::string_view text, std::string_view find);

// Sets `total` and `matching` of the document, and returns the rows of the part. `all` has the
// order of the ids.
template <class Row, class Urgency, class Text>
std::vector<const Row*> part_of(Json& json, const ListPart& part,
                                const std::vector<const Row*>& all, const Urgency& urgency_of,
                                const Text& text_of) {
  std::vector<std::pair<int, const Row*>> rows;
  for (const Row* row : all) {
    if (part.find.empty() || contains(text_of(*row), part.find))
      rows.emplace_back(urgency_of(*row), row);
  }
  std::ranges::stable_sort(rows, {}, &std::pair<int, const Row*>::first);
  json["total"] = all.size();
  json["matching"] = rows.size();
  std::vector<const Row*> first;
  for (std::size_t i = 0; i < std::min(part.limit, rows.size()); ++i)
    first.push_back(rows[i].second);
  return first;
}

// The same, and sets `items` to those of the rows.
template <class Row, class Urgency, class Text, class Item>
void add_part(Json& json, const ListPart& part, const std::vector<const Row*>& all,
              const Urgency& urgency_of, const Text& text_of, const Item& item_of) {
  const auto rows = part_of(json, part, all, urgency_of, text_of);
  json["items"] = Json::array();
  for (const Row* row : rows) json["items"].push_back(item_of(*row));
}

}  // namespace mobula::internal::head
