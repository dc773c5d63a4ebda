#include "cli/flag_values.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "base/model/labels/label_selector.h"
#include "base/model/request_rules.h"
#include "base/text/amount_text.h"

namespace mobula::internal::cli {
namespace {

// Accepts 2, 0.5, or "0.0001", whose decimal text is read exactly.
Quantity parse_amount(const std::string& name, const nlohmann::json& value) {
  const std::string of = "--resources, '" + name + "'";
  if (value.is_string()) return taken(of, Quantity::parse(value.get<std::string>()));
  if (!value.is_number()) wrong("--resources", "the amount of '" + name + "' is not a number");
  return taken(of, Quantity::from_double(value.get<double>()));
}

// Resources with a separate flag. The same names, in any case, are not custom resources.
void refuse_predefined(const std::string& name) {
  static const std::map<std::string, std::string, std::less<>> flags{
      {"cpu", "--num-cpus"},
      {"gpu", "--num-gpus"},
      {"memory", "--memory"},
      {"gpu_memory", "--gpu-memory"},
      {"object_store_memory", "--object-store-memory"}};
  std::string folded = name;
  std::ranges::transform(folded, folded.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto flag = flags.find(folded);
  if (flag != flags.end())
    wrong("--resources", "'" + name + "' is a predefined resource; use " + flag->second);
}

Quantity at_least_nothing(const std::string& name, Quantity amount) {
  if (amount < Quantity())
    wrong("--resources",
          "the amount of '" + name + "' is " + amount.to_string() + "; give 0 or more");
  return amount;
}

}  // namespace

void wrong(const std::string& flag, const std::string& why) {
  throw CLI::ValidationError(flag, why);
}

Labels labels_of(const std::string& text) {
  Labels labels;
  for (std::size_t at = 0; at < text.size();) {
    const auto comma = std::min(text.find(',', at), text.size());
    const auto equals = text.find('=', at);
    if (equals == std::string::npos || equals >= comma || equals == at) {
      wrong("--labels", "'" + text + "' is not a list such as zone=a,disk=ssd");
    }
    labels[text.substr(at, equals - at)] = text.substr(equals + 1, comma - equals - 1);
    at = comma + 1;
  }
  if (const auto good = check_labels(labels); !good) wrong("--labels", good.error().text);
  return labels;
}

void refuse_reserved(const Labels& labels) {
  constexpr std::string_view prefix = "mobula.io/";
  constexpr std::array<std::string_view, 7> given{
      "accelerator-product", "accelerator-type", "availability-region",
      "availability-zone",   "instance",         "market-type",
      "node-group"};
  for (const auto& [key, unused] : labels) {
    if (!key.starts_with(prefix) ||
        std::ranges::find(given, key.substr(prefix.size())) != given.end())
      continue;
    std::string names;
    for (const auto each : given) names += (names.empty() ? "" : ", ") + std::string(each);
    wrong("--labels", "'" + key + "': labels under mobula.io/ are reserved, except " + names);
  }
}

void parse_resources(const std::string& text, NodeFlags& node) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object())
    wrong(
        "--resources",
        "'" + text + "' is not a JSON object such as '{\"shuttle\": 2}', with amounts up to 1e14");
  if (json.size() > max_resource_names) {
    wrong("--resources", std::to_string(json.size()) + " resources; a node has at most " +
                             std::to_string(max_resource_names));
  }
  for (const auto& [name, value] : json.items()) {
    if (const auto broken = check_text("--resources", name)) {
      wrong("--resources", broken->rule + "; given: " + broken->given);
    }
    refuse_predefined(name);
    if (!value.is_object()) {
      node.resources.set(name, at_least_nothing(name, parse_amount(name, value)));
      continue;
    }
    for (const auto& [member, unused] : value.items()) {
      if (member != "total" && member != "unit") {
        wrong("--resources", "'" + name + "' has a member '" + member +
                                 "'; give 'total', and 'unit' for numbered units");
      }
    }
    if (!value.contains("total")) wrong("--resources", "'" + name + "' has no 'total'");
    const auto unit = value.find("unit");
    if (unit != value.end() && !unit->is_boolean()) {
      wrong("--resources", "'unit' of '" + name + "' must be true or false");
    }
    node.resources.set(name, at_least_nothing(name, parse_amount(name, value["total"])));
    const bool in_units = unit != value.end() && unit->get<bool>();
    if (unit != value.end() && !in_units && is_unit_instance(name)) {
      wrong("--resources", "'" + name + "' is always counted in numbered units");
    }
    if (in_units) node.in_units.insert(name);
  }
}

int percent_of(const std::string& text) {
  const Quantity share = taken("--object-spilling-threshold", Quantity::parse(text));
  if (share < Quantity::whole(0) || share > Quantity::whole(1)) {
    wrong("--object-spilling-threshold", "'" + text + "' is not between 0 and 1");
  }
  return static_cast<int>(share.to_double() * 100 + 0.5);
}

Result<std::int64_t> parse_size(const std::string& text) { return parse_bytes(text); }

}  // namespace mobula::internal::cli
