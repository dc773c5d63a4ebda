// Actors of a fraction of one simulated GPU that use NCCL between each other.
#include <gmock/gmock.h>

#include "e2e/gpu_cluster.h"

namespace mobula::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class SimulatedSharedGpu : public GpuClusterTest {
 protected:
  void start_with_part(const char* part, const std::string& words = "nccl=23007") {
    more_environment["MOBULA_TEST_GPU_PART"] = part;
    start_with_gpus(1, words);
  }
};

TEST_F(SimulatedSharedGpu, TransfersByNamedNccl) {
  start_with_part("0.5");
  drive({"gpu_paths", "nccl", "cuda_ipc"}, Milliseconds(120'000));
}

TEST_F(SimulatedSharedGpu, TransfersAroundRing) {
  start_with_part("0.25");
  drive({"gpu_ring", "nccl"}, Milliseconds(120'000));
}

TEST_F(SimulatedSharedGpu, OlderNccl_RejectsNamedTransfer) {
  start_with_part("0.5", "nccl=22809");
  EXPECT_THAT(drive({"gpu_paths", "not", "nccl"}, Milliseconds(120'000)).out,
              AllOf(HasSubstr("nccl is refused"), HasSubstr("the holder "),
                    HasSubstr("and the receiver "), HasSubstr("share GPU-"),
                    HasSubstr("is 2.28.9, which accepts one rank per GPU; install 2.30 or newer")));
}

TEST_F(SimulatedSharedGpu, SwitchOff_RejectsNamedTransfer) {
  more_environment["NCCL_MULTI_RANK_GPU_ENABLE"] = "0";
  start_with_part("0.5");
  EXPECT_THAT(drive({"gpu_paths", "not", "nccl"}, Milliseconds(120'000)).out,
              AllOf(HasSubstr("share GPU-"),
                    HasSubstr("does not report NCCL_MULTI_RANK_GPU_ENABLE=1; set it to 1")));
}

TEST_F(SimulatedSharedGpu, RunsGroupOverNccl) {
  start_with_part("0.25", "nccl=23007 late_us=1000 seed=7");
  drive({"gpu_collectives", "nccl", "3", "3"}, Milliseconds(150'000));
}

TEST_F(SimulatedSharedGpu, FailureAtOneEndsGroup) {
  start_with_part("0.25");
  drive({"gpu_collective_ends", "nccl"}, Milliseconds(170'000));
}

TEST_F(SimulatedSharedGpu, RunsGroupsDuringTransfers) {
  start_with_part("0.25");
  drive({"gpu_collective_beside"}, Milliseconds(170'000));
}

TEST_F(SimulatedSharedGpu, OlderNccl_RejectsGroup) {
  start_with_part("0.25", "nccl=22809");
  drive({"gpu_collective_refusals", "rank 0 (actor ", " and rank 1 (actor ", "share GPU-",
         "is 2.28.9, which accepts one rank per GPU; install 2.30 or newer"},
        Milliseconds(150'000));
}

TEST_F(SimulatedSharedGpu, SwitchOff_RejectsGroup) {
  more_environment["NCCL_MULTI_RANK_GPU_ENABLE"] = "0";
  start_with_part("0.25");
  drive({"gpu_collective_refusals", "share GPU-",
         "does not report NCCL_MULTI_RANK_GPU_ENABLE=1; set it to 1"},
        Milliseconds(150'000));
}

TEST_F(SimulatedSharedGpu, AutomaticGroup_UsesHostMemory) {
  start_with_part("0.5");
  drive({"gpu_collectives", "automatic", "2", "2", "staged"}, Milliseconds(150'000));
}

}  // namespace
}  // namespace mobula::e2e
