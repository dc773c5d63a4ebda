// Tensors in the memory of GPUs, between real processes on simulated ones.
#include <gmock/gmock.h>

#include "e2e/cluster.h"
#include "simulated_gpu/machine.h"

namespace mobula::e2e {
namespace {

using testing::HasSubstr;

class DeviceTensors : public ClusterTest {
 protected:
  // Every process is one of a machine with so many GPUs of 4 GiB.
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

  internal::SimulatedMachine machine_;
};

TEST_F(DeviceTensors, LieInValuesAndComeOutWhereTheyBelong) {
  start_with_gpus(2);
  drive({"gpu_values"}, Milliseconds(120'000));
}

TEST_F(DeviceTensors, GoFromGpuToGpu) {
  start_with_gpus(2);
  drive({"gpu_tensors", "cuda_ipc"}, Milliseconds(120'000));
}

TEST_F(DeviceTensors, OfTasksAreThereWhenTheirProcessHasLeft) {
  start_with_gpus(1);
  drive({"gpu_tasks"}, Milliseconds(120'000));
}

TEST_F(DeviceTensors, GoByWayOfTheHostWhereGpusDoNotReachEachOther) {
  start_with_gpus(2, "peers=none");
  more_environment["MOBULA_NCCL_LIBRARY"] = "libno-such-nccl.so";
  drive({"gpu_paths", "shm", "tcp", "not", "cuda_ipc"}, Milliseconds(120'000));
}

TEST_F(DeviceTensors, GoByTheNamedTransportAlone) {
  start_with_gpus(2);
  drive({"gpu_paths", "nccl", "cuda_ipc", "shm", "tcp", "not", "gloo", "ucx"}, Milliseconds(120'000));
}

TEST_F(DeviceTensors, OfAProcessWithTwoGpusGoByBoth) {
  start_with_gpus(3);
  drive({"gpu_pairs"}, Milliseconds(120'000));
}

TEST_F(DeviceTensors, GoRoundInBothDirections) {
  start_with_gpus(3);
  drive({"gpu_ring", "nccl"}, Milliseconds(120'000));
}

TEST_F(DeviceTensors, OutliveAPlannedEndOfTheirHolder) {
  start_with_gpus(2);
  drive({"gpu_ends"}, Milliseconds(120'000));
}

}  // namespace
}  // namespace mobula::e2e
