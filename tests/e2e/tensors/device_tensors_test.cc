// Tensors in GPU memory between real processes on simulated GPUs.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "e2e/gpu_cluster.h"
#include "matrix/cells.h"

namespace mobula::e2e {
namespace {

using testing::HasSubstr;

using DeviceTensors = GpuClusterTest;

TEST_F(DeviceTensors, RestoresTensorsNestedInValues) {
  start_with_gpus(2);
  drive({"gpu_values"}, Milliseconds(120'000));
}

TEST_F(DeviceTensors, TransfersFromGpuToGpu) {
  start_with_gpus(2);
  drive({"gpu_tensors", "cuda_ipc"}, Milliseconds(120'000));
}

TEST_F(DeviceTensors, TransfersWithChecksumsWhenEnabled) {
  more_environment["MOBULA_CHECK_TENSORS"] = "1";
  start_with_gpus(2);
  drive({"gpu_tensors", "cuda_ipc"}, Milliseconds(120'000));
}

TEST_F(DeviceTensors, TaskProcessExited_ResultsStayReadable) {
  start_with_gpus(1);
  drive({"gpu_tasks"}, Milliseconds(120'000));
}

TEST_F(DeviceTensors, GpusUnreachable_StagesThroughHost) {
  matrix::belongs_to(matrix::Part::missing, matrix::Column::cuda_ipc, matrix::Proof::simulated);
  matrix::belongs_to(matrix::Part::strict, matrix::Column::cuda_ipc, matrix::Proof::simulated);
  matrix::belongs_to(matrix::Part::masks, matrix::Column::staged, matrix::Proof::simulated);
  start_without_ways();
  drive({"gpu_tensors", "staged"}, Milliseconds(120'000));
  const auto ended =
      drive({"gpu_paths", "shm", "tcp", "not", "cuda_ipc", "nccl"}, Milliseconds(120'000));
  EXPECT_THAT(ended.out, HasSubstr("cuda_ipc: the two devices cannot reach each other"));
  EXPECT_THAT(ended.out, HasSubstr("libno-such-nccl.so"));
  EXPECT_THAT(ended.out, HasSubstr("cuda_ipc for another: staged"));
}

TEST_F(DeviceTensors, UsesOnlyNamedTransport) {
  start_with_gpus(2);
  drive({"gpu_paths", "nccl", "cuda_ipc", "shm", "tcp", "gloo", "ucx"}, Milliseconds(120'000));
}

TEST_F(DeviceTensors, ProcessWithTwoGpus_TransfersFromBoth) {
  matrix::belongs_to(matrix::Part::masks, matrix::Column::cuda_ipc, matrix::Proof::simulated);
  matrix::belongs_to(matrix::Part::masks, matrix::Column::nccl, matrix::Proof::simulated);
  start_with_gpus(3);
  drive({"gpu_pairs"}, Milliseconds(120'000));
}

TEST_F(DeviceTensors, TransfersAroundRingInBothDirections) {
  start_with_gpus(3);
  drive({"gpu_ring", "nccl"}, Milliseconds(120'000));
}

TEST_F(DeviceTensors, HolderExitsPlanned_TensorsSurvive) {
  start_with_gpus(2);
  drive({"gpu_ends"}, Milliseconds(120'000));
}

TEST_F(DeviceTensors, WaitsForKernelsBeforeReading) {
  matrix::belongs_to(matrix::Part::unfinished_kernel, matrix::Column::inproc,
                     matrix::Proof::simulated);
  matrix::belongs_to(matrix::Part::unfinished_kernel, matrix::Column::staged,
                     matrix::Proof::simulated);
  matrix::belongs_to(matrix::Part::unfinished_kernel, matrix::Column::cuda_ipc,
                     matrix::Proof::simulated);
  matrix::belongs_to(matrix::Part::unfinished_kernel, matrix::Column::nccl,
                     matrix::Proof::simulated);
  start_with_gpus(2);
  drive({"gpu_streams"}, Milliseconds(120'000));
}

TEST_F(DeviceTensors, DeviceBroken_TaskThrowsAndProcessReplaced) {
  matrix::belongs_to(matrix::Part::sticky_error, matrix::Column::inproc, matrix::Proof::simulated);
  start_with_gpus(1);
  const auto ended = drive({"gpu_broken"}, Milliseconds(120'000));
  EXPECT_THAT(ended.out, HasSubstr("CUDA context of this process is lost"));
}

TEST_F(DeviceTensors, ContextLost_TensorsLostAndProcessReplaced) {
  matrix::belongs_to(matrix::Part::sticky_error, matrix::Column::staged, matrix::Proof::simulated);
  start_without_ways();
  const auto ended =
      drive({"gpu_replaced", "fail=cuMemcpyAsync@2:700", "automatic"}, Milliseconds(120'000));
  EXPECT_THAT(ended.out, HasSubstr("it is lost: "));
  EXPECT_THAT(ended.out, HasSubstr("CUDA context of this process is lost"));
}

TEST_F(DeviceTensors, NcclAbortHangs_ProcessReplaced) {
  matrix::belongs_to(matrix::Part::endless_abort, matrix::Column::nccl, matrix::Proof::simulated);
  start_with_gpus(2);
  drive({"gpu_replaced", "hang=kernel@1,destroy@1,abort@1", "nccl"}, Milliseconds(150'000));
}

TEST_F(DeviceTensors, CudaIpcReaderKilledOrStopped_OthersRead) {
  start_with_gpus(2);
  drive({"gpu_kills", "cuda_ipc"}, Milliseconds(150'000));
}

TEST_F(DeviceTensors, NcclReaderKilledOrStopped_OthersRead) {
  matrix::belongs_to(matrix::Part::killed_receiver, matrix::Column::nccl, matrix::Proof::simulated);
  matrix::belongs_to(matrix::Part::stopped, matrix::Column::nccl, matrix::Proof::simulated);
  start_with_gpus(2);
  drive({"gpu_kills", "nccl"}, Milliseconds(150'000));
}

TEST_F(DeviceTensors, NcclContextLost_LostAndProcessReplaced) {
  matrix::belongs_to(matrix::Part::sticky_error, matrix::Column::nccl, matrix::Proof::simulated);
  start_with_gpus(2);
  const auto ended = drive(
      {"gpu_replaced", "fail=ncclSend@1:1,cuStreamSynchronize@2:700,cuEventQuery@1:700", "nccl"},
      Milliseconds(120'000));
  EXPECT_THAT(ended.out, HasSubstr("CUDA context of this process is lost"));
}

TEST_F(DeviceTensors, MigSlices_TransferThroughHost) {
  matrix::belongs_to(matrix::Part::masks, matrix::Column::staged, matrix::Proof::simulated);
  have_gpus(2, "mig=0,1");
  more_environment["MOBULA_NCCL_LIBRARY"] = "libno-such-nccl.so";
  start_head({"--num-cpus", "4"});
  drive({"gpu_tensors", "staged"}, Milliseconds(120'000));
}

class DeviceCollectives : public DeviceTensors {};

TEST_F(DeviceCollectives, StagesThroughHost) {
  start_with_gpus(3);
  drive({"gpu_collectives", "shm", "3", "3"}, Milliseconds(150'000));
}

// In an automatic group, large operands on GPUs start a communicator. Small operands still go
// through host memory.
TEST_F(DeviceCollectives, AutomaticGroup_CreatesCommunicator) {
  start_with_gpus(3);
  drive({"gpu_collectives", "automatic", "3", "3", "nccl"}, Milliseconds(150'000));
}

TEST_F(DeviceCollectives, AutomaticGroup_StagesWhenMemberHasNoGpu) {
  start_with_gpus(2);
  drive({"gpu_collectives", "automatic", "3", "2", "staged", "nccl: "}, Milliseconds(150'000));
}

TEST_F(DeviceCollectives, AutomaticGroup_StagesWhenLibraryMissing) {
  start_with_gpus(3);
  drive({"gpu_collectives", "automatic", "3", "3", "staged",
         "nccl: ", "MOBULA_NCCL_LIBRARY=libno-such-nccl.so"},
        Milliseconds(150'000));
}

TEST_F(DeviceCollectives, AutomaticGroup_StagesWhenInitFails) {
  start_with_gpus(3);
  drive({"gpu_collectives", "automatic", "3", "3", "staged", "ncclCommInitRankConfig",
         "MOBULA_SIMULATED_GPU=fail=ncclCommInitRankConfig@1:3"},
        Milliseconds(150'000));
}

TEST_F(DeviceCollectives, AutomaticGroup_StagesWhenInitHangs) {
  start_with_gpus(3);
  drive({"gpu_collectives", "automatic", "3", "3", "staged",
         "nccl: ", "MOBULA_SIMULATED_GPU=hang=init@1"},
        Milliseconds(170'000));
}

TEST_F(DeviceCollectives, AutomaticGroup_StagesOnUntrustedFabric) {
  more_environment["MOBULA_TEST_SEPARATE_HOSTS"] = "1";
  have_gpus(2);
  more_environment["CUDA_VISIBLE_DEVICES"] = "0";
  start_head({"--num-cpus", "2"});
  more_environment["CUDA_VISIBLE_DEVICES"] = "1";
  start_node("b", {"--num-cpus", "2"});
  more_environment.erase("CUDA_VISIBLE_DEVICES");
  drive({"gpu_collectives", "automatic", "2", "2", "staged", "fabric not trusted"},
        Milliseconds(150'000));
}

// One member never starts its kernel and reports that. The runtime aborts the kernels of the other
// members, which wait for it.
TEST_F(DeviceCollectives, AutomaticGroup_FallsBackWhenReduceFails) {
  start_with_gpus(3);
  drive({"gpu_collective_again", "MOBULA_SIMULATED_GPU=fail=ncclReduce@1:3", "ncclReduce"},
        Milliseconds(150'000));
  const std::string line =
      "collective group again: tensors on GPUs go through host memory from now on: nccl: rank 2";
  ASSERT_TRUE(eventually(Milliseconds(30'000), [&] {
    int found = 0;
    for (const auto& each :
         std::filesystem::directory_iterator(state_of("a") + "/default/agent/logs")) {
      std::ifstream file(each.path());
      for (std::string text; std::getline(file, text);)
        found += text.find(line) != std::string::npos;
    }
    return found == 3;  // once in each member's log
  }));
}

TEST_F(DeviceCollectives, AutomaticGroup_FallsBackWhenSendFails) {
  start_with_gpus(3);
  drive({"gpu_collective_again", "MOBULA_SIMULATED_GPU=fail=ncclSend@7:3", "ncclSend"},
        Milliseconds(150'000));
}

// Reduction in place: all members have overwritten their operands when one of them does not
// complete.
TEST_F(DeviceCollectives, AutomaticGroup_RestoresInputAfterFailure) {
  start_with_gpus(3);
  drive({"gpu_collective_again", "MOBULA_SIMULATED_GPU=hang=end@4", "no bytes arrived in time"},
        Milliseconds(150'000));
}

TEST_F(DeviceCollectives, AutomaticGroup_ReducesInPlaceWithoutCopy) {
  start_with_gpus(2, "memory=734003200");
  drive({"gpu_collective_no_memory"}, Milliseconds(150'000));
}

TEST_F(DeviceCollectives, AutomaticGroup_ReplacesProcessWhenNcclHangs) {
  start_with_gpus(3);
  const auto ended =
      drive({"gpu_collective_hangs", "lacks=ncclCommRevoke hang=end@2,abort@1", "automatic"},
            Milliseconds(170'000));
  EXPECT_THAT(ended.out, HasSubstr("it ends with: broken: 2, and in place is what was there"));
}

TEST_F(DeviceCollectives, MixesMembersWithAndWithoutGpu) {
  start_with_gpus(2);
  drive({"gpu_collectives", "tcp", "3", "2"}, Milliseconds(150'000));
}

TEST_F(DeviceCollectives, RunsTwoMembersOverNccl) {
  start_with_gpus(2);
  drive({"gpu_collectives", "nccl", "2", "2"}, Milliseconds(150'000));
}

TEST_F(DeviceCollectives, RunsThreeMembersOverNccl) {
  start_with_gpus(3, "late_us=1000 seed=7");
  drive({"gpu_collectives", "nccl", "3", "3"}, Milliseconds(150'000));
}

TEST_F(DeviceCollectives, NcclImpossible_RejectsWithReason) {
  start_with_gpus(2);
  drive({"gpu_collective_refusals"}, Milliseconds(150'000));
}

TEST_F(DeviceCollectives, NcclLibraryMissing_RejectsGroup) {
  have_gpus(2);
  more_environment["MOBULA_NCCL_LIBRARY"] = "libno-such-nccl.so";
  start_head({"--num-cpus", "2"});
  drive({"gpu_collective_refusals", "libno-such-nccl.so", "rank 0"}, Milliseconds(150'000));
}

TEST_F(DeviceCollectives, NcclOnUntrustedFabric_RejectsGroup) {
  more_environment["MOBULA_TEST_SEPARATE_HOSTS"] = "1";
  have_gpus(2);
  more_environment["CUDA_VISIBLE_DEVICES"] = "0";
  start_head({"--num-cpus", "2"});
  more_environment["CUDA_VISIBLE_DEVICES"] = "1";
  start_node("b", {"--num-cpus", "2"});
  more_environment.erase("CUDA_VISIBLE_DEVICES");
  drive({"gpu_collective_refusals", "fabric not trusted"}, Milliseconds(150'000));
}

TEST_F(DeviceCollectives, NcclInitFails_LeavesNothing) {
  start_with_gpus(2, "fail=ncclCommInitRankConfig@1:3");
  drive({"gpu_collective_refusals", "ncclCommInitRankConfig"}, Milliseconds(150'000));
}

TEST_F(DeviceCollectives, Nccl_FailureAtOneEndsAll) {
  start_with_gpus(4);
  drive({"gpu_collective_ends", "nccl"}, Milliseconds(170'000));
}

TEST_F(DeviceCollectives, AutomaticGroup_FailureAtOneEndsAll) {
  start_with_gpus(4);
  drive({"gpu_collective_ends", "automatic"}, Milliseconds(170'000));
}

TEST_F(DeviceCollectives, NcclHangs_OperationEndsAndProcessReplaced) {
  start_with_gpus(3);
  drive({"gpu_collective_hangs", "hang=kernel@2,destroy@1,abort@1"}, Milliseconds(170'000));
}

TEST_F(DeviceCollectives, NcclInitHangs_GroupFailsAndProcessReplaced) {
  start_with_gpus(3);
  drive({"gpu_collective_hangs", "hang=init@1,abort@1"}, Milliseconds(170'000));
}

TEST_F(DeviceCollectives, RunsDuringTransfersOfSameGpus) {
  start_with_gpus(3, "seed=5");
  drive({"gpu_collective_beside"}, Milliseconds(170'000));
}

class Plugins : public DeviceTensors {
 protected:
  void SetUp() override {
    for (const char* name : {"gloo", "ucx"}) {
      if (::access((programs + "/../lib/mobula/mobula_transport_" + name + ".so").c_str(), R_OK) !=
          0) {
        GTEST_SKIP() << name << " was not installed where this was built";
      }
    }
    more_environment["MOBULA_TRANSPORT_PLUGINS"] = "gloo:ucx:no-such";
  }
};

TEST_F(Plugins, CarriesTensorsWhenNamed) {
  start_head({"--num-cpus", "4"});
  drive({"host_paths", "gloo", "ucx"}, Milliseconds(120'000));
}

TEST_F(Plugins, StagesGpuTensorsThroughHost) {
  start_with_gpus(2);
  drive({"gpu_paths", "gloo", "ucx"}, Milliseconds(120'000));
}

TEST_F(Plugins, RejectsUntrustedFabric) {
  more_environment["MOBULA_TEST_SEPARATE_HOSTS"] = "1";
  have_gpus(2);
  more_environment["CUDA_VISIBLE_DEVICES"] = "0";
  start_head({"--num-cpus", "2"});
  more_environment["CUDA_VISIBLE_DEVICES"] = "1";
  start_node("b", {"--num-cpus", "2"});
  more_environment.erase("CUDA_VISIBLE_DEVICES");
  const auto ended = drive({"gpu_paths", "not", "gloo", "ucx", "nccl"}, Milliseconds(120'000));
  for (const char* each :
       {"gloo: fabric not trusted", "ucx: fabric not trusted", "nccl: fabric not trusted"}) {
    EXPECT_THAT(ended.out, HasSubstr(each));
  }
  EXPECT_THAT(ended.out, HasSubstr("nccl for another: staged"));
}

}  // namespace
}  // namespace mobula::e2e
