#include "head/core/request_json.h"

#include <fmt/format.h>

#include "head/core/documents.h"

namespace mobula::internal::head {
namespace {


constexpr std::size_t max_text_bytes = 64 * 1024;

Failure wrong(const std::string& member, const std::string& rule) {
  return failure(ErrorCode::invalid_argument, fmt::format("request: {} {}", member, rule));
}

Result<Quantity> amount_of(const std::string& member, const Json& value) {
  if (!value.is_number()) return wrong(member, "is not a number");
  auto amount = Quantity::from_double(value.get<double>());
  if (!amount) return wrong(member, amount.error().text);
  return amount;
}

Result<void> read_resources(const Json& value, Request& request) {
  if (!value.is_object()) return wrong("resources", "is not an object of names and amounts");
  for (const auto& [name, each] : value.items()) {
    const auto amount = amount_of("resources." + name, each);
    if (!amount) return amount.error();
    if (!allows_fractions(name) && !amount->is_whole()) {
      return wrong("resources." + name, "is only given in whole numbers");
    }
    request.resources.set(name, *amount);
  }
  return {};
}

Result<void> read_labels(const std::string& member, const Json& value, Labels& labels) {
  if (!value.is_object()) return wrong(member, "is not an object of labels");
  for (const auto& [name, each] : value.items()) {
    if (!each.is_string()) return wrong(member + "." + name, "is not a string");
    labels[name] = each.get<std::string>();
  }
  return {};
}

Result<void> read_fallbacks(const Json& value, Request& request) {
  const std::string member = "fallback_selectors";
  if (!value.is_array()) return wrong(member, "is not an array of selectors");
  for (const auto& each : value) {
    Labels labels;
    if (auto read = read_labels(member, each, labels); !read) return read;
    request.fallback_selectors.push_back(std::move(labels));
  }
  return {};
}

Result<void> read_affinity(const Json& value, Request& request) {
  const auto node = value.is_string() ? NodeId::from_hex(value.get<std::string>()) : std::nullopt;
  if (!node) return wrong("node_id", "is not the id of a node");
  request.strategy = NodeAffinityStrategy{*node, false};
  return {};
}

Result<void> read_bytes(const std::string& name, const Json& value, Request& request) {
  // The largest that is counted in quantities.
  if (!value.is_number() || value.get<double>() < 0 ||
      value.get<double>() > static_cast<double>(Quantity::max_whole)) {
    return wrong(name, "is not an amount of bytes");
  }
  const auto bytes = value.is_number_integer() ? value.get<std::int64_t>()
                                               : static_cast<std::int64_t>(value.get<double>());
  if (name == "gpu_memory") {
    request.gpu_memory = bytes;
  } else {
    request.resources.set(name, Quantity::whole(bytes));
  }
  return {};
}

Result<void> read_member(const std::string& name, const Json& value, Request& request) {
  if (name == "num_cpus" || name == "num_gpus") {
    const auto amount = amount_of(name, value);
    if (!amount) return amount.error();
    request.resources.set(name == "num_cpus" ? resource::cpu : resource::gpu, *amount);
    return {};
  }
  if (name == "gpu_memory" || name == "memory") return read_bytes(name, value, request);
  if (name == "resources") return read_resources(value, request);
  if (name == "label_selector") return read_labels(name, value, request.label_selector);
  if (name == "fallback_selectors") return read_fallbacks(value, request);
  if (name == "node_id") return read_affinity(value, request);
  if (name == "accelerator_type") {
    if (!value.is_string()) return wrong(name, "is not a string");
    request.accelerator_type = value.get<std::string>();
    return {};
  }
  return wrong(name, "is not known; known are num_cpus, num_gpus, gpu_memory, memory, resources, "
                     "accelerator_type, label_selector, fallback_selectors, node_id");
}

}  // namespace

Result<Request> request_from_json(const std::string& text) {
  if (text.size() > max_text_bytes) return wrong("text", "is over 64 KiB");
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return wrong("text", "is not a JSON object");
  Request request;
  request.resources.set(resource::cpu, Quantity::whole(1));  // as of a task that says nothing
  for (const auto& [name, value] : json.items()) {
    if (auto read = read_member(name, value, request); !read) return read.error();
  }
  return request;
}

}  // namespace mobula::internal::head
