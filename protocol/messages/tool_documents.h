// Transforms documents of the head for display, equally for the commands of `mobula` and the HTTP
// pages: readable task errors, filters, the summary.
// Thread: any.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "protocol/messages/facts/task_facts.h"

namespace mobula::internal {

using DocumentJson = nlohmann::ordered_json;
// Member of an item (`state`, `labels.zone`) and its required text.
using Filters = std::vector<std::pair<std::string, std::string>>;

// Adds `error_type` and `error_message` to the tasks of a document that have an error, and to the
// subject of an explanation.
void add_errors(DocumentJson& document, const std::vector<TaskError>& errors);

// Returns true if the processes that send rows apply the filter `member` = `wanted`, so that a
// limit counts only matching rows. They compare whole ids; retain_matching also accepts prefixes of
// ids.
bool owners_apply(const std::string& kind, const std::string& member, const std::string& wanted);
// The argument of `list KIND`: those filters, and the maximum number of `tasks` (empty: no limit).
// Empty if neither exists.
std::string filters_for_owners(const std::string& kind, const Filters& filters,
                               const std::string& limit = {});
// Removes the items that fail a filter.
void retain_matching(DocumentJson& document, const Filters& filters);

// Counts of each kind and state, from one list per kind and the status.
DocumentJson summary_of(const std::vector<std::pair<std::string, DocumentJson>>& lists,
                        const DocumentJson& status);

}  // namespace mobula::internal
