// `mobula status --watch` as a page: the cluster, a map of its GPUs, and waiting requests with
// reasons.
// Thread: any; pure.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

namespace mobula::internal::cli {

// `nodes` and `leases` are the head's lists, or null if they were not requested. The map has at
// most `rows` lines.
std::string format_watch(const nlohmann::ordered_json& status, const nlohmann::ordered_json& nodes,
                         const nlohmann::ordered_json& leases, std::size_t rows,
                         bool colored = false);

// Returns the first `rows` lines of `text`, each cut to `columns` characters without color
// sequences. The last line counts the missing ones.
std::string cut_to_screen(const std::string& text, std::size_t rows, std::size_t columns);

}  // namespace mobula::internal::cli
