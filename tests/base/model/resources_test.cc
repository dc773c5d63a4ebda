#include "base/model/resources.h"

#include <gtest/gtest.h>

#include "base/model/accelerator_vendor.h"
#include "base/model/node_shape.h"
#include "base/model/reason.h"

namespace mobula::internal {
namespace {

TEST(ResourceSet, DropsZeroAmounts) {
  ResourceSet set{{"CPU", Quantity::whole(1)}};
  set.add("CPU", -Quantity::whole(1));
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set.to_string(), "nothing");
}

TEST(ResourceSet, SumsByName) {
  ResourceSet set{{"CPU", Quantity::whole(1)}};
  set.add(ResourceSet{{"GPU", Quantity::from_units(5000)}, {"CPU", Quantity::whole(2)}});
  EXPECT_EQ(set.to_string(), "CPU 3, GPU 0.5");
  EXPECT_EQ(set.get("memory"), Quantity());
}

TEST(Resources, CountsOnlyDevicesInInstances) {
  EXPECT_TRUE(is_unit_instance("GPU"));
  EXPECT_TRUE(is_unit_instance("neuron_cores"));
  EXPECT_FALSE(is_unit_instance("CPU"));
}

// Row by row: resource, mask, and whether a device can be shared.
TEST(AcceleratorVendors, FollowsTable) {
  struct Row {
    std::string_view resource, variable;
    bool fractions;
  };
  const Row expected[] = {{"GPU", "HIP_VISIBLE_DEVICES", true},
                          {"GPU", "ONEAPI_DEVICE_SELECTOR", true},
                          {"GPU", "CUDA_VISIBLE_DEVICES", true},
                          {"GPU", "CUDA_VISIBLE_DEVICES", true},
                          {"GPU", "SUPA_VISIBLE_DEVICES", true},
                          {"GPU", "MLU_VISIBLE_DEVICES", true},
                          {"neuron_cores", "NEURON_RT_VISIBLE_CORES", false},
                          {"TPU", "TPU_VISIBLE_CHIPS", false},
                          {"HPU", "HABANA_VISIBLE_MODULES", false},
                          {"NPU", "ASCEND_RT_VISIBLE_DEVICES", true},
                          {"RBLN", "RBLN_DEVICES", false},
                          {"FURIOSA", "FURIOSA_DEVICES", false},
                          {"TTNPU", "TT_VISIBLE_DEVICES", false},
                          {"MBLT", "MBLT_DEVICES", false}};
  ASSERT_EQ(vendor_rows().size(), std::size(expected));
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    const VendorRow& row = vendor_rows()[i];
    EXPECT_EQ(row.resource, expected[i].resource) << row.name;
    EXPECT_EQ(row.variable, expected[i].variable) << row.name;
    EXPECT_EQ(row.fractions, expected[i].fractions) << row.name;
    EXPECT_EQ(vendor_named(row.name), &row);
    EXPECT_EQ(vendor_of_resource(row.resource)->fractions, row.fractions) << row.name;
    EXPECT_TRUE(is_unit_instance(row.resource));
    EXPECT_TRUE(is_accelerator_variable(row.variable));
  }
  EXPECT_FALSE(is_accelerator_variable(""));
  EXPECT_FALSE(is_accelerator_variable("OMP_NUM_THREADS"));
  EXPECT_EQ(vendor_of_resource("CPU"), nullptr);
  EXPECT_EQ(vendor_named("voodoo"), nullptr);
}

TEST(NodeShape, SumsInstancesInTotal) {
  NodeShape shape;
  shape.resources = {
      {"GPU", {{Quantity::whole(1), "0", {}, 0}, {Quantity::from_units(5000), "1", {}, 0}}}};
  EXPECT_EQ(shape.total("GPU"), Quantity::from_units(15000));
  EXPECT_EQ(shape.total("CPU"), Quantity());
}

TEST(Reason, NamesResourceNeedAndRemainder) {
  const Reason busy{ReasonCode::resource_busy, "GPU", Quantity::whole(2), Quantity::whole(1), {}};
  EXPECT_EQ(to_string(busy), "GPU: needs 2, 1 free");
  Reason parts = busy;
  parts.detail = "free 1.5 on 2 devices: 1, 0.5";
  EXPECT_EQ(to_string(parts), "GPU: needs 2 whole, free 1.5 on 2 devices: 1, 0.5");
  parts.needed = Quantity::from_units(7500);
  EXPECT_EQ(to_string(parts), "GPU: needs 0.75 of one device, free 1.5 on 2 devices: 1, 0.5");
  const Reason absent{ReasonCode::resource_absent, "TPU", Quantity::whole(1), {}, {}};
  EXPECT_EQ(to_string(absent), "TPU: needs 1, the node has none");
}

NodeReason refusal(std::uint64_t node, ReasonCode code, const std::string& what) {
  return {NodeId::of(node), Reason{code, what, {}, {}, {}}};
}

TEST(MissingResource, NamesTheOneThatMostNodesLack) {
  EXPECT_EQ(missing_resource({refusal(1, ReasonCode::resource_absent, "GPU"),
                              refusal(2, ReasonCode::resource_too_small, "CPU"),
                              refusal(3, ReasonCode::resource_too_small, "CPU")}),
            "CPU");
  EXPECT_EQ(missing_resource({refusal(1, ReasonCode::instance_too_small, "GPU"),
                              refusal(2, ReasonCode::resource_too_small, "CPU")}),
            "GPU");
}

TEST(MissingResource, HasTheNameThatRequestsUse) {
  EXPECT_EQ(missing_resource({refusal(1, ReasonCode::accelerator_type_absent, "H100")}),
            "accelerator_type:H100");
  EXPECT_EQ(missing_resource({refusal(1, ReasonCode::gpu_memory_too_small, "")}), "gpu_memory");
  EXPECT_EQ(missing_resource({refusal(0, ReasonCode::over_quota, "shuttle")}), "shuttle");
}

TEST(MissingResource, StaysEmptyWhenNoneIsTheReason) {
  EXPECT_EQ(missing_resource({}), "");
  EXPECT_EQ(missing_resource({refusal(1, ReasonCode::label_mismatch, "zone"),
                              refusal(2, ReasonCode::other_node_demanded, "abc"),
                              refusal(3, ReasonCode::resource_busy, "CPU"),
                              refusal(4, ReasonCode::node_dead, "")}),
            "");
}

}  // namespace
}  // namespace mobula::internal
