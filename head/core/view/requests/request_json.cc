#include "head/core/view/requests/request_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>

#include "base/model/jobs/job_terms.h"
#include "base/model/labels/label_syntax.h"
#include "base/model/request_rules.h"
#include "base/text/json_writer.h"
#include "head/core/view/documents.h"

namespace mobula::internal::head {
namespace {

constexpr std::size_t max_text_bytes = 256 * 1024;

Failure wrong(const std::string& member, const std::string& rule) {
  return failure(ErrorCode::invalid_argument,
                 fmt::format("request: {}{}{}", member, member.empty() ? "" : " ", rule));
}

// Members of a request or a bundle, as written.
struct Members {
  std::optional<double> num_cpus;
  RequestedResources resources;
  Labels label_selector;
  std::vector<Labels> fallback_selectors;
  std::optional<Strategy> strategy;
  std::int32_t priority = 0;
  JobId job;
};

Result<void> read(const std::string& name, const Json& value, double& amount) {
  if (!value.is_number()) return wrong(name, "is not a number");
  amount = value.get<double>();
  return {};
}

// Parses a whole number, with or without an exponent.
Result<void> read(const std::string& name, const Json& value, std::int64_t& bytes) {
  if (!value.is_number()) return wrong(name, "is not a whole number of bytes");
  if (auto broken = read_bytes(name, value.get<double>(), bytes))
    return wrong("", to_string(*broken));
  return {};
}

Result<void> read(const std::string& name, const Json& value, std::string& text) {
  if (!value.is_string()) return wrong(name, "is not a string");
  text = value.get<std::string>();
  return {};
}

template <class Tag>
Result<void> read(const std::string& name, const Json& value, Id<Tag>& id) {
  const auto read_id =
      value.is_string() ? Id<Tag>::from_hex(value.get<std::string>()) : std::nullopt;
  if (!read_id || read_id->empty()) return wrong(name, "is not an id of 32 hexadecimal digits");
  id = *read_id;
  return {};
}

Result<void> read(const std::string& name, const Json& value, std::int32_t& priority) {
  if (!value.is_number_integer()) return wrong(name, "is not a whole number");
  // A larger number does not fit and is out of range too.
  const auto number =
      value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{greatest_priority}
          ? std::int64_t{greatest_priority} + 1
          : value.get<std::int64_t>();
  if (auto checked = check_priority(name, number); !checked) {
    return wrong(name, fmt::format("is {}; it is from {} to {}", json_text(value), least_priority,
                                   greatest_priority));
  }
  priority = static_cast<std::int32_t>(number);
  return {};
}

Result<void> read(const std::string& name, const Json& value, bool& fact) {
  if (!value.is_boolean()) return wrong(name, "is neither true nor false");
  fact = value.get<bool>();
  return {};
}

// Parses "Default", "Spread", or the node of an affinity.
Result<void> read(const std::string& name, const Json& value, Strategy& strategy) {
  constexpr auto rule =
      R"(is not one of "Default", "Spread" and {"node_id": ID, "soft": true or false})";
  if (value == "Default") {
    strategy = DefaultStrategy{};
  } else if (value == "Spread") {
    strategy = SpreadStrategy{};
  } else if (value.is_object()) {
    NodeAffinityStrategy affinity;
    for (const auto& [key, each] : value.items()) {
      const auto full = name + "." + key;
      auto done = key == "node_id" ? read(full, each, affinity.node)
                  : key == "soft"  ? read(full, each, affinity.soft)
                                   : wrong(full, "is not known; known are node_id, soft");
      if (!done) return done;
    }
    if (affinity.node.empty()) return wrong(name, "names a node by its node_id");
    strategy = affinity;
  } else {
    return wrong(name, rule);
  }
  return {};
}

Result<void> read_strategy(const std::string& name, const Json& value, Members& to) {
  if (to.strategy) return wrong("", "scheduling and node_id name a node twice; give one of them");
  if (name == "scheduling") return read(name, value, to.strategy.emplace());
  NodeAffinityStrategy affinity;
  auto done = read(name, value, affinity.node);
  to.strategy = affinity;
  return done;
}

template <class Value>
Result<void> read(const std::string& name, const Json& value,
                  std::map<std::string, Value>& entries) {
  if (!value.is_object()) return wrong(name, "is not an object");
  for (const auto& [key, each] : value.items()) {
    if (auto done = read(name + "." + key, each, entries[key]); !done) return done;
  }
  return {};
}

Result<void> read(const std::string& name, const Json& value, std::vector<Labels>& selectors) {
  if (!value.is_array()) return wrong(name, "is not an array of selectors");
  for (const auto& each : value) {
    if (auto done = read(name, each, selectors.emplace_back()); !done) return done;
  }
  return {};
}

// All members. The members that a bundle does not have are the last ones.
struct Member {
  const char* name;
  Result<void> (*read_into)(const std::string& name, const Json& value, Members& members);
};
constexpr std::array<Member, 12> known_members{{
    {"num_cpus", [](const std::string& name, const Json& value,
                    Members& to) { return read(name, value, to.num_cpus.emplace()); }},
    {"num_gpus", [](const std::string& name, const Json& value,
                    Members& to) { return read(name, value, to.resources.num_gpus); }},
    {"gpu_memory", [](const std::string& name, const Json& value,
                      Members& to) { return read(name, value, to.resources.gpu_memory); }},
    {"memory", [](const std::string& name, const Json& value,
                  Members& to) { return read(name, value, to.resources.memory); }},
    {"resources", [](const std::string& name, const Json& value,
                     Members& to) { return read(name, value, to.resources.resources); }},
    {"accelerator_type",
     [](const std::string& name, const Json& value, Members& to) {
       return read(name, value, to.resources.accelerator_type);
     }},
    {"label_selector", [](const std::string& name, const Json& value,
                          Members& to) { return read(name, value, to.label_selector); }},
    {"fallback_selectors", [](const std::string& name, const Json& value,
                              Members& to) { return read(name, value, to.fallback_selectors); }},
    {"node_id", read_strategy},
    {"scheduling", read_strategy},
    {"priority", [](const std::string& name, const Json& value,
                    Members& to) { return read(name, value, to.priority); }},
    {"job_id", [](const std::string& name, const Json& value,
                  Members& to) { return read(name, value, to.job); }},
}};
constexpr std::size_t members_of_bundles = 7;

Result<Members> read_members(const Json& json, std::size_t known) {
  Members members;
  for (const auto& [name, value] : json.items()) {
    const auto* const end = known_members.begin() + known;
    const auto* const at =
        std::ranges::find(known_members.begin(), end, std::string_view(name),
                          [](const Member& each) { return std::string_view(each.name); });
    if (at == end) {
      std::string names;
      for (std::size_t i = 0; i < known; ++i)
        names += (i == 0 ? "" : ", ") + std::string(known_members[i].name);
      return wrong(name, "is not known; known are " + names);
    }
    if (auto done = at->read_into(name, value, members); !done) return done.error();
  }
  return members;
}

// `cpus` is the default of num_cpus.
Result<Request> request_of(const Members& members, AmountKind kind, double cpus) {
  ExactResources exact;
  std::int64_t cpu_units = 0;
  auto broken = read_requested(members.resources, kind, exact);
  if (!broken) broken = read_units("num_cpus", members.num_cpus.value_or(cpus), cpu_units);
  if (!broken && kind == AmountKind::total) broken = check_bundle("bundle", cpu_units, exact);
  if (!broken) broken = check_label_selector("label_selector", members.label_selector);
  if (!broken) broken = check_fallback_selectors(members.fallback_selectors);
  if (broken) return wrong("", to_string(*broken));
  Request request;
  request.resources.set(resource::cpu, Quantity::from_units(cpu_units));
  request.resources.set(resource::gpu, Quantity::from_units(exact.gpu_units));
  request.resources.set(resource::memory, Quantity::whole(exact.memory_bytes));
  for (const auto& [name, units] : exact.custom_units)
    request.resources.set(name, Quantity::from_units(units));
  request.gpu_memory = exact.gpu_memory_bytes;
  request.accelerator_type = exact.accelerator_type;
  request.label_selector = members.label_selector;
  request.fallback_selectors = members.fallback_selectors;
  if (members.strategy) request.strategy = *members.strategy;
  request.priority = members.priority;
  return request;
}

Result<GroupStrategy> strategy_of(const Json& value) {
  constexpr std::array strategies{GroupStrategy::pack, GroupStrategy::spread,
                                  GroupStrategy::strict_pack, GroupStrategy::strict_spread};
  std::string names;
  for (const auto each : strategies) {
    if (value.is_string() && value.get<std::string>() == to_string(each)) return each;
    names += (names.empty() ? "" : ", ") + std::string(to_string(each));
  }
  return wrong("strategy", "is not one of " + names);
}

Result<GroupSpec> group_of(const Json& json) {
  GroupSpec spec;
  const auto strategy = json.find("strategy");
  for (const auto& [name, value] : json.items()) {
    if (name == "bundles" || name == "strategy") continue;
    auto done =
        name == "priority" ? read(name, value, spec.priority)
        : name == "job_id"
            ? read(name, value, spec.job)
            : wrong(name,
                    "is not known with bundles; known are bundles, strategy, priority, job_id");
    if (!done) return done.error();
  }
  if (strategy != json.end()) {
    const auto read_strategy = strategy_of(*strategy);
    if (!read_strategy) return read_strategy.error();
    spec.strategy = *read_strategy;
  }
  const auto& bundles = json["bundles"];
  if (!bundles.is_array() || bundles.empty() || bundles.size() > max_bundles) {
    return wrong("bundles",
                 fmt::format("is an array of 1 to {} bundles, and {}", max_bundles,
                             bundles.is_array() ? fmt::format("this one has {}", bundles.size())
                                                : "this is none"));
  }
  for (const auto& each : bundles) {
    const auto at = fmt::format("bundles[{}]: ", spec.bundles.size());
    if (!each.is_object()) return wrong(at, "is not an object");
    const auto members = read_members(each, members_of_bundles);
    auto request =
        members ? request_of(*members, AmountKind::total, 0) : Result<Request>(members.error());
    if (!request) return failure(ErrorCode::invalid_argument, at + request.error().text);
    spec.bundles.push_back(std::move(*request));
  }
  return spec;
}

// Rejects duplicate members, of which the library would keep the last.
Result<Json> json_of(const std::string& text) {
  std::vector<std::set<std::string>> names;  // member names of the open objects
  std::string twice;
  const auto on_event = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    if (event == Json::parse_event_t::key && !names.back().insert(parsed.get<std::string>()).second)
      twice = parsed;
    return true;
  };
  try {
    Json json = Json::parse(text, on_event);
    if (!twice.empty()) return wrong(twice, "is given twice");
    if (!json.is_object()) return wrong("text", "is not a JSON object");
    return json;
  } catch (const Json::out_of_range&) {
    return wrong("text",
                 "has a number that is too large for a JSON number; amounts are at most 1e14");
  } catch (const Json::parse_error& e) {
    return wrong("text", fmt::format("is not JSON: byte {} cannot be read", e.byte));
  }
}

}  // namespace

Result<ParsedShape> shape_from_json(const std::string& text) {
  if (text.size() > max_text_bytes) return wrong("text", "is over 256 KiB");
  const auto parsed = json_of(text);
  if (!parsed) return parsed.error();
  const Json& json = *parsed;
  if (json.contains("bundles")) {
    auto group = group_of(json);
    if (!group) return group.error();
    return ParsedShape(std::move(*group));
  }
  const auto members = read_members(json, known_members.size());
  if (!members) return members.error();
  auto request = request_of(*members, AmountKind::request, 1);
  if (!request) return request.error();
  return ParsedShape(ParsedRequest{std::move(*request), members->job});
}

}  // namespace mobula::internal::head
