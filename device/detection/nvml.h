// Queries NVIDIA's management library about the GPUs of this machine; changes nothing.
// Thread: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/shared_library.h"

namespace mobula::internal {

// A MIG slice of a GPU: a separate device for CUDA, identified only by its UUID.
struct MigSlice {
  std::string name;
  std::string uuid;
  std::uint64_t memory_bytes = 0;

  friend bool operator==(const MigSlice&, const MigSlice&) = default;
};

// Targets of the active NVLinks of a GPU.
struct NvLinks {
  bool to_switch = false;
  std::vector<std::string> to_gpus{};  // PCI bus id of the other GPU, one per link

  friend bool operator==(const NvLinks&, const NvLinks&) = default;
};

struct NvmlDevice {
  unsigned index = 0;  // NVML index, in the order of PCI bus ids
  std::string name{};
  std::string uuid{};
  std::uint64_t memory_bytes = 0;
  std::string pci_bus_id{};
  bool mig_mode = false;
  std::vector<MigSlice> slices{};
  NvLinks links{};  // unused in MIG mode

  friend bool operator==(const NvmlDevice&, const NvmlDevice&) = default;
};

// A process with a context on a device.
struct DeviceUser {
  unsigned process = 0;  // process id in the driver's PID namespace
  std::optional<std::uint64_t> used_bytes = {};

  friend bool operator==(const DeviceUser&, const DeviceUser&) = default;
};

class Nvml {
 public:
  static constexpr const char* default_library = "libnvidia-ml.so.1";
  // Returns the value of MOBULA_NVML_LIBRARY, otherwise the default.
  static std::string library_name();

  // Loads and initializes the library; the destructor shuts it down. Fails with not_found without
  // the library or one of its functions, and with unavailable if initialization fails (no driver,
  // no permission).
  static Result<Nvml> open(const std::string& library = default_library);

  Nvml(Nvml&& other) noexcept;
  Nvml& operator=(Nvml&&) = delete;
  ~Nvml();

  Result<std::string> driver_version() const;
  // Returns the memory use of a device by process. `used_bytes` is empty if the library cannot
  // separate processes.
  Result<std::vector<DeviceUser>> users(unsigned device) const;
  // Returns the memory use of a device by all processes together.
  Result<std::uint64_t> used_bytes(unsigned device) const;
  // Returns the percentage of the driver's last sample period (1/6 to 1 s) in which a kernel ran on
  // the device. not_found if the library or the device does not report it, as in MIG mode.
  Result<unsigned> busy_percent(unsigned device) const;
  // Returns true if kernels on one device can read memory of the other, or if both are the same.
  Result<bool> reaches(unsigned device, unsigned other) const;
  // Returns all devices, or the failure of the first one that does not respond. Properties that the
  // device does not report (memory, PCI address, MIG, NVLink) keep their defaults.
  Result<std::vector<NvmlDevice>> devices() const;

 private:
  struct Functions;

  Nvml(SharedLibrary library, std::unique_ptr<Functions> functions);
  Failure error(std::string what, int status) const;
  Result<void*> handle_of(unsigned index) const;
  Result<NvmlDevice> device(unsigned index) const;
  Result<std::vector<MigSlice>> slices(void* device) const;
  NvLinks links(void* device) const;

  SharedLibrary library_;
  std::unique_ptr<Functions> functions_;  // null: moved from
};

}  // namespace mobula::internal
