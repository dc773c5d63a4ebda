// Ids as users give them to commands: all 32 digits, or a prefix of at least four.
// Thread: any. Not: submitted jobs, which SubmissionTable resolves.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <string_view>

namespace mobula::internal::head {

struct HeadTables;

inline constexpr std::size_t shortest_id_prefix = 4;

// Four to 32 hexadecimal digits.
bool is_id_prefix(std::string_view text);

// Whether `given` names the id with the digits `hex`.
inline bool is_id_or_prefix(std::string_view hex, std::string_view given) {
  return given.size() >= shortest_id_prefix && hex.starts_with(given);
}

// Ids of actors, placement groups, waiting demand classes, and programs' jobs that `given` names.
std::set<std::string> known_ids(const HeadTables& tables, std::string_view given);

}  // namespace mobula::internal::head
