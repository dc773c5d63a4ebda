// Devices as user code sees them. The devices are logical: named at the start of the node.
#include <gmock/gmock.h>

#include <cstdlib>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

using testing::HasSubstr;

class Devices : public ClusterTest {
 protected:
  // What `mobula get node` says of the only node.
  Json node() {
    const auto nodes = list("nodes");
    return nodes && nodes->size() == 1 ? (*nodes)[0] : Json::object();
  }
};

TEST_F(Devices, AFractionalNodeGivesItsSmallerDeviceFirst) {
  start_head({"--num-cpus", "4", "--num-gpus", "1.5"});
  const std::string out = drive({"sees_devices", "GPU=0.5", "GPU=1", "none"}).out;
  EXPECT_THAT(out, HasSubstr("GPU=0.5: GPU=1 | CUDA_VISIBLE_DEVICES=1 "));
  EXPECT_THAT(out, HasSubstr("GPU=1: GPU=0 | CUDA_VISIBLE_DEVICES=0 "));
  EXPECT_THAT(out, HasSubstr("none: | CUDA_VISIBLE_DEVICES= "));
  EXPECT_EQ(node()["devices"]["GPU"][1]["total"], 0.5);
}

TEST_F(Devices, ACustomResourceMayHaveNumberedUnits) {
  start_head({"--num-cpus", "4", "--resources",
              R"({"fpga": {"total": 4, "unit": true}, "shuttle": 2})"});
  const std::string out =
      drive({"sees_devices", "fpga=0.5", "fpga=2", "fpga=0.5", "fpga=1", "shuttle=1.5"}).out;
  EXPECT_THAT(out, HasSubstr("fpga=0.5: fpga=0 |"));
  EXPECT_THAT(out, HasSubstr("fpga=2: fpga=1,2 |"));
  EXPECT_THAT(out, HasSubstr("fpga=1: fpga=3 |"));
  EXPECT_THAT(out, HasSubstr("shuttle=1.5: |"));
  EXPECT_EQ(node()["devices"]["fpga"].size(), 4u);
  EXPECT_FALSE(node()["devices"].contains("shuttle"));
}

TEST_F(Devices, TwoVendorsOnOneNodeAreMaskedApart) {
  start_head({"--num-cpus", "4", "--num-gpus", "2", "--resources", R"({"neuron_cores": 2})"});
  const std::string out = drive({"sees_devices", "GPU=1", "neuron_cores=2", "none"}).out;
  EXPECT_THAT(out, HasSubstr("GPU=1: GPU=0 | CUDA_VISIBLE_DEVICES=0 HIP_VISIBLE_DEVICES=(not set) "
                             "NEURON_RT_VISIBLE_CORES= "));
  EXPECT_THAT(out, HasSubstr("neuron_cores=2: neuron_cores=0,1 | CUDA_VISIBLE_DEVICES= "));
  EXPECT_THAT(out, HasSubstr("NEURON_RT_VISIBLE_CORES=0,1 "));
  EXPECT_EQ(node()["devices"]["neuron_cores"][0]["types"][0], "aws-neuron-core");
}

TEST_F(Devices, AmdsGpusHaveTheirOwnVariable) {
  more_environment = {{"MOBULA_GPU_VENDOR", "amd"}};
  start_head({"--num-cpus", "4", "--num-gpus", "2"});
  const std::string out = drive({"sees_devices", "GPU=1", "GPU=1", "none"}).out;
  EXPECT_THAT(out, HasSubstr("GPU=0 | CUDA_VISIBLE_DEVICES= HIP_VISIBLE_DEVICES=0 "));
  EXPECT_THAT(out, HasSubstr("GPU=1 | CUDA_VISIBLE_DEVICES= HIP_VISIBLE_DEVICES=1 "));
  EXPECT_THAT(out, HasSubstr("none: | CUDA_VISIBLE_DEVICES= HIP_VISIBLE_DEVICES=-1 "));
}

TEST_F(Devices, ACallMaySeeDevicesItWasNotGiven) {
  ::setenv("CUDA_VISIBLE_DEVICES", "5,7", 1);
  start_head({"--num-cpus", "4", "--num-gpus", "2"});
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  const std::string out = drive({"sees_devices", "GPU=1", "none", "show"}).out;
  EXPECT_THAT(out, HasSubstr("GPU=1: GPU=5 | CUDA_VISIBLE_DEVICES=5 "));
  EXPECT_THAT(out, HasSubstr("none: | CUDA_VISIBLE_DEVICES= "));
  EXPECT_THAT(out, HasSubstr("show: | CUDA_VISIBLE_DEVICES=5,7 "));
  EXPECT_EQ(node()["device_policy"]["unasked_devices"], "hidden");
}

TEST_F(Devices, ANodeMayShowThemToAllAndSaysSo) {
  more_environment = {{"MOBULA_SHOW_DEVICES", "1"}};
  start_head({"--num-cpus", "4", "--num-gpus", "2"});
  const std::string out = drive({"sees_devices", "GPU=1", "none"}).out;
  EXPECT_THAT(out, HasSubstr("GPU=1: GPU=0 | CUDA_VISIBLE_DEVICES=0 "));
  EXPECT_THAT(out, HasSubstr("none: | CUDA_VISIBLE_DEVICES=(not set) "));
  EXPECT_EQ(node()["device_policy"]["unasked_devices"], "shown");
}

TEST_F(Devices, MoreGpusThanTheVisibleListNamesAreRefusedAtTheStart) {
  ::setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
  const Ended refused = mobula({"start", "--head", "--num-gpus", "4"});
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("num_gpus=4, but CUDA_VISIBLE_DEVICES names 2 devices (0,1)"));
}

TEST_F(Devices, ANodeOffersItsAddressAndTheHeadsNodeItsMark) {
  start_head();
  start_node("b");
  const auto nodes = list("nodes");
  ASSERT_TRUE(nodes && nodes->size() == 2);
  int marks = 0;
  for (const Json& each : *nodes) {
    EXPECT_EQ(each["resources"]["node:127.0.0.1"]["total"], 1);
    marks += each["resources"].contains("node:__internal_head__") ? 1 : 0;
  }
  EXPECT_EQ(marks, 1);
}

}  // namespace
}  // namespace mobula::e2e
