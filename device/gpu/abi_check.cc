// Compares our own prototypes with the official headers, if these are installed; otherwise empty.
#include <type_traits>

#include "device/detection/nvml_abi.h"
#include "device/gpu/cuda_abi.h"
#include "device/gpu/nccl_abi.h"

#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#if defined(CUDA_VERSION) && __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wshadow"
#include <nccl.h>
#pragma GCC diagnostic pop
#endif
#if __has_include(<nvml.h>)
#include <nvml.h>
#endif

namespace mobula::internal {

#if defined(CUDA_VERSION) || defined(NCCL_VERSION_CODE)
namespace {

// True for types that are passed in the same way: two pointers with equal constness of the target,
// two numbers of one size, or two structures of one size.
template <class A, class B>
constexpr bool alike_values() {
  if constexpr (std::is_void_v<A> || std::is_void_v<B>) {
    return std::is_void_v<A> && std::is_void_v<B>;
  } else if constexpr (std::is_pointer_v<A> && std::is_pointer_v<B>) {
    return std::is_const_v<std::remove_pointer_t<A>> == std::is_const_v<std::remove_pointer_t<B>>;
  } else {
    return sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
           std::is_class_v<A> == std::is_class_v<B>;
  }
}

template <class A, class B>
struct Alike : std::false_type {};
template <class A, class... As, class B, class... Bs>
requires(sizeof...(As) == sizeof...(Bs)) struct Alike<A(As...), B(Bs...)>
    : std::bool_constant<alike_values<A, B>() && (alike_values<As, Bs>() && ...)> {
};

}  // namespace
#endif

#ifdef CUDA_VERSION
namespace cuda_abi {
#if CUDA_VERSION >= 12000
#define MOBULA_CHECK_FUNCTION(member, name, since, type) \
  static_assert(Alike<type, std::remove_pointer_t<decltype(&::name)>>::value, #name);
MOBULA_CUDA_FUNCTIONS(MOBULA_CHECK_FUNCTION)
#undef MOBULA_CHECK_FUNCTION
#endif
static_assert(sizeof(Uuid) == sizeof(CUuuid) && sizeof(Location) == sizeof(CUmemLocation));
static_assert(sizeof(AllocationProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(AllocationProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(offsetof(AllocationProperties, flags) == offsetof(CUmemAllocationProp, allocFlags));
static_assert(offsetof(AllocationProperties, handle_types) ==
              offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(sizeof(AccessDescription) == sizeof(CUmemAccessDesc));
static_assert(offsetof(AccessDescription, flags) == offsetof(CUmemAccessDesc, flags));
static_assert(sizeof(Copy2D) == sizeof(CUDA_MEMCPY2D));
static_assert(offsetof(Copy2D, source_device) == offsetof(CUDA_MEMCPY2D, srcDevice));
static_assert(offsetof(Copy2D, target_type) == offsetof(CUDA_MEMCPY2D, dstMemoryType));
static_assert(offsetof(Copy2D, target_device) == offsetof(CUDA_MEMCPY2D, dstDevice));
static_assert(offsetof(Copy2D, width_bytes) == offsetof(CUDA_MEMCPY2D, WidthInBytes));
static_assert(success == CUDA_SUCCESS && invalid_value == CUDA_ERROR_INVALID_VALUE);
static_assert(out_of_memory == CUDA_ERROR_OUT_OF_MEMORY &&
              not_initialized == CUDA_ERROR_NOT_INITIALIZED);
static_assert(no_device == CUDA_ERROR_NO_DEVICE && invalid_device == CUDA_ERROR_INVALID_DEVICE);
static_assert(invalid_context == CUDA_ERROR_INVALID_CONTEXT &&
              invalid_handle == CUDA_ERROR_INVALID_HANDLE);
static_assert(not_found == CUDA_ERROR_NOT_FOUND && not_ready == CUDA_ERROR_NOT_READY);
static_assert(illegal_address == CUDA_ERROR_ILLEGAL_ADDRESS &&
              launch_failed == CUDA_ERROR_LAUNCH_FAILED);
static_assert(not_permitted == CUDA_ERROR_NOT_PERMITTED &&
              not_supported == CUDA_ERROR_NOT_SUPPORTED);
static_assert(stream_capture_unsupported == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
              stream_capture_implicit == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
static_assert(unknown == CUDA_ERROR_UNKNOWN);
static_assert(location_device == CU_MEM_LOCATION_TYPE_DEVICE &&
              allocation_pinned == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(handle_posix_fd == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(granularity_minimum == CU_MEM_ALLOC_GRANULARITY_MINIMUM);
static_assert(access_read == CU_MEM_ACCESS_FLAGS_PROT_READ &&
              access_read_write == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
static_assert(memory_host == CU_MEMORYTYPE_HOST && memory_device == CU_MEMORYTYPE_DEVICE);
static_assert(memory_unified == CU_MEMORYTYPE_UNIFIED);
static_assert(attribute_unified_addressing == CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING);
static_assert(attribute_compute_capability_major == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(attribute_virtual_memory == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
static_assert(attribute_posix_fd_handles ==
              CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
static_assert(pointer_memory_type == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(pointer_is_managed == CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(pointer_device_ordinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(stream_non_blocking == CU_STREAM_NON_BLOCKING &&
              event_no_timing == CU_EVENT_DISABLE_TIMING);
static_assert(host_portable == CU_MEMHOSTALLOC_PORTABLE);
static_assert(capture_none == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(capture_mode_relaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
}  // namespace cuda_abi
#endif

#ifdef NCCL_VERSION_CODE
namespace nccl_abi {
#define MOBULA_CHECK_FUNCTION(member, name, type) \
  static_assert(Alike<type, std::remove_pointer_t<decltype(&::name)>>::value, #name);
MOBULA_NCCL_FUNCTIONS(MOBULA_CHECK_FUNCTION)
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 28, 9)
MOBULA_NCCL_NEWER_FUNCTIONS(MOBULA_CHECK_FUNCTION)
#endif
#undef MOBULA_CHECK_FUNCTION
// The official prototypes have enumeration types where ours have int, which confirms the order of
// the arguments.
static_assert(
    std::is_same_v<decltype(::ncclSend), ncclResult_t(const void*, std::size_t, ncclDataType_t, int,
                                                      ncclComm_t, cudaStream_t)>);
static_assert(std::is_same_v<decltype(::ncclRecv), ncclResult_t(void*, std::size_t, ncclDataType_t,
                                                                int, ncclComm_t, cudaStream_t)>);
static_assert(std::is_same_v<decltype(::ncclBroadcast),
                             ncclResult_t(const void*, void*, std::size_t, ncclDataType_t, int,
                                          ncclComm_t, cudaStream_t)>);
static_assert(std::is_same_v<decltype(::ncclAllReduce),
                             ncclResult_t(const void*, void*, std::size_t, ncclDataType_t,
                                          ncclRedOp_t, ncclComm_t, cudaStream_t)>);
static_assert(std::is_same_v<decltype(::ncclReduce),
                             ncclResult_t(const void*, void*, std::size_t, ncclDataType_t,
                                          ncclRedOp_t, int, ncclComm_t, cudaStream_t)>);
static_assert(std::is_same_v<decltype(::ncclAllGather),
                             ncclResult_t(const void*, void*, std::size_t, ncclDataType_t,
                                          ncclComm_t, cudaStream_t)>);
static_assert(std::is_same_v<decltype(::ncclReduceScatter),
                             ncclResult_t(const void*, void*, std::size_t, ncclDataType_t,
                                          ncclRedOp_t, ncclComm_t, cudaStream_t)>);
static_assert(std::is_same_v<decltype(::ncclCommInitRankConfig),
                             ncclResult_t(ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*)>);
static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(sizeof(Config) <= sizeof(ncclConfig_t));
static_assert(offsetof(Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(Config, max_ctas) == offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(Config, name) == offsetof(ncclConfig_t, commName));
static_assert(offsetof(Config, nvlink_centric_sched) == offsetof(ncclConfig_t, nvlinkCentricSched));
static_assert(success == ncclSuccess && unhandled_cuda_error == ncclUnhandledCudaError);
static_assert(system_error == ncclSystemError && internal_error == ncclInternalError);
static_assert(invalid_argument == ncclInvalidArgument && invalid_usage == ncclInvalidUsage);
static_assert(remote_error == ncclRemoteError && in_progress == ncclInProgress);
static_assert(type_int8 == ncclInt8 && type_int32 == ncclInt32 && type_uint32 == ncclUint32);
static_assert(type_int64 == ncclInt64 && type_uint64 == ncclUint64 && type_float16 == ncclFloat16);
static_assert(type_float32 == ncclFloat32 && type_float64 == ncclFloat64 &&
              type_bfloat16 == ncclBfloat16);
static_assert(op_sum == ncclSum && op_product == ncclProd && op_max == ncclMax &&
              op_min == ncclMin && op_average == ncclAvg);
static_assert(type_bytes == ncclUint8 && undefined == NCCL_CONFIG_UNDEF_INT);
static_assert(version(NCCL_MAJOR, NCCL_MINOR, NCCL_PATCH) == NCCL_VERSION_CODE);
}  // namespace nccl_abi
#endif

#if __has_include(<nvml.h>)
namespace nvml_abi {
static_assert(sizeof(nvmlMemory_t) == sizeof(Memory) && sizeof(nvmlPciInfo_t) == sizeof(PciInfo));
static_assert(NVML_ERROR_NOT_SUPPORTED == not_supported && NVML_ERROR_NOT_FOUND == not_found);
static_assert(NVML_ERROR_INSUFFICIENT_SIZE == insufficient_size && NVML_P2P_STATUS_OK == p2p_ok);
static_assert(sizeof(nvmlProcessInfo_t) == sizeof(Process));
static_assert(NVML_ERROR_INVALID_ARGUMENT == invalid_argument);
static_assert(NVML_NVLINK_MAX_LINKS <= most_links && NVML_FEATURE_ENABLED == link_active);
static_assert(NVML_NVLINK_DEVICE_TYPE_GPU == link_to_gpu &&
              NVML_NVLINK_DEVICE_TYPE_SWITCH == link_to_switch);
}  // namespace nvml_abi
#endif

}  // namespace mobula::internal
