// Devices as user code sees them. The devices are logical: flags at the start of the node name
// them.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

using testing::HasSubstr;

class Devices : public ClusterTest {
 protected:
  // Returns the output of `mobula get node` for the only node.
  Json node() {
    const auto nodes = list("nodes");
    return nodes && nodes->size() == 1 ? (*nodes)[0] : Json::object();
  }
};

TEST_F(Devices, FractionalNode_AllocatesSmallerDeviceFirst) {
  start_head({"--num-cpus", "4", "--num-gpus", "1.5"});
  const std::string out = drive({"sees_devices", "GPU=0.5", "GPU=1", "none"}).out;
  EXPECT_THAT(out, HasSubstr("GPU=0.5: GPU=1 | CUDA_VISIBLE_DEVICES=1 "));
  EXPECT_THAT(out, HasSubstr("GPU=1: GPU=0 | CUDA_VISIBLE_DEVICES=0 "));
  EXPECT_THAT(out, HasSubstr("none: | CUDA_VISIBLE_DEVICES= "));
  EXPECT_EQ(node()["devices"]["GPU"][1]["total"], 0.5);
}

TEST_F(Devices, NumbersUnitsOfCustomResource) {
  start_head(
      {"--num-cpus", "4", "--resources", R"({"fpga": {"total": 4, "unit": true}, "shuttle": 2})"});
  const std::string out =
      drive({"sees_devices", "fpga=0.5", "fpga=2", "fpga=0.5", "fpga=1", "shuttle=1.5"}).out;
  EXPECT_THAT(out, HasSubstr("fpga=0.5: fpga=0 |"));
  EXPECT_THAT(out, HasSubstr("fpga=2: fpga=1,2 |"));
  EXPECT_THAT(out, HasSubstr("fpga=1: fpga=3 |"));
  EXPECT_THAT(out, HasSubstr("shuttle=1.5: |"));
  EXPECT_EQ(node()["devices"]["fpga"].size(), 4u);
  EXPECT_FALSE(node()["devices"].contains("shuttle"));
}

TEST_F(Devices, MasksTwoVendorsSeparately) {
  start_head({"--num-cpus", "4", "--num-gpus", "2", "--resources", R"({"neuron_cores": 2})"});
  const std::string out = drive({"sees_devices", "GPU=1", "neuron_cores=2", "none"}).out;
  EXPECT_THAT(out, HasSubstr("GPU=1: GPU=0 | CUDA_VISIBLE_DEVICES=0 HIP_VISIBLE_DEVICES=(not set) "
                             "NEURON_RT_VISIBLE_CORES= "));
  EXPECT_THAT(out, HasSubstr("neuron_cores=2: neuron_cores=0,1 | CUDA_VISIBLE_DEVICES= "));
  EXPECT_THAT(out, HasSubstr("NEURON_RT_VISIBLE_CORES=0,1 "));
  EXPECT_EQ(node()["devices"]["neuron_cores"][0]["types"][0], "aws-neuron-core");
}

TEST_F(Devices, SetsAmdVariableForAmdGpus) {
  more_environment = {{"MOBULA_GPU_VENDOR", "amd"}};
  start_head({"--num-cpus", "4", "--num-gpus", "2"});
  const std::string out = drive({"sees_devices", "GPU=1", "GPU=1", "none"}).out;
  EXPECT_THAT(out, HasSubstr("GPU=0 | CUDA_VISIBLE_DEVICES= HIP_VISIBLE_DEVICES=0 "));
  EXPECT_THAT(out, HasSubstr("GPU=1 | CUDA_VISIBLE_DEVICES= HIP_VISIBLE_DEVICES=1 "));
  EXPECT_THAT(out, HasSubstr("none: | CUDA_VISIBLE_DEVICES= HIP_VISIBLE_DEVICES=-1 "));
}

TEST_F(Devices, ShowsUnallocatedDevicesWhenRequested) {
  ::setenv("CUDA_VISIBLE_DEVICES", "5,7", 1);
  start_head({"--num-cpus", "4", "--num-gpus", "2"});
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  const std::string out = drive({"sees_devices", "GPU=1", "none", "show"}).out;
  EXPECT_THAT(out, HasSubstr("GPU=1: GPU=5 | CUDA_VISIBLE_DEVICES=5 "));
  EXPECT_THAT(out, HasSubstr("none: | CUDA_VISIBLE_DEVICES= "));
  EXPECT_THAT(out, HasSubstr("show: | CUDA_VISIBLE_DEVICES=5,7 "));
  EXPECT_EQ(node()["device_policy"]["unasked_devices"], "hidden");
}

// The agent loads the tests' own NVML, which reports `lines`.
class SimulatedNvml : public Devices {
 protected:
  void start_head_with(const std::string& lines, Words flags = {"--num-cpus", "4"}) {
    std::filesystem::create_directory(directory() + "/lib");
    std::filesystem::create_symlink(FAKE_NVML, directory() + "/lib/libnvidia-ml.so.1");
    std::ofstream(directory() + "/nvml") << lines;
    more_environment = {{"LD_LIBRARY_PATH", directory() + "/lib"},
                        {"FAKE_NVML_FILE", directory() + "/nvml"}};
    start_head(std::move(flags));
  }
};

TEST_F(SimulatedNvml, SliceEnforcesMemory_WholeGpuDoesNot) {
  start_head_with(
      "gpu|NVIDIA A100-SXM4-40GB|GPU-aa|42949672960|0:1|1\n"
      "slice|NVIDIA A100-SXM4-40GB MIG 1g.5gb|MIG-1|5368709120\n"
      "gpu|NVIDIA A100-SXM4-40GB|GPU-bb|42949672960|0:2|0\n");
  const Json devices = node()["devices"]["GPU"];
  ASSERT_EQ(devices.size(), 2u);
  EXPECT_EQ(devices[0]["isolation"]["prevents"], "MIG");
  EXPECT_EQ(
      devices[1]["isolation"],
      Json::parse(R"({"prevents": "nothing", "detects": "device total", "detect_period_ms": 1000,
                            "reacts": "log", "summary": "device total every 1000 ms: log"})"))
      << "the device has no driver that attributes memory to processes";
  EXPECT_EQ(devices[1]["context_bytes"], 640 << 20);
  EXPECT_THAT(mobula({"status"}).out, HasSubstr("device total every 1000 ms: log"));

  Process driver = start_driver({"holds_devices"});
  driver.say("ask 0.5");
  ASSERT_TRUE(driver.prints("\n0 has the id "));
  driver.say("ask 1");
  ASSERT_TRUE(driver.prints("\n1 has the id "));
  std::map<std::string, std::string> summaries;
  EXPECT_TRUE(eventually(Milliseconds(20'000), [&] {
    for (const Json& lease : list("leases").value_or(Json::array())) {
      if (!lease["devices"].contains("GPU")) continue;
      const Json& held = lease["devices"]["GPU"][0];
      summaries[held["id"]] = lease["isolation"];
    }
    return summaries.size() == 2;
  }));
  EXPECT_EQ(summaries["MIG-1"], "promise only") << "half of it";
  EXPECT_EQ(summaries["1"], "device total every 1000 ms: log");
  driver.say("");
  EXPECT_EQ(driver.wait().code, 0) << driver.err();
}

TEST_F(SimulatedNvml, ReservesGpuMemoryForContext) {
  start_head_with("gpu|NVIDIA L4|GPU-aa|25769803776|0:1|0\n",
                  {"--num-cpus", "4", "--gpu-context-memory", "1GiB"});
  const auto explained = [&](const std::string& request) {
    return Json::parse(mobula({"explain", request, "-o", "json"}).out, nullptr, false)["items"][0];
  };
  EXPECT_EQ(explained(R"({"gpu_memory": 24696061952})")["code"], "Fits") << "23 GiB";
  const Json refused = explained(R"({"gpu_memory": 24696061953})");
  EXPECT_EQ(refused["code"], "GpuMemoryTooSmall");
  EXPECT_EQ(refused["available"], 24696061952);
}

TEST_F(Devices, ShowsAllDevicesWhenNodeAllows) {
  more_environment = {{"MOBULA_SHOW_DEVICES", "1"}};
  start_head({"--num-cpus", "4", "--num-gpus", "2"});
  const std::string out = drive({"sees_devices", "GPU=1", "none"}).out;
  EXPECT_THAT(out, HasSubstr("GPU=1: GPU=0 | CUDA_VISIBLE_DEVICES=0 "));
  EXPECT_THAT(out, HasSubstr("none: | CUDA_VISIBLE_DEVICES=(not set) "));
  EXPECT_EQ(node()["device_policy"]["unasked_devices"], "shown");
}

TEST_F(Devices, RejectsMoreGpusThanVisibleDevices) {
  ::setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
  const Ended refused = mobula({"start", "--head", "--num-gpus", "4"});
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("num_gpus=4, but CUDA_VISIBLE_DEVICES names 2 devices (0,1)"));
}

TEST_F(Devices, OffersAddressResourceAndHeadNodeResource) {
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
