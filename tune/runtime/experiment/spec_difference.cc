#include "tune/runtime/experiment/spec_difference.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text/json_writer.h"

namespace mobula::internal::tune {
namespace {

using Json = nlohmann::ordered_json;

std::string difference_of_space(const Json& stored, const Json& present) {
  for (const auto& [name, domain] : stored.items()) {
    if (!present.contains(name))
      return fmt::format("space: parameter '{}' was {} and is absent", name, json_text(domain));
    for (const auto& [member, value] : domain.items())
      if (!present[name].contains(member) || present[name][member] != value)
        return fmt::format("space: parameter '{}' was {} and is {}", name, json_text(domain),
                           json_text(present[name]));
  }
  for (const auto& [name, domain] : present.items())
    if (!stored.contains(name))
      return fmt::format("space: parameter '{}' was absent and is {}", name, json_text(domain));
  // The order decides the random draws.
  auto own = present.begin();
  for (auto each = stored.begin(); each != stored.end(); ++each, ++own)
    if (each.key() != own.key())
      return fmt::format("space: parameter '{}' was at the place of '{}'", each.key(), own.key());
  return {};
}

}  // namespace

std::string spec_difference(const std::string& stored, const std::string& present) {
  const auto before = Json::parse(stored, nullptr, false);
  const auto now = Json::parse(present, nullptr, false);
  if (!before.is_object() || !now.is_object()) return {};
  for (const char* member : {"trainable", "program", "space", "metric", "mode", "objectives",
                             "constraints", "scheduler", "searcher", "num_samples"}) {
    if (!before.contains(member)) continue;
    const Json own = now.contains(member) ? now[member] : Json();
    if (std::string_view(member) == "space") {
      if (std::string text = difference_of_space(before[member], own); !text.empty()) return text;
    } else if (before[member] != own) {
      return fmt::format("{}: was {} and is {}", member, json_text(before[member]), json_text(own));
    }
  }
  return {};
}

}  // namespace mobula::internal::tune
