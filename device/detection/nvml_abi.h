// Part of NVML's binary interface that Mobula calls, from NVIDIA's NVML API reference. These are
// our own prototypes, because no build may need NVIDIA's headers. Layouts and numbers are those of
// the driver and must not change.
// Thread: any (declarations).
#pragma once

namespace mobula::internal::nvml_abi {

using Status = int;  // nvmlReturn_t
inline constexpr Status success = 0;
inline constexpr Status invalid_argument = 2;
inline constexpr Status not_supported = 3;
inline constexpr Status not_found = 6;
inline constexpr Status insufficient_size = 7;

using Device = struct DeviceOpaque*;

inline constexpr unsigned name_bytes = 96;     // NVML_DEVICE_NAME_V2_BUFFER_SIZE
inline constexpr unsigned uuid_bytes = 96;     // NVML_DEVICE_UUID_V2_BUFFER_SIZE
inline constexpr unsigned version_bytes = 80;  // NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE

inline constexpr unsigned most_links = 64;  // above every known NVML_NVLINK_MAX_LINKS
inline constexpr int link_active = 1;       // NVML_FEATURE_ENABLED
inline constexpr int link_to_gpu = 0;       // NVML_NVLINK_DEVICE_TYPE_GPU
inline constexpr int link_to_switch = 2;    // NVML_NVLINK_DEVICE_TYPE_SWITCH

struct Memory {  // nvmlMemory_t
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

struct Utilization {  // nvmlUtilization_t: percent of the last sample period of the driver
  unsigned gpu;
  unsigned memory;
};

struct Process {  // nvmlProcessInfo_t, as of nvmlDeviceGetComputeRunningProcesses_v3
  unsigned pid;
  unsigned long long used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};
inline constexpr unsigned no_instance = 0xffffffff;
inline constexpr unsigned long long unknown_bytes = ~0ULL;  // NVML_VALUE_NOT_AVAILABLE

inline constexpr int p2p_read = 0;           // NVML_P2P_CAPS_INDEX_READ
inline constexpr int p2p_ok = 0;             // NVML_P2P_STATUS_OK
inline constexpr int p2p_not_supported = 2;  // NVML_P2P_STATUS_GPU_NOT_SUPPORTED

struct PciInfo {  // nvmlPciInfo_t, as of nvmlDeviceGetPciInfo_v3
  char legacy_bus_id[16];
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_and_vendor;
  unsigned subsystem;
  char bus_id[32];
};

using Init = Status();                                  // nvmlInit_v2
using Shutdown = Status();                              // nvmlShutdown
using ErrorString = const char*(Status);                // nvmlErrorString
using DriverVersion = Status(char*, unsigned);          // nvmlSystemGetDriverVersion
using DeviceCount = Status(unsigned*);                  // nvmlDeviceGetCount_v2
using DeviceByIndex = Status(unsigned, Device*);        // nvmlDeviceGetHandleByIndex_v2
using DeviceName = Status(Device, char*, unsigned);     // nvmlDeviceGetName
using DeviceUuid = Status(Device, char*, unsigned);     // nvmlDeviceGetUUID
using DeviceMemory = Status(Device, Memory*);           // nvmlDeviceGetMemoryInfo
using UtilizationRates = Status(Device, Utilization*);  // nvmlDeviceGetUtilizationRates
using DevicePci = Status(Device, PciInfo*);             // nvmlDeviceGetPciInfo_v3
using MigMode = Status(Device, unsigned*, unsigned*);   // nvmlDeviceGetMigMode: current, pending
using MigCount = Status(Device, unsigned*);             // nvmlDeviceGetMaxMigDeviceCount
using MigByIndex = Status(Device, unsigned, Device*);   // nvmlDeviceGetMigDeviceHandleByIndex
using Processes = Status(Device, unsigned*, Process*);  // nvmlDeviceGetComputeRunningProcesses_v3
using PeerStatus = Status(Device, Device, int, int*);   // nvmlDeviceGetP2PStatus
// Arguments: a device and the number of one of its links.
using LinkState = Status(Device, unsigned, int*);          // nvmlDeviceGetNvLinkState
using LinkRemoteType = Status(Device, unsigned, int*);     // nvmlDeviceGetNvLinkRemoteDeviceType
using LinkRemotePci = Status(Device, unsigned, PciInfo*);  // nvmlDeviceGetNvLinkRemotePciInfo_v2

}  // namespace mobula::internal::nvml_abi
