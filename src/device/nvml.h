// What NVIDIA's management library says about the GPUs of this machine. For the agent's start and
// for `doctor`; asks, never changes anything. One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "device/shared_library.h"

namespace mobula::internal {

// A slice of a GPU in MIG mode: to CUDA a device of its own, named by its uuid alone.
struct MigSlice {
  std::string name;
  std::string uuid;
  std::uint64_t memory_bytes = 0;

  friend bool operator==(const MigSlice&, const MigSlice&) = default;
};

// What the active NVLinks of a GPU lead to.
struct NvLinks {
  bool to_switch = false;
  std::vector<std::string> to_gpus{};  // PCI bus ids, one for each link

  friend bool operator==(const NvLinks&, const NvLinks&) = default;
};

struct NvmlDevice {
  unsigned index = 0;  // NVML counts in the order of PCI bus ids
  std::string name{};
  std::string uuid{};
  std::uint64_t memory_bytes = 0;
  std::string pci_bus_id{};
  bool mig_mode = false;
  std::vector<MigSlice> slices{};
  NvLinks links{};  // in MIG mode there are none to use

  friend bool operator==(const NvmlDevice&, const NvmlDevice&) = default;
};

// A process with a context on a device.
struct DeviceUser {
  unsigned process = 0;  // its id where the driver is
  std::optional<std::uint64_t> used_bytes = {};

  friend bool operator==(const DeviceUser&, const DeviceUser&) = default;
};

class Nvml {
 public:
  static constexpr const char* default_library = "libnvidia-ml.so.1";
  // MOBULA_NVML_LIBRARY, else the default.
  static std::string library_name();

  // Loads and initialises the library; the destructor shuts it down. not_found without the library
  // or a function of it, unavailable if it does not initialise (no driver, no permission).
  static Result<Nvml> open(const std::string& library = default_library);

  Nvml(Nvml&& other) noexcept;
  Nvml& operator=(Nvml&&) = delete;
  ~Nvml();

  Result<std::string> driver_version() const;
  // What each process has taken of a device; nothing where the library does not tell processes apart.
  Result<std::vector<DeviceUser>> users(unsigned device) const;
  // What all processes together have taken of a device.
  Result<std::uint64_t> used_bytes(unsigned device) const;
  // Whether kernels on one device may read the other one's memory; a device reaches itself.
  Result<bool> reaches(unsigned device, unsigned other) const;
  // All devices, or the failure of the first that does not answer. What a device does not support
  // (memory, PCI address, MIG, NVLink) is left at its default.
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
