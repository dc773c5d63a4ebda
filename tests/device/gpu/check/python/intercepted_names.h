// Names of the driver functions that allocate or release device memory or report its amount. An
// enforced share has to replace them. Plain names, as cuGetProcAddress takes them.
// Thread: any. Not: versions; the driver chooses the form by the version that the caller requests.
#pragma once

namespace mobula::internal::gpu_check {

inline constexpr const char* intercepted_names[] = {
    "cuGetProcAddress",
    "cuDeviceTotalMem",
    "cuMemGetInfo",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease",
    "cuDevicePrimaryCtxReset",
    "cuCtxCreate",
    "cuCtxDestroy",
    "cuMemAlloc",
    "cuMemAllocPitch",
    "cuMemAllocManaged",
    "cuMemFree",
    "cuMemAllocAsync",
    "cuMemAllocFromPoolAsync",
    "cuMemFreeAsync",
    "cuMemPoolCreate",
    "cuMemPoolDestroy",
    "cuMemPoolTrimTo",
    "cuMemPoolSetAttribute",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemRetainAllocationHandle",
    "cuMemMap",
    "cuMemUnmap",
    "cuArrayCreate",
    "cuArray3DCreate",
    "cuArrayDestroy",
    "cuMipmappedArrayCreate",
    "cuMipmappedArrayDestroy",
    "cuGraphAddMemAllocNode",
    "cuGraphAddNode",
    "cuGraphInstantiate",
    "cuGraphLaunch",
    "cuGraphExecDestroy",
    "cuDeviceGraphMemTrim",
    "cuImportExternalMemory",
    "cuDestroyExternalMemory",
    "cuMemImportFromShareableHandle",
};

}  // namespace mobula::internal::gpu_check
