// Names of the labels that a node sets itself from detected software.
// Thread: any (constants).
#pragma once

namespace mobula::internal {

inline constexpr const char* nvidia_driver_label = "mobula.io/nvidia-driver";
inline constexpr const char* nvidia_cuda_label = "mobula.io/nvidia-cuda";
inline constexpr const char* nvidia_nccl_label = "mobula.io/nvidia-nccl";

}  // namespace mobula::internal
