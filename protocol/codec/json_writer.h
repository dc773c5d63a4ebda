// The one function that turns a JSON document into text.
// Thread: any. Errors: none. Text of other processes may be invalid UTF-8, for which the library
// would throw. Invalid bytes are replaced by U+FFFD.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace mobula::internal {

// Writes one line, or with `indent` spaces per level. `Json` is a document type of nlohmann.
template <class Json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace mobula::internal
