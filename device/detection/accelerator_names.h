// Names of accelerator types, as used by `accelerator_type` in requests, derived from the product
// names of drivers.
// Thread: any (pure).
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mobula::internal {

inline constexpr std::string_view neuron_core_type = "aws-neuron-core";

// Name that Ray gives the product, so that Ray programs find their devices: "NVIDIA H100 80GB HBM3"
// becomes "H100". Empty for an empty product name.
std::string ray_accelerator_name(std::string_view product);

// Name that distinguishes models and memory sizes: "H100-80G", "RTX-6000-Ada",
// "A100-40G-MIG-1g.5gb". Empty if the product name contains only the vendor.
std::string precise_accelerator_name(std::string_view product);

// Both names, Ray's first; one if they are equal.
std::vector<std::string> accelerator_types_of(std::string_view product);

}  // namespace mobula::internal
