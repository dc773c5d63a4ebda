// Documents of the head (apiVersion mobula/v1) as text for people and programs: tables, JSON, JSON
// lines, YAML, CSV, names. Pure; any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_line.h"

namespace mobula::internal::cli {

// `kind` is the one the user named ("nodes"); it chooses the columns. Ends with a newline unless
// there is nothing to show.
std::string format_document(nlohmann::ordered_json document, OutputFormat format,
                            const std::string& kind);
// Likewise, with the columns and in the order that `style` wants; lines of tables are cut to `width` characters,
// unless that is 0. invalid_argument where `style` names what is not there.
Result<std::string> format_document(nlohmann::ordered_json document, OutputFormat format, const std::string& kind,
                                    const TableFlags& style, std::size_t width);
// `mobula status` as a page for people. This and what follows have colours where they are wanted.
std::string format_status(const nlohmann::ordered_json& status, bool coloured = false);
// `mobula memory` as a page for people.
std::string format_memory(const nlohmann::ordered_json& report, bool coloured = false);
// `mobula explain` as a page for people.
std::string format_explanation(const nlohmann::ordered_json& explanation, bool coloured = false);

std::string to_yaml(const nlohmann::ordered_json& document);

// JSON's text with the controls that JSON leaves as they are (U+007F to U+009F) written as \u00xx: no terminal
// obeys what somebody's names and errors say.
std::string escaped_controls(const std::string& json);

}  // namespace mobula::internal::cli
