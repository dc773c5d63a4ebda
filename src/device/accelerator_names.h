// Names of accelerator types, as `accelerator_type` in requests speaks of them, from the product
// names that drivers report. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mobula::internal {

inline constexpr std::string_view neuron_core_type = "aws-neuron-core";

// The name that the newest Ray gives a product, so that programs written for it find their devices:
// "NVIDIA H100 80GB HBM3" is "H100". Empty for an empty product name.
std::string ray_accelerator_name(std::string_view product);

// A name that tells models and memory sizes apart: "H100-80G", "RTX-6000-Ada",
// "A100-40G-MIG-1g.5gb". Empty if the product name holds nothing but the vendor's.
std::string precise_accelerator_name(std::string_view product);

// Both, Ray's first; once if they are equal.
std::vector<std::string> accelerator_types_of(std::string_view product);

}  // namespace mobula::internal
