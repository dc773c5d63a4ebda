#include "device/detection/accelerator_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mobula::internal {
namespace {

struct Product {
  std::string name;
  std::string ray;
  std::string precise;
};

class AcceleratorNames : public testing::TestWithParam<Product> {};

TEST_P(AcceleratorNames, FollowsTable) {
  EXPECT_EQ(ray_accelerator_name(GetParam().name), GetParam().ray);
  EXPECT_EQ(precise_accelerator_name(GetParam().name), GetParam().precise);
}

INSTANTIATE_TEST_SUITE_P(
    Products, AcceleratorNames,
    testing::Values(
        Product{"Tesla V100-SXM2-16GB", "V100", "V100-16G"},
        Product{"NVIDIA A100-SXM4-40GB", "A100", "A100-40G"},
        Product{"NVIDIA A100 80GB PCIe", "A100", "A100-80G"},
        Product{"A100-PCIE-40GB", "A100-PCIE-40GB", "A100-40G"},
        Product{"NVIDIA H100 80GB HBM3", "H100", "H100-80G"},
        Product{"NVIDIA H100 NVL", "H100", "H100-NVL"}, Product{"NVIDIA H200", "H200", "H200"},
        Product{"NVIDIA GH200 480GB", "GH200", "GH200-480G"},
        Product{"NVIDIA L40S", "L40S", "L40S"},
        Product{"NVIDIA GeForce RTX 3090", "GeForce-RTX-3090", "RTX-3090"},
        Product{"GeForce GTX 1080 Ti", "GTX-1080", "GTX-1080-Ti"},
        Product{"NVIDIA RTX A6000", "RTX-A6000", "RTX-A6000"},
        Product{"NVIDIA RTX 6000 Ada Generation", "RTX-6000", "RTX-6000-Ada"},
        Product{"Quadro RTX 6000", "RTX-6000", "Quadro-RTX-6000"},
        Product{"Quadro P4000", "P4000", "Quadro-P4000"},
        Product{"NVIDIA TITAN V", "TITAN-V", "TITAN-V"},
        Product{"NVIDIA A100-PCIE-40GB", "A100", "A100-40G"}, Product{"Tesla K80", "K80", "K80"},
        Product{"Tesla P4", "P4", "P4"}, Product{"Tesla P100-PCIE-16GB", "P100", "P100-16G"},
        Product{"NVIDIA H20", "H20", "H20"}, Product{"NVIDIA B200", "B200", "B200"},
        Product{"NVIDIA GB200", "GB200", "GB200"},
        Product{"NVIDIA Graphics Device", "Graphics-Device", "Graphics-Device"},
        Product{"NVIDIA", "NVIDIA", ""}, Product{"", "", ""},
        Product{"NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100", "A100-40G-MIG-1g.5gb"},
        Product{"NVIDIA H100 80GB HBM3e MIG 1g.10gb+me", "H100", "H100-80G-MIG-1g.10gb+me"},
        Product{"Tesla T4", "T4", "T4"}, Product{"NVIDIA A10G", "A10G", "A10G"}));

TEST(AcceleratorTypes, AdvertisesEqualNamesOnce) {
  EXPECT_THAT(accelerator_types_of("NVIDIA H100 80GB HBM3"),
              testing::ElementsAre("H100", "H100-80G"));
  EXPECT_THAT(accelerator_types_of("NVIDIA H200"), testing::ElementsAre("H200"));
  EXPECT_THAT(accelerator_types_of("NVIDIA"), testing::ElementsAre("NVIDIA"));
  EXPECT_THAT(accelerator_types_of(""), testing::IsEmpty());
}

}  // namespace
}  // namespace mobula::internal
