#include "cli/explain_request.h"

#include <fmt/format.h>
#include <mobula/detail/request.h>
#include <mobula/errors.h>
#include <mobula/options.h>

#include <nlohmann/json.hpp>

#include "base/quantity.h"

namespace mobula::internal::cli {
namespace {

using Json = nlohmann::ordered_json;

Failure bad_member(const std::string& member, const std::string& rule) {
  return failure(ErrorCode::invalid_argument, fmt::format("request: {} {}", member, rule));
}

Result<void> read(const std::string& name, const Json& value, Amount& amount) {
  if (!value.is_number()) return bad_member(name, "is not a number");
  amount = value.get<double>();
  return {};
}

Result<void> read(const std::string& name, const Json& value, std::int64_t& bytes) {
  if (!value.is_number_integer()) return bad_member(name, "is not a whole number of bytes");
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) return bad_member(name, "is too large");
  bytes = value.get<std::int64_t>();
  return {};
}

Result<void> read(const std::string& name, const Json& value, std::string& text) {
  if (!value.is_string()) return bad_member(name, "is not a string");
  text = value.get<std::string>();
  return {};
}

template <class Value>
Result<void> read(const std::string& name, const Json& value, std::map<std::string, Value>& entries) {
  if (!value.is_object()) return bad_member(name, "is not an object");
  for (const auto& [key, each] : value.items()) {
    if (auto done = read(name + "." + key, each, entries[key]); !done) return done;
  }
  return {};
}

Result<void> read(const std::string& name, const Json& value, std::vector<Labels>& selectors) {
  if (!value.is_array()) return bad_member(name, "is not an array of selectors");
  for (const auto& each : value) {
    if (auto done = read(name, each, selectors.emplace_back()); !done) return done;
  }
  return {};
}

Result<void> read_member(const std::string& name, const Json& value, TaskOptions& options) {
  if (name == "num_cpus") return read(name, value, options.num_cpus);
  if (name == "num_gpus") return read(name, value, options.num_gpus);
  if (name == "gpu_memory") return read(name, value, options.gpu_memory);
  if (name == "memory") return read(name, value, options.memory);
  if (name == "resources") return read(name, value, options.resources);
  if (name == "accelerator_type") return read(name, value, options.accelerator_type);
  if (name == "label_selector") return read(name, value, options.label_selector);
  if (name == "fallback_selectors") return read(name, value, options.fallback_selectors);
  if (name == "node_id") {
    NodeAffinity affinity;
    auto done = read(name, value, affinity.node_id);
    options.scheduling = std::move(affinity);
    return done;
  }
  return bad_member(name, "is not known; known are num_cpus, num_gpus, gpu_memory, memory, resources, "
                     "accelerator_type, label_selector, fallback_selectors, node_id");
}

double amount(std::int64_t units) { return static_cast<double>(units) / Quantity::units_per_one; }

}  // namespace

Result<std::string> checked_request(const std::string& json) {
  const Json given = Json::parse(json, nullptr, false);
  if (!given.is_object()) return bad_member("text", "is not a JSON object");
  TaskOptions options;
  for (const auto& [name, value] : given.items()) {
    if (auto done = read_member(name, value, options); !done) return done.error();
  }
  const auto prepared = detail::prepare(options);
  if (!prepared.ok()) return failure(ErrorCode::invalid_argument, "request: " + prepared.error().message);
  const auto& accepted = prepared.value()->resources;

  Json request = given;  // labels, types and nodes as they are
  request["num_cpus"] = amount(accepted.cpu_units);
  request["num_gpus"] = amount(accepted.gpu_units);
  request["accelerator_type"] = accepted.accelerator_type;
  request["resources"] = Json::object();
  for (const auto& [name, units] : accepted.custom_units) request["resources"][name] = amount(units);
  return request.dump();
}

}  // namespace mobula::internal::cli
