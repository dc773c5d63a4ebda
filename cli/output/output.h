// Documents of the head (apiVersion mobula/v1) as text: tables, JSON, JSON lines, YAML, CSV, and
// names.
// Thread: any; pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.h"

namespace mobula::internal::cli {

// `kind` is the user's kind ("nodes"); it selects the columns. Ends with a newline unless the text
// is empty.
std::string format_document(nlohmann::ordered_json document, OutputFormat format,
                            const std::string& kind);
// Formats with the columns and the order of `style`. Lines of tables are cut to `width` characters
// unless it is 0. invalid_argument if `style` names an unknown column.
Result<std::string> format_document(nlohmann::ordered_json document, OutputFormat format,
                                    const std::string& kind, const TableFlags& style,
                                    std::size_t width);
// Formats `mobula status` as a human-readable page, with colors if `colored`.
std::string format_status(const nlohmann::ordered_json& status, bool colored = false);
// Formats `mobula memory` as a human-readable page.
std::string format_memory(const nlohmann::ordered_json& report, bool colored = false);
// Formats `mobula explain` as a human-readable page.
std::string format_explanation(const nlohmann::ordered_json& explanation, bool colored = false);

std::string to_yaml(const nlohmann::ordered_json& document);

// Escapes the controls that JSON allows unescaped (U+007F to U+009F) as \u00xx, so that no terminal
// obeys foreign text.
std::string escaped_controls(const std::string& json);

}  // namespace mobula::internal::cli
