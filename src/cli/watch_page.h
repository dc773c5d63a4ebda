// `mobula status --watch` as a page for people: the cluster, a map of its GPUs, what waits and why. Pure.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace mobula::internal::cli {

// `nodes` and `leases` are the head's lists, or null where they were not asked for. At most `rows` lines
// of the map.
std::string format_watch(const nlohmann::ordered_json& status, const nlohmann::ordered_json& nodes,
                         const nlohmann::ordered_json& leases, std::size_t rows, bool coloured = false);

// The first `rows` lines of `text`, each cut to `columns` characters (colours take no room); the last one says what is missing.
std::string cut_to_screen(const std::string& text, std::size_t rows, std::size_t columns);

}  // namespace mobula::internal::cli
