// Filters of `list`, by columns of the table or by members of the document. An unknown name is an
// error that lists the known names, so that a mistyped filter does not look like an empty list.
// Thread: any; pure.
#pragma once

#include <string>

#include "base/result.h"
#include "protocol/messages/tool_documents.h"

namespace mobula::internal::cli {

// Translates filters to members, and states to the head's spelling: `class=Counter` of actors
// becomes `class_name`, `state=alive` becomes ALIVE.
Filters named_as_fields(const std::string& kind, Filters filters);

// Returns invalid_argument with the known names if neither the kind nor an item has such a field.
Result<void> check_filters(const std::string& kind, const Filters& filters,
                           const DocumentJson& items);

// Returns the fields that are always present, by kind, for help.
std::string fields_text();

}  // namespace mobula::internal::cli
