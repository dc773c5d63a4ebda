// Results that stay in their executors while other tasks need the GPU, and executors that exceed
// their share of a simulated GPU.
#include <gmock/gmock.h>

#include <filesystem>

#include "e2e/cluster.h"

namespace mobula::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

class Resident : public ClusterTest {
 protected:
  // The only lease with resident results.
  Json resident_lease() {
    Json found;
    eventually(Milliseconds(30'000), [&] {
      for (const Json& lease : list("leases").value_or(Json::array())) {
        if (lease.contains("resident")) found = lease;
      }
      return !found.is_null();
    });
    return found;
  }
};

TEST_F(Resident, ProducerAndConsumers_ShareGpuWithoutWaiting) {
  start_head({"--num-cpus", "2", "--num-gpus", "1"});
  drive({"resident_on_one_gpu"}, Milliseconds(120'000));
}

TEST_F(Resident, KeepsGpuProcessUntilResultsAreFreed) {
  start_head({"--num-cpus", "2", "--num-gpus", "1"});
  drive({"resident_until_freed"}, Milliseconds(120'000));
}

TEST_F(Resident, ListsResidentLeaseAndEvacuatesOnDemand) {
  start_head({"--num-cpus", "2", "--num-gpus", "1"});
  Process driver = start_driver({"resident_shown"});
  ASSERT_TRUE(driver.prints("resident")) << driver.err();
  const Json lease = resident_lease();
  ASSERT_FALSE(lease.is_null()) << mobula({"list", "leases", "-o", "json"}).out;
  EXPECT_EQ(lease["state"], "RESIDENT");
  EXPECT_EQ(lease["resident"]["results"], 1);
  EXPECT_EQ(lease["resident"]["bytes"], 4 << 20);
  EXPECT_GE(lease["resident"]["age_s"].get<double>(), 0.0);
  EXPECT_EQ(lease["resident"]["evacuating"], false);
  const Ended explained = mobula({"explain", R"({"num_gpus": 1})", "-o", "json"});
  const Json why = Json::parse(explained.out, nullptr, false);
  EXPECT_THAT(why.value("reason", ""),
              HasSubstr("held by result " + lease["resident"]["oldest"].get<std::string>()));
  EXPECT_EQ(why["holders"][0]["held_by"], "result");
  driver.say("go on");
  const Ended ended = driver.wait(Milliseconds(120'000));
  EXPECT_EQ(ended.code, 0) << ended.out << ended.err;
}

class SimulatedGpuBytes : public ClusterTest {
 protected:
  std::map<std::string, std::string> more_machine;
  void start_with(const Words& more, const std::string& machine = {}) {
    std::filesystem::create_directory(directory() + "/gpus");
    more_environment = {{"MOBULA_SIMULATED_GPU",
                         "directory=" + directory() +
                             "/gpus count=1 memory=1073741824 context=104857600 " + machine},
                        {"MOBULA_CUDA_LIBRARY", SIMULATED_CUDA},
                        {"MOBULA_NVML_LIBRARY", SIMULATED_NVML}};
    more_environment.insert(more_machine.begin(), more_machine.end());
    Words flags{"--num-cpus", "4", "--gpu-context-memory", "100MiB", "--gpu-watch-period", "100"};
    flags.insert(flags.end(), more.begin(), more.end());
    start_head(flags);
  }
  Json isolation() {
    const auto nodes = list("nodes");
    return nodes && nodes->size() == 1 ? (*nodes)[0]["devices"]["GPU"][0]["isolation"] : Json();
  }
};

TEST_F(SimulatedGpuBytes, ReportsIsolationDetectedAtStart) {
  start_with({"--gpu-over-share", "kill"});
  EXPECT_EQ(
      isolation(),
      Json::parse(R"({"prevents": "nothing", "detects": "per process", "detect_period_ms": 100,
                                         "reacts": "kill", "summary": "per process every 100 ms: kill"})"));
  EXPECT_THAT(mobula({"status"}).out, HasSubstr("per process"));
}

// Each node reports the library that its own programs find.
TEST_F(SimulatedGpuBytes, NamesDifferentNcclVersionsInDoctor) {
  more_machine = {{"MOBULA_NCCL_LIBRARY", SIMULATED_NCCL}};
  start_with({}, "nccl=22105");
  const auto label = [&](const std::string& node, const std::string& name) {
    const Json got =
        Json::parse(mobula({"get", "node", node_id(node), "-o", "json"}).out, nullptr, false);
    return got.is_object() ? got["labels"].value(name, "") : "";
  };
  EXPECT_EQ(label("a", "mobula.io/nvidia-nccl"), "2.21.5");
  EXPECT_NE(label("a", "mobula.io/nvidia-cuda"), "");
  EXPECT_THAT(mobula({"describe", "node", node_id("a")}).out, HasSubstr("mobula.io/nvidia-nccl"));
  EXPECT_THAT(mobula({"doctor"}).out, Not(HasSubstr("NCCL of nodes")));
  auto& machine = more_environment.at("MOBULA_SIMULATED_GPU");
  machine.replace(machine.find("nccl=22105"), 10, "nccl=22809");
  start_node("b", {"--num-cpus", "1", "--num-gpus", "1"});
  EXPECT_EQ(label("b", "mobula.io/nvidia-nccl"), "2.28.9");
  const Ended outcome = mobula({"doctor"});
  EXPECT_EQ(outcome.code, 1) << outcome.out;
  EXPECT_THAT(outcome.out, HasSubstr("NCCL of nodes"));
  EXPECT_THAT(outcome.out, HasSubstr("2.21.5 on " + node_id("a").substr(0, 8)));
  EXPECT_THAT(outcome.out, HasSubstr("2.28.9 on " + node_id("b").substr(0, 8)));
}

TEST_F(SimulatedGpuBytes, ProcessUsageHidden_LogsAndKillsNothing) {
  start_with({"--gpu-over-share", "kill"}, "hides_processes=1");
  EXPECT_EQ(isolation()["detects"], "device total");
  EXPECT_EQ(isolation()["reacts"], "log");
  Process driver = start_driver({"over_share", "4", "fine"});
  ASSERT_TRUE(driver.prints("runs"));
  EXPECT_TRUE(eventually(Milliseconds(30'000), [&] {
    for (const Json& lease : list("leases").value_or(Json::array())) {
      if (lease.contains("over_share")) return true;
    }
    return false;
  }));
  driver.say("enough");
  EXPECT_EQ(driver.wait().code, 0) << driver.err();
}

TEST_F(SimulatedGpuBytes, WatchOff_SamplesNothing) {
  start_with({"--gpu-over-share", "off"});
  EXPECT_EQ(isolation()["summary"], "promise only");
}

TEST_F(SimulatedGpuBytes, ChildrenExceedShare_FailsWithTypedError) {
  start_with({});
  EXPECT_EQ(isolation()["reacts"], "error");
  // The last context exceeds the share. Whenever the agent samples it, the total is the same.
  const std::string out = drive({"over_share", "3", "error"}, Milliseconds(120'000)).out;
  EXPECT_THAT(out, HasSubstr("greedy"));
  EXPECT_THAT(out, HasSubstr("has 300 MiB of GPU 0"));
  EXPECT_THAT(out, HasSubstr("its share is 256 MiB"));
}

TEST_F(SimulatedGpuBytes, KillPolicy_KillsAndRetriesExceedingTask) {
  start_with({"--gpu-over-share", "kill"});
  const std::string out = drive({"over_share", "4", "error"}, Milliseconds(120'000)).out;
  EXPECT_THAT(out, HasSubstr("its share is 256 MiB"));
  EXPECT_THAT(out, HasSubstr("attempt 2 was the last (max_retries)"));
}

TEST_F(SimulatedGpuBytes, SetsFrameworkMemoryVariables) {
  start_with({});
  const std::string out = drive({"framework_variables"}).out;
  EXPECT_THAT(out, HasSubstr("PYTORCH_CUDA_ALLOC_CONF part: per_process_memory_fraction:0.4023\n"));
  EXPECT_THAT(out, HasSubstr("PYTORCH_CUDA_ALLOC_CONF whole: (not set)\n"));
  EXPECT_THAT(out, HasSubstr("PYTORCH_CUDA_ALLOC_CONF own: mine\n"));
  EXPECT_THAT(out, HasSubstr("XLA_PYTHON_CLIENT_MEM_FRACTION part: 0.4023\n"));
  EXPECT_THAT(out, HasSubstr("XLA_PYTHON_CLIENT_MEM_FRACTION own: mine\n"));
}

}  // namespace
}  // namespace mobula::e2e
