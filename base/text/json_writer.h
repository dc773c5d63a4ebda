// The functions that turn a JSON document into text; tools/check_layers.py rejects other ways.
// Thread: any.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace mobula::internal {

// Writes one line, or with `indent` spaces per level. `Json` is a document type of nlohmann. U+FFFD
// replaces invalid UTF-8, which text of other processes may contain.
template <class Json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

// Writes one line, or returns nullopt if a string of the document is invalid UTF-8.
template <class Json>
std::optional<std::string> strict_json_text(const Json& json) {
  try {
    return json.dump();
  } catch (const typename Json::type_error&) {
    return std::nullopt;
  }
}

}  // namespace mobula::internal
