// Rules for resource requests from every source: options of a program, or JSON from a tool. Amounts
// are converted to exact units.
// Thread: any.
// Units: 1/10000; bytes.
// Not: feasibility. Labels are checked in label_syntax.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/model/field_error.h"
#include "base/model/node_shape.h"
#include "base/model/request.h"

namespace mobula::internal {

// Limits that clients check and the head enforces, because the scheduler walks these lists.
inline constexpr std::size_t max_resource_names = 64;  // per request, bundle, or node
inline constexpr std::size_t max_env_variables = 1024;
inline constexpr std::size_t max_env_variable_bytes = 64u << 10;  // name and value; Linux: 128 KiB
inline constexpr std::size_t max_env_bytes = 512u << 10;          // in total; Linux: 2 MiB and more

// Checks for UTF-8 of at most 256 bytes without control characters and without bidirectional
// control characters. May be empty.
Breach check_text(std::string_view field, std::string_view text);
// Not negative, and within the range of a quantity.
Breach check_bytes(const std::string& field, std::int64_t bytes);
// Finite, not negative, not finer than one unit.
Breach read_units(const std::string& field, double amount, std::int64_t& units);
// As read_units; in addition below 1 or whole.
Breach read_device_units(const std::string& field, double amount, std::int64_t& units);
// An exact whole number of bytes.
Breach read_bytes(const std::string& field, double amount, std::int64_t& bytes);

// A request must also use a valid number of cooperating devices. A node or a shared bundle may have
// any number.
enum class AmountKind { request, total };

// Named resources, split into aliases of other members and custom resources.
struct NamedResources {
  std::optional<std::int64_t> gpu_units{};
  std::string accelerator_type{};
  std::vector<std::pair<std::string, std::int64_t>> custom_units{};  // no entry is 0
};
Breach read_named(const std::map<std::string, double>& resources, AmountKind kind,
                  NamedResources& named);

// The request apart from CPUs.
struct RequestedResources {
  double num_gpus = 0;
  std::int64_t gpu_memory = 0;  // bytes of each device
  std::int64_t memory = 0;
  std::map<std::string, double> resources{};
  std::string accelerator_type{};
};
struct ExactResources {
  std::int64_t gpu_units = 0;
  std::int64_t gpu_memory_bytes = 0;
  std::int64_t memory_bytes = 0;
  std::vector<std::pair<std::string, std::int64_t>> custom_units{};
  std::string accelerator_type{};
  bool has_devices = false;
};
Breach read_requested(const RequestedResources& requested, AmountKind kind, ExactResources& exact);
// Checks that the names are valid environment variables, and the limits above.
Breach check_environment(const Environment& env);
// Checks a request from a message: names and limits, not amounts.
Breach check_request(const Request& request);
Breach check_shape(const NodeShape& shape);
// Checks that a bundle requests a resource, and at most one kind of device.
Breach check_bundle(const std::string& field, std::int64_t cpu_units, const ExactResources& exact);

}  // namespace mobula::internal
