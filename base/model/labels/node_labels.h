// Names of the labels that a node sets itself from detected software, and of the label with the
// name of an autoscaler's instance.
// Thread: any (constants).
#pragma once

namespace mobula::internal {

inline constexpr const char* nvidia_driver_label = "mobula.io/nvidia-driver";
inline constexpr const char* nvidia_cuda_label = "mobula.io/nvidia-cuda";
inline constexpr const char* nvidia_nccl_label = "mobula.io/nvidia-nccl";
inline constexpr const char* instance_label = "mobula.io/instance";

}  // namespace mobula::internal
