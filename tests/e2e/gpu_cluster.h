// A cluster of real processes on a machine with simulated GPUs.
// Thread: the test thread.
#pragma once

#include <string>

#include "e2e/cluster.h"
#include "simulated_gpu/machine.h"

namespace mobula::e2e {

class GpuClusterTest : public ClusterTest {
 protected:
  // Gives every process the same machine, with `count` GPUs of 4 GiB.
  void have_gpus(int count, const std::string& words = {}) {
    more_environment["MOBULA_SIMULATED_GPU"] =
        machine_.environment("count=" + std::to_string(count) + " memory=4294967296 " + words);
    more_environment["MOBULA_CUDA_LIBRARY"] = SIMULATED_CUDA;
    more_environment["MOBULA_NCCL_LIBRARY"] = SIMULATED_NCCL;
    more_environment["MOBULA_NVML_LIBRARY"] = SIMULATED_NVML;
  }
  void start_with_gpus(int count, const std::string& words = {}) {
    have_gpus(count, words);
    start_head({"--num-cpus", "4"});
  }
  // GPUs without peer access, on a machine without NCCL.
  void start_without_ways() {
    have_gpus(2, "peers=none");
    more_environment["MOBULA_NCCL_LIBRARY"] = "libno-such-nccl.so";
    start_head({"--num-cpus", "4"});
  }

  internal::SimulatedMachine machine_;
};

}  // namespace mobula::e2e
