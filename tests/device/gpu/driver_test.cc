// Detection of the driver, with the reason for a failure; devices by UUID; and the misuse that the
// simulation detects.
#include <fmt/format.h>
#include <sys/prctl.h>

#include <fstream>
#include <set>
#include <string>
#include <utility>

#include "device/detection/nvml.h"
#include "device/gpu/gpu_fixture.h"
#include "device/gpu/nccl_library.h"

namespace mobula::internal {
namespace {

TEST(GpuDriver, LibraryMissing_HasReason) {
  const auto opened = CudaDriver::open("libno-such-cuda.so.1");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::not_found);
  EXPECT_NE(opened.error().text.find("libno-such-cuda.so.1"), std::string::npos);
}

TEST(GpuDriver, RejectsLibraryThatIsNoDriver) {
  const auto opened = CudaDriver::open("libm.so.6");
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::unavailable);
  EXPECT_NE(opened.error().text.find("12.0"), std::string::npos) << opened.error().text;
}

TEST(SimulatedGpu, NamesOldDriverOrMissingCall) {
  const SimulatedMachine machine;
  EXPECT_RUNS(
      machine,
      [] {
        const auto opened = CudaDriver::open();
        ASSERT_FALSE(opened);
        EXPECT_NE(opened.error().text.find("11.8"), std::string::npos) << opened.error().text;
      },
      "driver=11080");
  EXPECT_RUNS(
      machine,
      [] {
        const auto opened = CudaDriver::open();
        ASSERT_FALSE(opened);
        EXPECT_EQ(opened.error().code, ErrorCode::unavailable);
        EXPECT_NE(opened.error().text.find("cuMemMap"), std::string::npos) << opened.error().text;
      },
      "lacks=cuMemMap,cuMemUnmap");
}

TEST(SimulatedGpu, FindsDeviceByUuidUnderMask) {
  const SimulatedMachine machine("count=3 mig=2");
  std::string second;
  EXPECT_RUNS(machine, [] {
    const auto driver = CudaDriver::open();
    ASSERT_TRUE(driver);
    const auto all = GpuContext::visible(**driver);
    ASSERT_TRUE(all);
    EXPECT_EQ(all->size(), 4u) << "two devices and two slices";
    EXPECT_EQ(std::set<DeviceUuid>(all->begin(), all->end()).size(), 4u);
    const DeviceUuid wanted = all->at(1);
    // Masks of another process use the same name.
    EXPECT_EQ(device_uuid_from(to_string(wanted)), wanted);
    ::setenv("WANTED", to_string(wanted).c_str(), 1);
    const auto context = GpuContext::open(*driver, wanted);
    ASSERT_TRUE(context) << context.error().text;
    EXPECT_EQ((*context)->ordinal(), 1);
    EXPECT_NE((*context)->name().find("SIMULATED"), std::string::npos);
    EXPECT_TRUE((*context)->reaches(all->at(0)));
    EXPECT_FALSE((*context)->reaches(all->at(3))) << "a slice";
    const auto nobody = GpuContext::open(*driver, DeviceUuid{});
    ASSERT_FALSE(nobody);
    EXPECT_EQ(nobody.error().code, ErrorCode::not_found);
  });
  EXPECT_RUNS(machine, [] {
    const auto nvml = Nvml::open(std::getenv("MOBULA_NVML_LIBRARY"));
    ASSERT_TRUE(nvml) << nvml.error().text;
    const auto devices = nvml->devices();
    ASSERT_TRUE(devices);
    ASSERT_EQ(devices->size(), 3u);
    ASSERT_EQ(devices->at(2).slices.size(), 2u);
    const std::string slice = devices->at(2).slices[1].uuid;
    ::setenv("CUDA_VISIBLE_DEVICES", (slice + "," + devices->at(0).uuid).c_str(), 1);
    const auto driver = CudaDriver::open();
    const auto seen = GpuContext::visible(**driver);
    ASSERT_TRUE(seen);
    ASSERT_EQ(seen->size(), 2u);
    EXPECT_EQ(seen->at(0), device_uuid_from(slice));
    EXPECT_EQ(seen->at(1), device_uuid_from(devices->at(0).uuid));
  });
}

TEST(SimulatedGpu, Slices_HaveSeparateMemory) {
  const SimulatedMachine machine("count=1 mig=0 memory=268435456 context=4194304");
  EXPECT_RUNS(machine, [] {
    const auto first = open_gpu(0), second = open_gpu(1);
    const std::uint64_t half = 128 * mib, context = 4 * mib;
    EXPECT_EQ(first->memory()->total_bytes, half);
    EXPECT_EQ(first->memory()->free_bytes, half - context);
    const auto full = DeviceMapping::create(first, half - context);
    ASSERT_TRUE(full) << full.error().text;
    const auto more = DeviceMapping::create(first, 2 * mib);
    ASSERT_FALSE(more) << "the other half is not its own";
    EXPECT_EQ(more.error().code, ErrorCode::resource_exhausted);
    EXPECT_EQ(second->memory()->free_bytes, half - context);
    EXPECT_TRUE(DeviceMapping::create(second, 100 * mib)) << "the half belongs to this slice alone";
    EXPECT_FALSE(second->reaches(first->uuid()));
    const auto descriptor = full->descriptor();
    ASSERT_TRUE(descriptor);
    EXPECT_FALSE(DeviceMapping::import(second, *descriptor, full->bytes().size()))
        << "of another slice";
    const auto nvml = Nvml::open(std::getenv("MOBULA_NVML_LIBRARY"));
    ASSERT_TRUE(nvml);
    EXPECT_EQ(nvml->used_bytes(0).value(), half + context) << "NVML reports the whole device";
    EXPECT_LE(nvml->busy_percent(0).value(), 100u);
  });
}

TEST(SimulatedGpu, OpensDriverWithoutInitialization) {
  const SimulatedMachine machine;
  EXPECT_RUNS(machine, [] {
    const auto driver = CudaDriver::open();
    ASSERT_TRUE(driver);
    int count = 0;
    EXPECT_EQ((*driver)->call().device_count(&count), cuda_abi::not_initialized);
    std::ifstream status("/proc/self/status");
    std::string line;
    while (std::getline(status, line) && !line.starts_with("Threads:")) {
    }
    EXPECT_EQ(std::stoi(line.substr(8)), 1);
  });
}

struct LegacyHandle {
  unsigned char bytes[64];
};

std::string hex_of(const LegacyHandle& handle) {
  std::string hex;
  for (const unsigned char each : handle.bytes) hex += fmt::format("{:02x}", each);
  return hex;
}

// Each of these is an error on hardware, too, but hardware may not detect it.
void expect_misuse(const SimulatedMachine& machine, const char* named,
                   const std::function<void()>& body) {
  const auto end = machine.run(body);
  EXPECT_TRUE(end.aborted) << named << ": " << end.said;
  EXPECT_NE(end.said.find("misuse: "), std::string::npos) << end.said;
  EXPECT_NE(end.said.find(named), std::string::npos) << end.said;
}

TEST(SimulatedGpu, Misuse_EndsProcess) {
  const SimulatedMachine machine("count=2");
  expect_misuse(machine, "first form", [] { (void)simulated_call<int()>("cuMemAlloc")(); });
  expect_misuse(machine, "first form", [] { (void)simulated_call<int()>("cuDeviceGetUuid")(); });
  expect_misuse(machine, "after fork", [] {
    const auto gpu = open_gpu();
    if (::fork() == 0) {
      (void)gpu->memory();
      ::_exit(0);
    }
    int status = 0;
    ::wait(&status);
    if (WIFSIGNALED(status)) std::abort();
  });
  const auto mapped_without_access = [] {
    const auto gpu = open_gpu();
    const GpuContext::Current current(*gpu);
    const CudaFunctions& call = gpu->call();
    cuda_abi::AllocationProperties wanted{};
    wanted.type = cuda_abi::allocation_pinned;
    wanted.location = {cuda_abi::location_device, 0};
    cuda_abi::MemoryHandle handle = 0;
    cuda_abi::Address at = 0;
    EXPECT_EQ(call.memory_create(&handle, 2 * mib, &wanted, 0), 0);
    EXPECT_EQ(call.address_reserve(&at, 2 * mib, 0, 0, 0), 0);
    EXPECT_EQ(call.memory_map(at, 2 * mib, 0, handle, 0), 0);
    (void)call.fill_async(at, 1, 1, nullptr);
  };
  expect_misuse(machine, "cuMemSetAccess", mapped_without_access);
  expect_misuse(machine, "a stream still uses", [] {
    const auto gpu = open_gpu();
    auto mapping = DeviceMapping::create(gpu, 1);
    ASSERT_TRUE(mapping);
    const GpuContext::Current current(*gpu);
    EXPECT_EQ(simulated_kernel(nullptr, mapping->bytes().data(), 10, 1, 300), 0);
    *mapping = DeviceMapping();
  });
  expect_misuse(machine, "while another one is current", [] {
    const auto gpu = open_gpu(0);
    const auto other = open_gpu(1);
    const auto stream = GpuStream::create(gpu);
    const auto mapping = DeviceMapping::create(other, 1);
    const GpuContext::Current current(*other);
    (void)other->call().fill_async(address_of(mapping->bytes().data()), 1, 1, stream->get());
  });
  expect_misuse(machine, "another process has imported", [] {
    const auto gpu = open_gpu();
    const GpuContext::Current current(*gpu);
    cuda_abi::Address at = 0;
    LegacyHandle handle{};
    EXPECT_EQ(simulated_call<int(cuda_abi::Address*, std::size_t)>("cuMemAlloc_v2")(&at, mib), 0);
    EXPECT_EQ(
        simulated_call<int(LegacyHandle*, cuda_abi::Address)>("cuIpcGetMemHandle")(&handle, at), 0);
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    // The other process starts by exec, without inherited state.
    const std::string bytes = hex_of(handle), down = std::to_string(ends[1]);
    if (::fork() == 0) {
      ::execl("/proc/self/exe", "gpu_test", "--import-legacy", bytes.c_str(), down.c_str(),
              nullptr);
      ::_exit(1);
    }
    char ready = 0;
    EXPECT_EQ(::read(ends[0], &ready, 1), 1);
    EXPECT_EQ(ready, 'y');
    (void)simulated_call<int(cuda_abi::Address)>("cuMemFree_v2")(at);
  });
}

TEST(SimulatedGpu, HostReadsDeviceMemory_Crashes) {
  const SimulatedMachine machine;
  const auto end = machine.run([] {
    const auto gpu = open_gpu();
    const auto mapping = DeviceMapping::create(gpu, 1);
    *const_cast<volatile std::byte*>(mapping->bytes().data()) = std::byte{1};
  });
  EXPECT_FALSE(end.ok || end.aborted) << "by a signal, as anywhere outside a process's memory";
}

TEST(SimulatedGpu, ContextLost_StaysLost) {
  const SimulatedMachine machine;
  EXPECT_RUNS(
      machine,
      [] {
        const auto gpu = open_gpu();
        const auto mapping = DeviceMapping::create(gpu, 1);
        const GpuContext::Current current(*gpu);
        const auto at = address_of(mapping->bytes().data());
        EXPECT_EQ(gpu->call().fill_async(at, 1, 1, nullptr), cuda_abi::success);
        EXPECT_EQ(gpu->call().fill_async(at, 1, 1, nullptr), cuda_abi::illegal_address);
        EXPECT_EQ(gpu->call().context_synchronize(), cuda_abi::illegal_address);
        EXPECT_TRUE(is_sticky(cuda_abi::illegal_address));
        EXPECT_NE(gpu->synchronize().error().text.find("is lost"), std::string::npos);
      },
      "fail=cuMemsetD8Async@2:700");
}

TEST(SimulatedGpu, StreamsRunLateAndEventsTrackThem) {
  const SimulatedMachine machine("late_us=2000");
  EXPECT_RUNS(machine, [] {
    const auto gpu = open_gpu();
    auto mapping = DeviceMapping::create(gpu, mib);
    const auto first = GpuStream::create(gpu), second = GpuStream::create(gpu);
    const auto event = GpuEvent::create(gpu);
    {
      const GpuContext::Current current(*gpu);
      EXPECT_EQ(simulated_kernel(first->get(), mapping->bytes().data(), mib, 7, 100), 0);
    }
    ASSERT_TRUE(event->record(first->get()));
    EXPECT_FALSE(event->over().value());
    {
      const GpuContext::Current current(*gpu);
      EXPECT_EQ(gpu->call().stream_wait_event(second->get(), event->get(), 0), 0);
    }
    std::vector<std::byte> seen(mib);
    {
      const GpuContext::Current current(*gpu);
      EXPECT_EQ(gpu->call().copy_async(address_of(seen.data()), address_of(mapping->bytes().data()),
                                       mib, second->get()),
                0);
    }
    ASSERT_TRUE(second->synchronize());
    EXPECT_TRUE(event->over().value());
    EXPECT_TRUE(all_are(seen, 7));
  });
}

TEST(NcclLibrary, MissingOrBlockingLibrary_HasReason) {
  const auto opened = NcclLibrary::open("libno-such-nccl.so.2");
  if (opened) GTEST_SKIP() << "this process has an NCCL already: " << (*opened)->library();
  EXPECT_EQ(opened.error().code, ErrorCode::not_found);
  ::setenv("NCCL_COMM_BLOCKING", "1", 1);
  const auto blocking = NcclLibrary::open("libno-such-nccl.so.2");
  ::unsetenv("NCCL_COMM_BLOCKING");
  ASSERT_FALSE(blocking);
  EXPECT_NE(blocking.error().text.find("NCCL_COMM_BLOCKING"), std::string::npos);
  const auto other = NcclLibrary::open("libm.so.6");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::unavailable);
}

TEST(NcclLibrary, FindsAllCallsInNamedLibrary) {
  const char* const named = std::getenv("MOBULA_TEST_NCCL_LIBRARY");
  if (named == nullptr) GTEST_SKIP() << "MOBULA_TEST_NCCL_LIBRARY is not set";
  const auto opened = NcclLibrary::open(named);
  ASSERT_TRUE(opened) << opened.error().text;
  EXPECT_GE((*opened)->version(), NcclLibrary::least_version);
  nccl_abi::UniqueId id{};
  EXPECT_EQ((*opened)->call().unique_id(&id), nccl_abi::success);
}

}  // namespace

// The other process of the misuse above.
int import_legacy(const std::string& hex, int ready) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  LegacyHandle handle{};
  for (std::size_t i = 0; i < sizeof handle.bytes; ++i) {
    handle.bytes[i] = static_cast<unsigned char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  const auto gpu = open_gpu();
  const GpuContext::Current current(*gpu);
  cuda_abi::Address at = 0;
  const int status = simulated_call<int(cuda_abi::Address*, LegacyHandle, unsigned)>(
      "cuIpcOpenMemHandle_v2")(&at, handle, 0);
  const char said = status == 0 ? 'y' : 'n';
  if (::write(ready, &said, 1) != 1) return 1;
  ::pause();
  return 0;
}

}  // namespace mobula::internal
