// Graph captures of user code: Mobula's own calls leave them intact, and calls that would break a
// capture are rejected with a remedy.
#include <mobula/errors.h>
#include <mobula/tensor.h>

#include <thread>

#include "device/gpu/cuda_memory.h"
#include "device/gpu/gpu_fixture.h"
#include "device/gpu/pinned_slices.h"

namespace mobula::internal::capture {
namespace {

constexpr int global_mode = 0, blocking_stream = 0;

// A user stream under capture; all calls are on the calling thread.
class Captured {
 public:
  Captured(const GpuContext& gpu, unsigned flags) : gpu_(gpu) {
    const GpuContext::Current current(gpu_);
    EXPECT_EQ(gpu_.call().stream_create(&stream_, flags, 0), 0);
    const auto begin = simulated_call<int(cuda_abi::Stream, int)>("cuStreamBeginCapture_v2");
    EXPECT_EQ(begin(stream_, global_mode), 0);
  }
  cuda_abi::Stream stream() const { return stream_; }
  void add_kernel(std::span<std::byte> bytes, int value) const {
    const GpuContext::Current current(gpu_);
    EXPECT_EQ(simulated_kernel(stream_, bytes.data(), bytes.size(), value, 1), 0);
  }
  // The graph, or null if the capture was broken.
  void* end() const {
    const GpuContext::Current current(gpu_);
    void* graph = nullptr;
    (void)simulated_call<int(cuda_abi::Stream, void**)>("cuStreamEndCapture")(stream_, &graph);
    return graph;
  }
  // Runs the graph.
  void run(void* graph) const {
    const GpuContext::Current current(gpu_);
    void* executable = nullptr;
    ASSERT_EQ(simulated_call<int(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags")(
                  &executable, graph, 0),
              0);
    ASSERT_EQ(simulated_call<int(void*, cuda_abi::Stream)>("cuGraphLaunch")(executable, stream_),
              0);
    ASSERT_EQ(gpu_.call().stream_synchronize(stream_), 0);
    // Memory that the graph refers to may be freed after this.
    EXPECT_EQ(simulated_call<int(void*)>("cuGraphExecDestroy")(executable), 0);
    EXPECT_EQ(simulated_call<int(void*)>("cuGraphDestroy")(graph), 0);
  }

 private:
  const GpuContext& gpu_;
  cuda_abi::Stream stream_ = nullptr;
};

TEST(SimulatedCapture, RunsNothingUntilGraphIsLaunched) {
  const SimulatedMachine machine;
  EXPECT_RUNS(machine, [] {
    const auto gpu = open_gpu();
    auto memory = DeviceMapping::create(gpu, mib);
    fill_device(*gpu, memory->bytes(), 1);
    const Captured user(*gpu, cuda_abi::stream_non_blocking);
    user.add_kernel(memory->bytes(), 9);
    void* const graph = user.end();
    ASSERT_NE(graph, nullptr);
    EXPECT_TRUE(all_are(read_device(*gpu, memory->bytes()), 1));
    user.run(graph);
    EXPECT_TRUE(all_are(read_device(*gpu, memory->bytes()), 9));
  });
}

TEST(SimulatedCapture, BreaksAsOnRealGpu) {
  const SimulatedMachine machine;
  const std::vector<std::function<int(const GpuContext&, const Captured&)>> breaks{
      [](const GpuContext& gpu, const Captured& user) {
        return gpu.call().stream_synchronize(user.stream());
      },
      [](const GpuContext& gpu, const Captured& user) {
        return gpu.call().stream_query(user.stream());
      },
      [](const GpuContext& gpu, const Captured&) { return gpu.call().context_synchronize(); }};
  for (std::size_t i = 0; i < breaks.size(); ++i) {
    EXPECT_RUNS(machine, [&breaks, i] {
      const auto gpu = open_gpu();
      const Captured user(*gpu, cuda_abi::stream_non_blocking);
      const GpuContext::Current current(*gpu);
      EXPECT_EQ(breaks[i](*gpu, user), cuda_abi::stream_capture_unsupported) << i;
      EXPECT_EQ(user.end(), nullptr) << i;
    });
  }
  // An unsafe call on a thread in the default mode, as in user code.
  EXPECT_RUNS(machine, [] {
    const auto gpu = open_gpu();
    const Captured user(*gpu, cuda_abi::stream_non_blocking);
    const GpuContext::Current current(*gpu);
    int mode = global_mode;
    (void)gpu->call().exchange_capture_mode(&mode);
    void* host = nullptr;
    EXPECT_EQ(gpu->call().host_allocate(&host, 4096, 0), cuda_abi::stream_capture_unsupported);
    (void)gpu->call().exchange_capture_mode(&mode);
    EXPECT_EQ(user.end(), nullptr);
  });
}

void lease_device() {
  set_device_memory(std::make_shared<CudaMemory>(std::vector{
      std::make_shared<DeviceArena>(open_gpu(), DeviceArenaOptions{.max_bytes = 64 * mib})}));
}

TEST(SimulatedCapture, UndeclaredStream_RejectsTensorKeepsCapture) {
  const SimulatedMachine machine;
  EXPECT_RUNS(machine, [] {
    lease_device();
    const auto gpu = open_gpu();
    const Tensor tensor = Tensor::zeros({1000}, DType::uint8, {Device::cuda, 0});
    const Captured user(*gpu, blocking_stream);
    try {
      (void)tensor.to({});
      ADD_FAILURE() << "a context that captures cannot be synchronized";
    } catch (const InvalidRequestError& error) {
      EXPECT_NE(std::string(error.what()).find("produced_on"), std::string::npos) << error.what();
    }
    EXPECT_NE(user.end(), nullptr);
  });
}

TEST(SimulatedCapture, InvisibleStream_RejectedWithAdvice) {
  const SimulatedMachine machine;
  EXPECT_RUNS(machine, [] {
    lease_device();
    const auto gpu = open_gpu();
    const Tensor tensor = Tensor::zeros({1000}, DType::uint8, {Device::cuda, 0});
    const Captured user(*gpu, cuda_abi::stream_non_blocking);
    EXPECT_THROW((void)tensor.to({}), InvalidRequestError);
    (void)user.end();
    EXPECT_EQ(tensor.to({}).view<std::uint8_t>()[0], 0) << "afterwards it goes";
  });
}

TEST(SimulatedCapture, DeclaredStream_CaptureContinues) {
  const SimulatedMachine machine("late_us=500");
  EXPECT_RUNS(machine, [] {
    lease_device();
    const auto gpu = open_gpu();
    auto written = DeviceMapping::create(gpu, mib);
    const auto producer = GpuStream::create(gpu);
    Tensor tensor = Tensor::zeros({1000}, DType::uint8, {Device::cuda, 0});
    const Captured user(*gpu, cuda_abi::stream_non_blocking);
    user.add_kernel(written->bytes(), 7);
    {
      const GpuContext::Current current(*gpu);
      ASSERT_EQ(simulated_kernel(producer->get(), tensor.data(), 1000, 5, 20), 0);
    }
    tensor.produced_on(producer->get());
    EXPECT_EQ(tensor.to({}).view<std::uint8_t>()[999], 5);
    const Tensor clone = tensor.clone();
    PinnedSlices slices(gpu);
    EXPECT_TRUE(slices.open());
    void* const graph = user.end();
    ASSERT_NE(graph, nullptr) << "none of that has broken it";
    user.run(graph);
    EXPECT_TRUE(all_are(read_device(*gpu, written->bytes()), 7));
    EXPECT_EQ(clone.to({}).view<std::uint8_t>()[0], 5);
  });
}

TEST(SimulatedCapture, RejectsStreamThatWritesTensor) {
  const SimulatedMachine machine;
  EXPECT_RUNS(machine, [] {
    lease_device();
    const auto gpu = open_gpu();
    Tensor tensor = Tensor::zeros({1000}, DType::uint8, {Device::cuda, 0});
    const Captured user(*gpu, cuda_abi::stream_non_blocking);
    tensor.produced_on(user.stream());
    EXPECT_THROW((void)tensor.to({}), InvalidRequestError);
    EXPECT_NE(user.end(), nullptr) << "the check does not break the capture";
  });
}

}  // namespace
}  // namespace mobula::internal::capture
