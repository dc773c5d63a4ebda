// Tensors in device memory: allocation, copies in all directions and from all layouts, the share,
// and the order after kernels that write them.
#include <mobula/errors.h>
#include <mobula/tensor.h>

#include <numeric>

#include "device/gpu/cuda_memory.h"
#include "device/gpu/gpu_fixture.h"
#include "tensor/layout.h"

namespace mobula::internal {
namespace {

// Leases all devices of this process.
void lease_devices(std::uint64_t share = 64 * mib) {
  const auto driver = CudaDriver::open();
  ASSERT_TRUE(driver);
  const auto devices = GpuContext::visible(**driver);
  ASSERT_TRUE(devices);
  std::vector<std::shared_ptr<DeviceArena>> arenas;
  for (std::size_t i = 0; i < devices->size(); ++i) {
    arenas.push_back(
        std::make_shared<DeviceArena>(open_gpu(i), DeviceArenaOptions{.max_bytes = share}));
  }
  set_device_memory(std::make_shared<CudaMemory>(std::move(arenas)));
}

Tensor counted(const Extents& shape) {
  Tensor made = Tensor::empty(shape, DType::int32);
  auto all = made.mutable_view<std::int32_t>();
  std::iota(all.begin(), all.end(), 0);
  return made;
}

std::vector<std::int32_t> numbers(const Tensor& tensor) {
  const Tensor here = tensor.to({}).contiguous();
  const auto all = here.view<std::int32_t>();
  return {all.begin(), all.end()};
}

constexpr Device first{Device::cuda, 0}, second{Device::cuda, 1};

TEST(SimulatedTensors, TransfersToDevicesAndBack) {
  const SimulatedMachine machine("count=2");
  EXPECT_RUNS(machine, [] {
    lease_devices();
    const Tensor here = counted({3, 5, 7});
    const Tensor there = here.to(first);
    EXPECT_EQ(there.device(), first);
    EXPECT_EQ(there.shape(), here.shape());
    EXPECT_EQ(numbers(there), numbers(here));
    EXPECT_EQ(numbers(there.to(second)), numbers(here));
    EXPECT_EQ(numbers(there.clone()), numbers(here));
    EXPECT_NE(there.clone().data(), there.data());
    EXPECT_EQ(there.to(first).data(), there.data());
    EXPECT_THROW((void)there.view<std::int32_t>(), InvalidRequestError);
    EXPECT_EQ(numbers(Tensor::zeros({4}, DType::int32, second)), std::vector<std::int32_t>(4, 0));
    EXPECT_EQ(Tensor::empty({0, 3}, DType::int32, first).to({}).size(), 0);
    EXPECT_EQ(numbers(counted({}).to(first)), std::vector<std::int32_t>{0});
  });
}

TEST(SimulatedTensors, TransfersBetweenUnreachableDevices) {
  const SimulatedMachine machine("count=2 peers=");
  EXPECT_RUNS(machine, [] {
    lease_devices();
    const Tensor here = counted({3, 5});
    EXPECT_EQ(numbers(here.to(first).transpose(0, 1).to(second)), numbers(here.transpose(0, 1)));
  });
}

TEST(SimulatedTensors, PacksEveryLayoutOnDevice) {
  const SimulatedMachine machine;
  EXPECT_RUNS(machine, [] {
    lease_devices();
    const Tensor here = counted({4, 5, 6});
    const Tensor there = here.to(first);
    for (const auto& [a, b] : {std::pair(0, 1), std::pair(1, 2), std::pair(0, 2)}) {
      EXPECT_EQ(numbers(there.transpose(a, b)), numbers(here.transpose(a, b)));
      EXPECT_EQ(numbers(there.transpose(a, b).contiguous()), numbers(here.transpose(a, b)));
      EXPECT_EQ(numbers(here.transpose(a, b).to(first)), numbers(here.transpose(a, b)));
      EXPECT_TRUE(there.transpose(a, b).clone().is_contiguous());
    }
  });
}

TEST(SimulatedTensors, WaitsForKernelsThatWriteTensor) {
  const SimulatedMachine machine("count=2 late_us=3000");
  EXPECT_RUNS(machine, [] {
    lease_devices();
    const auto gpu = open_gpu();
    const auto stream = GpuStream::create(gpu);
    for (const bool declared : {true, false}) {
      Tensor tensor = Tensor::zeros({1000}, DType::uint8, first);
      {
        const GpuContext::Current current(*gpu);
        ASSERT_EQ(simulated_kernel(stream->get(), tensor.data(), 1000, 9, 100), 0);
      }
      if (declared) tensor.produced_on(stream->get());
      const Tensor seen = tensor.to(declared ? second : first).clone().to({});
      for (const std::uint8_t each : seen.view<std::uint8_t>()) ASSERT_EQ(each, 9);
    }
  });
}

TEST(SimulatedTensors, BeyondShare_RejectsWithNumbers) {
  const SimulatedMachine machine;
  EXPECT_RUNS(machine, [] {
    lease_devices(16 * mib);
    try {
      (void)Tensor::empty({20 << 20}, DType::uint8, first);
      ADD_FAILURE() << "no such memory";
    } catch (const OutOfMemoryError& error) {
      EXPECT_NE(std::string(error.what()).find(std::to_string(16 * mib)), std::string::npos)
          << error.what();
    }
    EXPECT_THROW((void)Tensor::empty({1}, DType::uint8, second), InvalidRequestError) << "no lease";
    const Tensor fits = Tensor::empty({10 << 20}, DType::uint8, first);
    EXPECT_THROW((void)fits.clone(), OutOfMemoryError);
  });
}

TEST(SimulatedTensors, ContextLost_TensorsAreLost) {
  const SimulatedMachine machine;
  EXPECT_RUNS(machine, [] {
    lease_devices();
    const Tensor there = counted({100}).to(first);
    {
      const auto gpu = open_gpu();
      const GpuContext::Current current(*gpu);
      simulated_break(cuda_abi::launch_failed);
    }
    try {
      (void)there.to({});
      ADD_FAILURE() << "read from a lost context";
    } catch (const ObjectLostError& error) {
      EXPECT_NE(std::string(error.what()).find("CUDA_ERROR_LAUNCH_FAILED"), std::string::npos)
          << error.what();
    }
  });
}

}  // namespace
}  // namespace mobula::internal
