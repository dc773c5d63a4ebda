#include "device/detection/neuron.h"

#include <sys/stat.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "device/detection/program_output.h"

namespace mobula::internal {
namespace {

constexpr std::uint64_t most_cores = 4096;

}  // namespace

Result<unsigned> neuron_cores_in(std::string_view json) {
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  if (!parsed.is_array()) {
    return failure(ErrorCode::corrupt, "neuron-ls did not print a list of devices");
  }
  std::uint64_t cores = 0;
  for (const auto& device : parsed) {
    const auto count = device.is_object() ? device.find("nc_count") : device.end();
    if (count == device.end() || !count->is_number_unsigned() ||
        count->get<std::uint64_t>() > most_cores) {
      return failure(ErrorCode::corrupt, "neuron-ls lists a device without a plausible nc_count");
    }
    cores += count->get<std::uint64_t>();
  }
  if (cores > most_cores) {
    return failure(ErrorCode::corrupt, fmt::format("neuron-ls lists {} cores", cores));
  }
  return static_cast<unsigned>(cores);
}

Result<unsigned> probe_neuron_cores(const NeuronPaths& paths) {
  struct stat status {};
  if (::stat(paths.tools.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return 0u;
  auto text = output_of_program(paths.tools + "/neuron-ls", {"--json-output"}, paths.timeout);
  if (!text) return text.error();
  return neuron_cores_in(*text);
}

}  // namespace mobula::internal
