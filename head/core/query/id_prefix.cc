#include "head/core/query/id_prefix.h"

#include <algorithm>
#include <cctype>

#include "head/core/head_tables.h"

namespace mobula::internal::head {

bool is_id_prefix(std::string_view text) {
  if (text.size() < shortest_id_prefix || text.size() > 32) return false;
  return std::ranges::all_of(
      text, [](unsigned char c) { return std::isdigit(c) != 0 || (c >= 'a' && c <= 'f'); });
}

std::set<std::string> known_ids(const HeadTables& tables, std::string_view given) {
  std::set<std::string> found;
  const auto add = [&](const auto& id) {
    const std::string hex = id.hex();
    if (is_id_or_prefix(hex, given)) found.insert(hex);
  };
  for (const auto& [id, actor] : tables.actors.rows()) add(id);
  for (const auto& [id, group] : tables.groups.rows()) add(id);
  for (const auto& [id, job] : tables.jobs.rows()) add(id);
  for (const auto& [key, demand] : tables.slots.demands()) add(key.second);
  return found;
}

}  // namespace mobula::internal::head
