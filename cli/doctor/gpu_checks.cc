#include "cli/doctor/gpu_checks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include "device/detection/nvml.h"
#include "device/gpu/cuda_driver.h"
#include "device/gpu/nccl_library.h"

namespace mobula::internal::cli::doctor {
namespace {

namespace fs = std::filesystem;

constexpr const char* same_version =
    "install the libraries of the driver that is loaded (Debian: apt-get install libnvidia-ml1 "
    "libcuda1), or, in a "
    "container, start it with NVIDIA's runtime (--gpus all)";

bool is_device_file(const std::string& name) {
  if (name == "nvidiactl" || name == "nvidia-uvm") return true;
  return name.starts_with("nvidia") && name.size() > 6 &&
         std::all_of(name.begin() + 6, name.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Device files, and those that this user may not use.
struct DeviceFiles {
  std::size_t gpus = 0;
  std::vector<std::string> closed{};
  std::vector<std::string> names{};
};

DeviceFiles device_files(const std::string& dev) {
  DeviceFiles found;
  std::error_code code;
  for (fs::directory_iterator at(dev, code), end; !code && at != end; at.increment(code)) {
    const std::string name = at->path().filename().string();
    if (!is_device_file(name)) continue;
    found.names.push_back(name);
    found.gpus += std::isdigit(static_cast<unsigned char>(name.back())) != 0 ? 1 : 0;
    if (::access(at->path().c_str(), R_OK | W_OK) != 0) found.closed.push_back(at->path().string());
  }
  std::ranges::sort(found.closed);
  return found;
}

Findings check_files(const DeviceFiles& files, const std::string& kernel) {
  Findings found;
  if (!files.closed.empty()) {
    found.push_back(must_fix(
        "GPU device files",
        fmt::format(
            "user {} has no read and write permission for {}{}", ::geteuid(), files.closed.front(),
            files.closed.size() > 1 ? fmt::format(" and {} more", files.closed.size() - 1) : ""),
        "usermod -aG video USER and log in again, or chmod 666 /dev/nvidia*"));
  }
  if (!kernel.empty() && files.gpus == 0) {
    found.push_back(must_fix(
        "GPU device files", fmt::format("driver {} is loaded, but /dev/nvidia0 is missing", kernel),
        "nvidia-modprobe -c 0 -u; in a container --gpus all; in a pod limits: "
        "{nvidia.com/gpu: 1}"));
  }
  if (kernel.empty() && files.gpus > 0) {
    found.push_back(must_fix("GPU driver", "/dev has GPU files, but no driver is loaded",
                             "modprobe nvidia; dmesg shows why it does not load"));
  }
  return found;
}

// Returns the number of GPUs that answer; 0 if the driver cannot be used.
std::size_t check_nvml(const DeviceFiles& files, const std::string& kernel, bool named,
                       Findings& found) {
  const bool expected = !kernel.empty() || files.gpus > 0 || named;
  const auto nvml = Nvml::open(Nvml::library_name());
  if (!nvml && !expected) {
    found.push_back(note("GPUs", "no NVIDIA driver and no GPU files"));
    return 0;
  }
  if (!nvml && nvml.error().code == ErrorCode::not_found) {
    found.push_back(must_fix(
        "GPU libraries",
        fmt::format("{}, but NVML is unusable: {}",
                    kernel.empty() ? "GPUs are expected" : "driver " + kernel + " is loaded",
                    nvml.error().text),
        same_version));
    return 0;
  }
  if (!nvml) {
    const std::string why = nvml.error().text;
    const bool differs = why.find("ismatch") != std::string::npos;
    found.push_back(must_fix(
        "GPU driver",
        why + (kernel.empty() ? "" : fmt::format("; the loaded driver is {}", kernel)),
        differs ? "load the installed driver: reboot, or stop all GPU processes and then rmmod "
                  "nvidia_uvm nvidia_drm nvidia_modeset nvidia && modprobe nvidia"
                : "dmesg | grep -i -e nvrm -e xid shows the errors of the driver"));
    return 0;
  }
  const auto version = nvml->driver_version();
  const auto devices = nvml->devices();
  if (!version || !devices) {
    found.push_back(must_fix(
        "GPUs", !devices ? devices.error().text : version.error().text,
        "nvidia-smi -q shows the GPU that does not reply; nvidia-smi -r resets an idle GPU"));
    return 0;
  }
  if (!kernel.empty() && *version != kernel) {
    found.push_back(must_fix("GPU driver",
                             fmt::format("the loaded driver is {}, NVML is {}", kernel, *version),
                             same_version));
  } else {
    found.push_back(ok("GPU driver", *version));
  }
  if (files.gpus != 0 && devices->size() != files.gpus) {
    found.push_back(note(
        "GPUs", fmt::format("NVML reports {}, /dev has files of {}", devices->size(), files.gpus),
        "dmesg | grep -i xid; a reboot restores a GPU that has fallen off the bus"));
  }
  return devices->size();
}

void check_libraries(bool nccl_named, Findings& found) {
  const auto cuda = CudaDriver::open();
  if (cuda) {
    const int version = (*cuda)->version();
    found.push_back(ok("CUDA driver", fmt::format("{}.{} by {}", version / 1000,
                                                  version % 1000 / 10, (*cuda)->library())));
  } else {
    found.push_back(must_fix("CUDA driver", cuda.error().text,
                             cuda.error().code == ErrorCode::not_found
                                 ? same_version
                                 : fmt::format("install a driver for CUDA {}.{} or newer",
                                               CudaDriver::least_version / 1000,
                                               CudaDriver::least_version % 1000 / 10)));
  }
  const auto nccl = NcclLibrary::open();
  if (nccl) {
    found.push_back(ok("NCCL", fmt::format("{} by {}", nccl_version_text((*nccl)->version()),
                                           (*nccl)->library())));
    return;
  }
  const std::string install =
      fmt::format("install NCCL {} or newer (libnccl2), or set MOBULA_NCCL_LIBRARY=PATH",
                  nccl_version_text(NcclLibrary::least_version));
  const bool absent = nccl.error().code == ErrorCode::not_found && !nccl_named;
  found.push_back(
      absent
          ? note("NCCL", nccl.error().text + "; GPU tensors of groups are staged through the host",
                 install)
          : must_fix("NCCL", nccl.error().text,
                     nccl.error().text.find("NCCL_COMM_BLOCKING") == std::string::npos
                         ? install
                         : "unset NCCL_COMM_BLOCKING"));
}

bool is_named(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace

std::string kernel_driver_version(const std::string& text) {
  // Parses "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ...", with
  // "Open" in open drivers.
  const auto line = text.substr(0, text.find('\n'));
  if (!line.starts_with("NVRM version:")) return {};
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const bool number = std::isdigit(static_cast<unsigned char>(word.front())) != 0;
    if (number && word.find('.') != std::string::npos &&
        word.find_first_not_of("0123456789.") == std::string::npos)
      return word;
  }
  return {};
}

Findings check_gpus(const GpuPaths& paths) {
  std::ifstream file(paths.proc + "/driver/nvidia/version");
  const std::string kernel = kernel_driver_version({std::istreambuf_iterator<char>(file), {}});
  const auto files = device_files(paths.dev);
  Findings found = check_files(files, kernel);
  const bool named = is_named("MOBULA_NVML_LIBRARY") || is_named("MOBULA_CUDA_LIBRARY");
  const auto gpus = check_nvml(files, kernel, named, found);
  if (gpus > 0 || named || is_named("MOBULA_NCCL_LIBRARY"))
    check_libraries(is_named("MOBULA_NCCL_LIBRARY"), found);
  return found;
}

}  // namespace mobula::internal::cli::doctor
