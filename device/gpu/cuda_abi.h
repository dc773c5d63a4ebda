// Part of the CUDA driver's binary interface that Mobula calls, from NVIDIA's driver API reference.
// These are our own prototypes, because no build may need NVIDIA's headers. Layouts and numbers are
// those of the driver and must not change. `abi_check.cc` compares them with the official headers
// if installed.
// Thread: any (declarations).
#pragma once

#include <cstddef>

namespace mobula::internal::cuda_abi {

using Status = int;  // CUresult
inline constexpr Status success = 0;
inline constexpr Status invalid_value = 1;
inline constexpr Status out_of_memory = 2;
inline constexpr Status not_initialized = 3;
inline constexpr Status no_device = 100;
inline constexpr Status invalid_device = 101;
inline constexpr Status invalid_context = 201;
inline constexpr Status invalid_handle = 400;
inline constexpr Status not_found = 500;
inline constexpr Status not_ready = 600;
inline constexpr Status illegal_address = 700;
inline constexpr Status launch_failed = 719;
inline constexpr Status not_permitted = 800;
inline constexpr Status not_supported = 801;
inline constexpr Status stream_capture_unsupported = 900;
inline constexpr Status stream_capture_implicit = 906;
inline constexpr Status unknown = 999;

using Device = int;
using Address = unsigned long long;       // CUdeviceptr
using MemoryHandle = unsigned long long;  // CUmemGenericAllocationHandle
using Context = struct ContextOpaque*;
using Stream = struct StreamOpaque*;
using Event = struct EventOpaque*;

struct Uuid {
  unsigned char bytes[16];
};

struct Location {  // CUmemLocation
  int type;
  int id;
};
inline constexpr int location_device = 1;

struct AllocationProperties {  // CUmemAllocationProp
  int type;
  int handle_types;
  Location location;
  void* win32_metadata;
  struct {
    unsigned char compression;
    unsigned char gpu_direct_rdma;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};
inline constexpr int allocation_pinned = 1;
inline constexpr int handle_posix_fd = 1;
inline constexpr int granularity_minimum = 0;

struct AccessDescription {  // CUmemAccessDesc
  Location location;
  int flags;
};
inline constexpr int access_read = 1;
inline constexpr int access_read_write = 3;

struct Copy2D {  // CUDA_MEMCPY2D
  std::size_t source_x_bytes;
  std::size_t source_y;
  int source_type;
  const void* source_host;
  Address source_device;
  void* source_array;
  std::size_t source_pitch;
  std::size_t target_x_bytes;
  std::size_t target_y;
  int target_type;
  void* target_host;
  Address target_device;
  void* target_array;
  std::size_t target_pitch;
  std::size_t width_bytes;
  std::size_t height;
};
inline constexpr int memory_host = 1;     // CU_MEMORYTYPE_HOST
inline constexpr int memory_device = 2;   // CU_MEMORYTYPE_DEVICE
inline constexpr int memory_unified = 4;  // CU_MEMORYTYPE_UNIFIED: determined by the address

inline constexpr int attribute_unified_addressing = 41;
inline constexpr int attribute_compute_capability_major = 75;
inline constexpr int attribute_virtual_memory = 102;
inline constexpr int attribute_posix_fd_handles = 103;

inline constexpr int pointer_memory_type = 2;
inline constexpr int pointer_is_managed = 8;
inline constexpr int pointer_device_ordinal = 9;

inline constexpr unsigned host_portable = 1;  // CU_MEMHOSTALLOC_PORTABLE
inline constexpr unsigned stream_non_blocking = 1;
inline constexpr unsigned event_no_timing = 2;
inline constexpr int capture_none = 0;
inline constexpr int capture_mode_relaxed = 2;

// cuGetProcAddress_v2
using GetProcAddress = Status(const char*, void**, int, unsigned long long, int*);

// Columns: member name, name for cuGetProcAddress, CUDA version of the requested form, type.
// clang-format off
#define MOBULA_CUDA_FUNCTIONS(each) \
  each(init, cuInit, 2000, Status(unsigned)) \
  each(driver_version, cuDriverGetVersion, 2020, Status(int*)) \
  each(error_name, cuGetErrorName, 6000, Status(Status, const char**)) \
  each(device_count, cuDeviceGetCount, 2000, Status(int*)) \
  each(device_at, cuDeviceGet, 2000, Status(Device*, int)) \
  each(device_name, cuDeviceGetName, 2000, Status(char*, int, Device)) \
  each(device_pci_bus_id, cuDeviceGetPCIBusId, 4010, Status(char*, int, Device)) \
  each(device_uuid, cuDeviceGetUuid, 11040, Status(Uuid*, Device)) \
  each(device_memory, cuDeviceTotalMem, 3020, Status(std::size_t*, Device)) \
  each(device_attribute, cuDeviceGetAttribute, 2000, Status(int*, int, Device)) \
  each(can_access_peer, cuDeviceCanAccessPeer, 4000, Status(int*, Device, Device)) \
  each(context_retain, cuDevicePrimaryCtxRetain, 7000, Status(Context*, Device)) \
  each(context_release, cuDevicePrimaryCtxRelease, 11000, Status(Device)) \
  each(context_push, cuCtxPushCurrent, 4000, Status(Context)) \
  each(context_pop, cuCtxPopCurrent, 4000, Status(Context*)) \
  each(context_synchronize, cuCtxSynchronize, 2000, Status()) \
  each(priority_range, cuCtxGetStreamPriorityRange, 5050, Status(int*, int*)) \
  each(memory_left, cuMemGetInfo, 3020, Status(std::size_t*, std::size_t*)) \
  each(memory_granularity, cuMemGetAllocationGranularity, 10020, \
       Status(std::size_t*, const AllocationProperties*, int)) \
  each(memory_create, cuMemCreate, 10020, \
       Status(MemoryHandle*, std::size_t, const AllocationProperties*, unsigned long long)) \
  each(memory_release, cuMemRelease, 10020, Status(MemoryHandle)) \
  each(memory_export, cuMemExportToShareableHandle, 10020, \
       Status(void*, MemoryHandle, int, unsigned long long)) \
  each(memory_import, cuMemImportFromShareableHandle, 10020, Status(MemoryHandle*, void*, int)) \
  each(address_reserve, cuMemAddressReserve, 10020, \
       Status(Address*, std::size_t, std::size_t, Address, unsigned long long)) \
  each(address_free, cuMemAddressFree, 10020, Status(Address, std::size_t)) \
  each(memory_map, cuMemMap, 10020, \
       Status(Address, std::size_t, std::size_t, MemoryHandle, unsigned long long)) \
  each(memory_unmap, cuMemUnmap, 10020, Status(Address, std::size_t)) \
  each(memory_set_access, cuMemSetAccess, 10020, \
       Status(Address, std::size_t, const AccessDescription*, std::size_t)) \
  each(copy_async, cuMemcpyAsync, 4000, Status(Address, Address, std::size_t, Stream)) \
  each(copy_2d_async, cuMemcpy2DAsync, 3020, Status(const Copy2D*, Stream)) \
  each(fill_async, cuMemsetD8Async, 3020, Status(Address, unsigned char, std::size_t, Stream)) \
  each(pointer_attributes, cuPointerGetAttributes, 7000, Status(unsigned, int*, void**, Address)) \
  each(stream_create, cuStreamCreateWithPriority, 5050, Status(Stream*, unsigned, int)) \
  each(stream_destroy, cuStreamDestroy, 4000, Status(Stream)) \
  each(stream_query, cuStreamQuery, 2000, Status(Stream)) \
  each(stream_synchronize, cuStreamSynchronize, 2000, Status(Stream)) \
  each(stream_wait_event, cuStreamWaitEvent, 3020, Status(Stream, Event, unsigned)) \
  each(stream_is_capturing, cuStreamIsCapturing, 10000, Status(Stream, int*)) \
  each(exchange_capture_mode, cuThreadExchangeStreamCaptureMode, 10010, Status(int*)) \
  each(event_create, cuEventCreate, 2000, Status(Event*, unsigned)) \
  each(event_destroy, cuEventDestroy, 4000, Status(Event)) \
  each(event_record, cuEventRecord, 2000, Status(Event, Stream)) \
  each(event_query, cuEventQuery, 2000, Status(Event)) \
  each(event_synchronize, cuEventSynchronize, 2000, Status(Event)) \
  each(host_allocate, cuMemHostAlloc, 2020, Status(void**, std::size_t, unsigned)) \
  each(host_free, cuMemFreeHost, 2000, Status(void*))
// clang-format on

#define MOBULA_TYPE(member, name, since, type) using name##Type = type;
MOBULA_CUDA_FUNCTIONS(MOBULA_TYPE)
#undef MOBULA_TYPE
template <class Function>
using Pointer = Function*;

}  // namespace mobula::internal::cuda_abi
