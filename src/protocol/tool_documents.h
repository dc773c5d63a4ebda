// What is made of the head's documents before people and programs see them, the same for the
// commands of `mobula` and for the head's HTTP pages: errors of tasks in words, filters, the summary.
// Pure functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "protocol/task_facts.h"

namespace mobula::internal {

using DocumentJson = nlohmann::ordered_json;
// Member of an item (`state`, `labels.zone`) and the text that it has to have.
using Filters = std::vector<std::pair<std::string, std::string>>;

// Adds `error_type` and `error_message` to the items of a document that are tasks with an error, and
// to the subject of an explanation.
void add_errors(DocumentJson& document, const std::vector<TaskError>& errors);

// Whether the processes that send rows apply the filter `member` = `wanted`, so that a limit counts matching rows
// alone. They compare whole ids; keep_matching also takes prefixes of ids.
bool owners_apply(const std::string& kind, const std::string& member, const std::string& wanted);
// Those filters, and how many rows of `tasks` are wanted at most (empty: not said): the argument of `list
// KIND`. Empty where there are none.
std::string filters_for_owners(const std::string& kind, const Filters& filters, const std::string& limit = {});
// Leaves those of the document's items that pass all filters.
void keep_matching(DocumentJson& document, const Filters& filters);

// How many there are of each kind and state: from a list of each kind, and the status.
DocumentJson summary_of(const std::vector<std::pair<std::string, DocumentJson>>& lists,
                        const DocumentJson& status);

}  // namespace mobula::internal
