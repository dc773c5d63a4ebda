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
std::string format_document(const nlohmann::ordered_json& document, OutputFormat format,
                            const std::string& kind);
// Of the kind's table, each column's header and the member that it shows; empty where the kind has no table of its own.
std::vector<std::pair<std::string, std::string>> column_names(const std::string& kind);
// `mobula status` as a page for people.
std::string format_status(const nlohmann::ordered_json& status);
// `mobula memory` as a page for people.
std::string format_memory(const nlohmann::ordered_json& report);
// `mobula explain` as a page for people.
std::string format_explanation(const nlohmann::ordered_json& explanation);

std::string to_yaml(const nlohmann::ordered_json& document);

}  // namespace mobula::internal::cli
