#include <fmt/format.h>

#include <cstdlib>
#include <string>
#include <thread>

#include <mobula/errors.h>
#include <mobula/tune/trial.h>

#include "device/detection/nvml.h"
#include "tune/api/core_values.h"

namespace mobula::tune {
namespace {

// The first entry of CUDA_VISIBLE_DEVICES; "0" if the variable is unset.
std::string first_visible_gpu() {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible == nullptr) return "0";
  const std::string list(visible);
  return list.substr(0, list.find(','));
}

const internal::NvmlDevice* find_gpu(const std::vector<internal::NvmlDevice>& devices,
                                     const std::string& name) {
  for (const auto& device : devices)
    if (std::to_string(device.index) == name || device.uuid == name ||
        (name.starts_with("GPU-") && device.uuid.starts_with(name)))
      return &device;
  return nullptr;
}

}  // namespace

bool wait_for_gpu(const WaitForGpu& options) {
  const std::string name = options.gpu.empty() ? first_visible_gpu() : options.gpu;
  if (name.empty())
    internal::tune::refuse_tune("wait_for_gpu",
                                "this process has no GPU; request one in "
                                "resources_per_trial, or pass gpu");
  if (options.retry < 1) internal::tune::refuse_tune("WaitForGpu::retry", "at least 1");
  auto nvml = internal::Nvml::open(internal::Nvml::library_name());
  if (!nvml) throw Error("wait_for_gpu " + name + ": " + nvml.error().text);
  const auto devices = nvml->devices();
  if (!devices) throw Error("wait_for_gpu " + name + ": " + devices.error().text);
  const internal::NvmlDevice* device = find_gpu(*devices, name);
  if (device == nullptr)
    internal::tune::refuse_tune(
        "wait_for_gpu",
        fmt::format("GPU '{}' is unknown; this node has {} GPUs", name, devices->size()));
  double used = 0;
  for (int sample = 0; sample < options.retry; ++sample) {
    if (sample > 0) std::this_thread::sleep_for(options.delay);
    const auto bytes = nvml->used_bytes(device->index);
    if (!bytes) throw Error("wait_for_gpu " + name + ": " + bytes.error().text);
    used = device->memory_bytes == 0
               ? 0
               : static_cast<double>(*bytes) / static_cast<double>(device->memory_bytes);
    if (used <= options.target_util) return true;
  }
  throw Error(
      fmt::format("wait_for_gpu {}: {:.1f} % of the memory is in use after {} samples, "
                  "expected at most {:.1f} %; end the process that uses it",
                  name, used * 100, options.retry, options.target_util * 100));
}

}  // namespace mobula::tune
