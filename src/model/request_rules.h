// The rules that a request for resources keeps, wherever it is made: in the options of a program, or in the
// JSON that a tool is given. Amounts come as people write them and go as exact units of 1/10000. Pure; any
// thread. What can be scheduled is not decided here; labels are label_syntax.h's.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/broken_rule.h"
#include "model/node_shape.h"
#include "model/request.h"

namespace mobula::internal {

// Limits that clients keep and the head enforces: the scheduler walks over these lists.
inline constexpr std::size_t max_resource_names = 64;  // per request, bundle, or node
inline constexpr std::size_t max_env_variables = 1024;
inline constexpr std::size_t max_env_variable_bytes = 64u << 10;  // name and value; Linux: 128 KiB
inline constexpr std::size_t max_env_bytes = 512u << 10;          // in total; Linux: 2 MiB and more

// UTF-8, at most 256 bytes, no control characters and no marks that reverse the direction of text.
// May be empty.
Breach check_text(const std::string& field, std::string_view text);
// Not negative, and no more than a quantity may be.
Breach check_bytes(const std::string& field, std::int64_t bytes);
// Finite, not negative, no finer than a unit.
Breach read_units(const std::string& field, double amount, std::int64_t& units);
// The same; also: below 1 or whole.
Breach read_device_units(const std::string& field, double amount, std::int64_t& units);
// A whole number of bytes, exactly.
Breach read_bytes(const std::string& field, double amount, std::int64_t& bytes);

// A request is also held to the numbers in which devices work together; a node, or a bundle that
// several share, has what it has.
enum class Asks { request, total };

// Named resources told apart: what is another member by another name, and the rest.
struct NamedResources {
  std::optional<std::int64_t> gpu_units{};
  std::string accelerator_type{};
  std::vector<std::pair<std::string, std::int64_t>> custom_units{};  // none is 0
};
Breach read_named(const std::map<std::string, double>& resources, Asks asks, NamedResources& named);

// What is asked for beside CPUs.
struct AskedResources {
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
Breach read_asked(const AskedResources& asked, Asks asks, ExactResources& exact);
// Names that a process can have in its environment, and the limits above.
Breach check_environment(const Environment& env);
// A request as it came in a message: names and limits, not amounts.
Breach check_request(const Request& request);
Breach check_shape(const NodeShape& shape);
// That a bundle asks for something, and for one kind of device.
Breach check_bundle(const std::string& field, std::int64_t cpu_units, const ExactResources& exact);

}  // namespace mobula::internal
