#include "model/resources.h"

#include <gtest/gtest.h>

#include "model/node_shape.h"
#include "model/reason.h"

namespace mobula::internal {
namespace {

TEST(ResourceSet, ZeroAmountsAreDropped) {
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

TEST(Resources, OnlyDevicesAreCountedInInstances) {
  EXPECT_TRUE(is_unit_instance("GPU"));
  EXPECT_TRUE(is_unit_instance("neuron_cores"));
  EXPECT_FALSE(is_unit_instance("CPU"));
  EXPECT_TRUE(allows_fractions("GPU"));
  EXPECT_FALSE(allows_fractions("neuron_cores"));
}

TEST(NodeShape, TotalSumsInstances) {
  NodeShape shape;
  shape.resources = {{"GPU", {{Quantity::whole(1), "0", {}, 0},
                              {Quantity::from_units(5000), "1", {}, 0}}}};
  EXPECT_EQ(shape.total("GPU"), Quantity::from_units(15000));
  EXPECT_EQ(shape.total("CPU"), Quantity());
}

TEST(Reason, SentenceNamesResourceNeedAndRest) {
  const Reason busy{ReasonCode::resource_busy, "GPU", Quantity::whole(2), Quantity::whole(1), {}};
  EXPECT_EQ(to_string(busy), "GPU: needs 2, 1 free");
  EXPECT_FALSE(busy.permanent());
  const Reason absent{ReasonCode::resource_absent, "TPU", Quantity::whole(1), {}, {}};
  EXPECT_EQ(to_string(absent), "TPU: needs 1, the node has none");
  EXPECT_TRUE(absent.permanent());
}

}  // namespace
}  // namespace mobula::internal
