// Filters of `list`, as people name them: by columns of the table or by fields of the document. Which names there
// are is said where one is unknown, so that a mistyped filter is no empty list. Pure functions.
#pragma once

#include <string>

#include "base/result.h"
#include "protocol/tool_documents.h"

namespace mobula::internal::cli {

// The same by the names of fields, and states as the head writes them: `class=Counter` of actors is `class_name`,
// `state=alive` is ALIVE.
Filters named_as_fields(const std::string& kind, Filters filters);

// invalid_argument, with the names that there are, where neither the kind nor one of the items has such a field.
Result<void> check_filters(const std::string& kind, const Filters& filters, const DocumentJson& items);

// Of every kind the fields that are always there, for help.
std::string fields_text();

}  // namespace mobula::internal::cli
