#include "deploy/fleet/node_types.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/model/executor_bounds.h"
#include "base/model/labels/label_selector.h"
#include "base/text/amount_text.h"
#include "base/text/json_writer.h"
#include "deploy/yaml_value.h"

namespace mobula::internal::fleet {
namespace {

using Json = nlohmann::ordered_json;
using Value = deploy::YamlValue;
using deploy::for_each_member;
using deploy::read_members;

constexpr std::size_t max_file_bytes = 1 << 20;
constexpr std::size_t max_types = 1000;
constexpr std::int64_t max_count = 1'000'000;
constexpr std::int64_t max_units = 4096;  // numbered instances of one resource

std::int64_t count_of(const Value& value) {
  const auto amount = Quantity::parse(value.text());
  if (!amount || !amount->is_whole() || *amount > Quantity::whole(max_count)) {
    value.wrong(fmt::format("'{}' is not a whole number from 0 to {}", value.text(), max_count));
  }
  return amount->units() / Quantity::units_per_one;
}

std::int64_t size_of(const Value& value) {
  const auto bytes = parse_bytes(value.text());
  if (!bytes) value.wrong(bytes.error().text);
  return *bytes;
}

Quantity amount_of(const std::string& resource, const Value& value) {
  const auto text = value.text();
  if (resource == resource::memory || resource == resource::object_store_memory) {
    return Quantity::whole(size_of(value));
  }
  const auto amount = Quantity::parse(text);
  if (!amount) value.wrong(amount.error().text);
  return *amount;
}

Labels labels_of(const Value& value) {
  Labels labels;
  for_each_member(value, [&](const std::string& name, const Value& each) {
    labels[name] = each.text();
    if (const auto good = check_labels({{name, labels[name]}}); !good)
      each.wrong(good.error().text);
  });
  return labels;
}

struct TypeReader {
  planner::NodeType type;
  std::map<std::string, std::pair<Quantity, bool>> amounts;  // and whether in numbered instances
  std::set<std::string> accelerator_types;  // types of each device, or of a node without devices
  std::int64_t gpu_memory = 0;
  std::int64_t gpu_context_memory = default_context_bytes;
  std::int64_t max_workers = -1;

  void resource_of(const std::string& name, const Value& value) {
    if (name.starts_with(resource::accelerator_prefix)) {
      if (amount_of(name, value) > Quantity()) {
        accelerator_types.insert(name.substr(resource::accelerator_prefix.size()));
      }
      return;
    }
    bool unit = is_unit_instance(name);
    std::optional<Quantity> total;
    if (value.node.IsMap()) {
      read_members(value, {{"total", [&](const Value& each) { total = amount_of(name, each); }},
                           {"unit", [&](const Value& each) {
                              if (each.text() != "true" && each.text() != "false") {
                                each.wrong("is neither true nor false");
                              }
                              unit = unit || each.text() == "true";
                            }}});
      if (!total) value.wrong("has no 'total'");
    } else {
      total = amount_of(name, value);
    }
    if (unit && *total > Quantity::whole(max_units)) {
      value.wrong(fmt::format("is above the limit of {} numbered instances", max_units));
    }
    if (*total > Quantity()) amounts[name] = {*total, unit};
  }

  ResourceShape shape_of(const std::string& name, Quantity total, bool unit) const {
    ResourceShape shape;
    shape.name = name;
    shape.unit = unit && !is_unit_instance(name);
    if (!unit) {
      shape.instances.push_back({total, {}, {}, 0});
      return shape;
    }
    for (auto left = total; left > Quantity(); left -= Quantity::whole(1)) {
      InstanceShape instance;
      instance.total = std::min(left, Quantity::whole(1));
      instance.visible_id = std::to_string(shape.instances.size());
      if (is_unit_instance(name))
        instance.types = {accelerator_types.begin(), accelerator_types.end()};
      if (name == resource::gpu) {
        instance.memory_bytes = gpu_memory;
        instance.context_bytes = std::min(gpu_context_memory, gpu_memory);
      }
      shape.instances.push_back(std::move(instance));
    }
    return shape;
  }

  planner::NodeType made(const Value& value, std::int64_t workers_of_all) {
    const bool devices =
        std::ranges::any_of(amounts, [](const auto& each) { return is_unit_instance(each.first); });
    if (!devices)
      type.shape.accelerator_types = {accelerator_types.begin(), accelerator_types.end()};
    for (const auto& [name, amount] : amounts) {
      type.shape.resources.push_back(shape_of(name, amount.first, amount.second));
    }
    const auto cpus = type.shape.total(resource::cpu).units() / Quantity::units_per_one;
    type.shape.task_executors = task_executors_of(cpus);
    type.shape.actor_executors = most_actor_executors;
    type.shape.labels.emplace(planner::node_type_label, type.name);
    type.max_workers = max_workers >= 0 ? max_workers : workers_of_all;
    if (type.min_workers > type.max_workers) {
      value.wrong(fmt::format("min_workers {} is above max_workers {}", type.min_workers,
                              type.max_workers));
    }
    return std::move(type);
  }
};

void pass_over(const Value&) {}

constexpr int max_nesting = 32;

// Plain scalars become numbers and booleans where they read as such; quoted ones stay text.
Json json_of(const Value& value, int depth = 0) {
  if (depth > max_nesting) value.wrong(fmt::format("is nested over {} times", max_nesting));
  if (!value.node.IsDefined() || value.node.IsNull()) return nullptr;
  if (value.node.IsSequence()) {
    Json json = Json::array();
    for (const auto& each : value.node) json.push_back(json_of({each, value.path}, depth + 1));
    return json;
  }
  if (value.node.IsMap()) {
    Json json = Json::object();
    for_each_member(value, [&](const std::string& name, const Value& each) {
      json[name] = json_of(each, depth + 1);
    });
    return json;
  }
  const auto text = value.text();
  if (value.node.Tag() != "!") {
    const Json read = Json::parse(text, nullptr, false);
    if (read.is_number() || read.is_boolean()) return read;
  }
  return text;
}

Quantity decimal_of(const Value& value, std::int64_t most) {
  const auto amount = Quantity::parse(value.text());
  if (!amount || *amount > Quantity::whole(most)) {
    value.wrong(fmt::format("'{}' is not a decimal number from 0 to {}", value.text(), most));
  }
  return *amount;
}

planner::NodeType type_of(const std::string& name, const Value& value, std::int64_t workers_of_all,
                          std::string& config) {
  TypeReader reader;
  reader.type.name = name;
  if (const auto good = check_labels({{planner::node_type_label, name}}); !good || name.empty()) {
    value.wrong("the name of a type is the value of a label: up to 63 of A-Z, a-z, 0-9, _ . -");
  }
  bool has_resources = false;
  read_members(
      value,
      {{"resources",
        [&](const Value& each) {
          has_resources = true;
          for_each_member(each, [&](const std::string& resource, const Value& amount) {
            reader.resource_of(resource, amount);
          });
        }},
       {"labels", [&](const Value& each) { reader.type.shape.labels = labels_of(each); }},
       {"accelerator_type",
        [&](const Value& each) { reader.accelerator_types.insert(each.text()); }},
       {"gpu_memory", [&](const Value& each) { reader.gpu_memory = size_of(each); }},
       {"gpu_context_memory",
        [&](const Value& each) { reader.gpu_context_memory = size_of(each); }},
       {"min_workers", [&](const Value& each) { reader.type.min_workers = count_of(each); }},
       {"max_workers", [&](const Value& each) { reader.max_workers = count_of(each); }},
       {"price", [&](const Value& each) { reader.type.price = decimal_of(each, max_count); }},
       {"node_config", [&](const Value& each) { config = json_text(json_of(each)); }},
       {"setup_commands", pass_over}});
  if (!has_resources) value.wrong("has no 'resources'");
  return reader.made(value, workers_of_all);
}

planner::StandingRequest standing_of(const Value& value) {
  planner::StandingRequest made;
  for_each_member(value, [&](const std::string& name, const Value& amount) {
    made.request.resources.set(name, amount_of(name, amount));
  });
  if (made.request.resources.empty()) value.wrong("requests no resource");
  return made;
}

NodeTypes types_of(const Value& root) {
  if (!root.node.IsMap()) root.wrong("the file is not a mapping of names to values");
  NodeTypes made;
  std::optional<std::int64_t> max_workers;
  std::optional<Value> types;
  const auto seconds = [](Duration& to) {
    return [&to](const Value& each) { to = 100us * decimal_of(each, 1'000'000).units(); };
  };
  read_members(root, {{"max_workers", [&](const Value& each) { max_workers = count_of(each); }},
                      {"upscaling_speed",
                       [&](const Value& each) {
                         made.limits.upscaling_milli = decimal_of(each, 1000).units() / 10;
                       }},
                      {"idle_timeout_minutes",
                       [&](const Value& each) {
                         made.limits.idle_timeout = 6ms * decimal_of(each, 1'000'000).units();
                       }},
                      {"target_wait_seconds", seconds(made.limits.target_wait)},
                      {"request_resources",
                       [&](const Value& each) {
                         if (!each.node.IsSequence()) each.wrong("is not a list of resources");
                         for (const auto& one : each.node) {
                           made.standing.push_back(standing_of({one, each.path}));
                         }
                       }},
                      {"available_node_types", [&](const Value& each) { types = each; }},
                      {"cluster_name", pass_over},
                      {"launch_timeout_minutes",
                       [&](const Value& each) {
                         made.launch_timeout = 6ms * decimal_of(each, 1'000'000).units();
                       }},
                      {"drain_timeout_seconds", seconds(made.drain_timeout)},
                      {"absent_timeout_seconds", seconds(made.absent_timeout)},
                      {"provider",
                       [&](const Value& each) {
                         const auto json = json_of(each);
                         if (!json.is_object()) each.wrong("is not a mapping of names to values");
                         made.provider = json_text(json);
                       }},
                      {"auth", pass_over},
                      {"head_node_type", pass_over},
                      {"file_mounts", pass_over},
                      {"setup_commands", pass_over}});
  if (!types) root.wrong("has no 'available_node_types'");
  if (max_workers) made.limits.max_workers = *max_workers;
  for_each_member(*types, [&](const std::string& name, const Value& each) {
    if (made.types.size() >= max_types)
      each.wrong(fmt::format("exceeds the limit of {} types", max_types));
    if (!max_workers && each.node.IsMap() && !each.node["max_workers"]) {
      each.wrong("has no 'max_workers', and the file has none for all types");
    }
    std::string config;
    made.types.push_back(type_of(name, each, max_workers.value_or(0), config));
    if (!config.empty()) made.configs[name] = std::move(config);
  });
  return made;
}

}  // namespace

namespace {

template <class Read>
auto parse(const std::string& text, const std::string& file, Read&& read)
    -> Result<decltype(read(Value{}))> {
  try {
    return read(Value{YAML::Load(text), {}, true});
  } catch (const deploy::YamlFault& why) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{}:{}: {}", file, std::max(why.line, 1), why.text));
  } catch (const YAML::Exception& why) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{}:{}: {}", file, std::max(why.mark.line + 1, 1), why.msg));
  }
}

Result<std::string> text_of_file(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in.good() && !in.eof()) {
    return failure(ErrorCode::not_found, file + ": cannot be read");
  }
  if (text.size() > max_file_bytes) {
    return failure(ErrorCode::invalid_argument, file + ": is larger than 1 MiB");
  }
  return text;
}

}  // namespace

Result<NodeTypes> parse_node_types(const std::string& text, const std::string& file) {
  return parse(text, file, types_of);
}

Result<NodeTypes> read_node_types(const std::string& file) {
  const auto text = text_of_file(file);
  return text ? parse_node_types(*text, file) : Result<NodeTypes>(text.error());
}

Result<Labels> parse_node_labels(const std::string& text, const std::string& file) {
  return parse(text, file, labels_of);
}

Result<Labels> read_node_labels(const std::string& file) {
  const auto text = text_of_file(file);
  return text ? parse_node_labels(*text, file) : Result<Labels>(text.error());
}

}  // namespace mobula::internal::fleet
