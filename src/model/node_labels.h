// Labels that a node gives itself, by what it finds, and what others read there.
#pragma once

namespace mobula::internal {

inline constexpr const char* nvidia_driver_label = "mobula.io/nvidia-driver";
inline constexpr const char* nvidia_cuda_label = "mobula.io/nvidia-cuda";
inline constexpr const char* nvidia_nccl_label = "mobula.io/nvidia-nccl";

}  // namespace mobula::internal
