// Names of accelerator types, for the `accelerator_type` field of options.
// Thread: any.
// Not: a complete list. Options accept any name that a node reports, as text.
#pragma once

namespace mobula::accelerators {

// NVIDIA Tesla V100.
inline constexpr const char* NVIDIA_TESLA_V100 = "V100";
// NVIDIA Tesla P100.
inline constexpr const char* NVIDIA_TESLA_P100 = "P100";
// NVIDIA Tesla T4.
inline constexpr const char* NVIDIA_TESLA_T4 = "T4";
// NVIDIA Tesla P4.
inline constexpr const char* NVIDIA_TESLA_P4 = "P4";
// NVIDIA Tesla K80.
inline constexpr const char* NVIDIA_TESLA_K80 = "K80";
// NVIDIA A10G.
inline constexpr const char* NVIDIA_TESLA_A10G = "A10G";
// NVIDIA L4.
inline constexpr const char* NVIDIA_L4 = "L4";
// NVIDIA L40S.
inline constexpr const char* NVIDIA_L40S = "L40S";
// NVIDIA A100 of any memory size.
inline constexpr const char* NVIDIA_A100 = "A100";
// NVIDIA H100.
inline constexpr const char* NVIDIA_H100 = "H100";
// NVIDIA H200.
inline constexpr const char* NVIDIA_H200 = "H200";
// NVIDIA H20.
inline constexpr const char* NVIDIA_H20 = "H20";
// NVIDIA B200.
inline constexpr const char* NVIDIA_B200 = "B200";
// NVIDIA A100 with 40 GB. Such nodes report this name and `NVIDIA_A100`.
// detect `NVIDIA_A100`.
inline constexpr const char* NVIDIA_A100_40G = "A100-40G";
// NVIDIA A100 with 80 GB; see `NVIDIA_A100_40G`.
inline constexpr const char* NVIDIA_A100_80G = "A100-80G";

// Intel Data Center GPU Max 1550.
inline constexpr const char* INTEL_GPU_MAX_1550 = "Intel-GPU-Max-1550";
// Intel Data Center GPU Max 1100.
inline constexpr const char* INTEL_GPU_MAX_1100 = "Intel-GPU-Max-1100";
// Intel Gaudi.
inline constexpr const char* INTEL_GAUDI = "Intel-GAUDI";

// AMD Instinct MI100.
inline constexpr const char* AMD_INSTINCT_MI100 = "AMD-Instinct-MI100";
// AMD Instinct MI250X.
inline constexpr const char* AMD_INSTINCT_MI250X = "AMD-Instinct-MI250X";
// AMD Instinct MI250X or MI250.
inline constexpr const char* AMD_INSTINCT_MI250X_MI250 = "AMD-Instinct-MI250X-MI250";
// AMD Instinct MI210.
inline constexpr const char* AMD_INSTINCT_MI210 = "AMD-Instinct-MI210";
// AMD Instinct MI300A.
inline constexpr const char* AMD_INSTINCT_MI300A = "AMD-Instinct-MI300A";
// AMD Instinct MI300X OAM.
inline constexpr const char* AMD_INSTINCT_MI300X_OAM = "AMD-Instinct-MI300X-OAM";
// AMD Instinct MI300X HF.
inline constexpr const char* AMD_INSTINCT_MI300X_HF = "AMD-Instinct-MI300X-HF";
// AMD Instinct MI308X.
inline constexpr const char* AMD_INSTINCT_MI308X = "AMD-Instinct-MI308X";
// AMD Instinct MI325X OAM.
inline constexpr const char* AMD_INSTINCT_MI325X_OAM = "AMD-Instinct-MI325X-OAM";
// AMD Radeon R9 200 and HD 7900 series.
inline constexpr const char* AMD_RADEON_R9_200_HD_7900 = "AMD-Radeon-R9-200-HD-7900";
// AMD Radeon HD 7900 series.
inline constexpr const char* AMD_RADEON_HD_7900 = "AMD-Radeon-HD-7900";

// Ray's spelling of `INTEL_GPU_MAX_1550`.
inline constexpr const char* INTEL_MAX_1550 = INTEL_GPU_MAX_1550;
// Ray's spelling of `INTEL_GPU_MAX_1100`.
inline constexpr const char* INTEL_MAX_1100 = INTEL_GPU_MAX_1100;
// Ray's spelling of `AMD_INSTINCT_MI250X`.
inline constexpr const char* AMD_INSTINCT_MI250x = AMD_INSTINCT_MI250X;
// Ray's spelling of `AMD_INSTINCT_MI250X_MI250`.
inline constexpr const char* AMD_INSTINCT_MI250 = AMD_INSTINCT_MI250X_MI250;
// Ray's spelling of `AMD_INSTINCT_MI300X_OAM`.
inline constexpr const char* AMD_INSTINCT_MI300x = AMD_INSTINCT_MI300X_OAM;
// Ray's spelling of `AMD_INSTINCT_MI300X_HF`.
inline constexpr const char* AMD_INSTINCT_MI300x_HF = AMD_INSTINCT_MI300X_HF;
// Ray's spelling of `AMD_INSTINCT_MI308X`.
inline constexpr const char* AMD_INSTINCT_MI308x = AMD_INSTINCT_MI308X;
// Ray's spelling of `AMD_INSTINCT_MI325X_OAM`.
inline constexpr const char* AMD_INSTINCT_MI325x = AMD_INSTINCT_MI325X_OAM;

// AWS Neuron core.
inline constexpr const char* AWS_NEURON_CORE = "aws-neuron-core";
// Google TPU v2.
inline constexpr const char* GOOGLE_TPU_V2 = "TPU-V2";
// Google TPU v3.
inline constexpr const char* GOOGLE_TPU_V3 = "TPU-V3";
// Google TPU v4.
inline constexpr const char* GOOGLE_TPU_V4 = "TPU-V4";
// Google TPU v5p.
inline constexpr const char* GOOGLE_TPU_V5P = "TPU-V5P";
// Google TPU v5e (lite pod).
inline constexpr const char* GOOGLE_TPU_V5LITEPOD = "TPU-V5LITEPOD";
// Google TPU v6e.
inline constexpr const char* GOOGLE_TPU_V6E = "TPU-V6E";
// Huawei Ascend 910B.
inline constexpr const char* HUAWEI_NPU_910B = "Ascend910B";
// Huawei Ascend 910B4.
inline constexpr const char* HUAWEI_NPU_910B4 = "Ascend910B4";

}  // namespace mobula::accelerators
