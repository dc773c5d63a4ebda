#include "device/gpu/check/kernel_work.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <link.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <set>
#include <vector>

#include "device/gpu/check/python/intercepted_names.h"

namespace mobula::internal::gpu_check {
namespace {

constexpr int attribute_clock_khz = 13;
constexpr int attribute_multiprocessors = 16;
constexpr int attribute_capability_minor = 76;

double elapsed_since(Time begin) {
  return std::chrono::duration<double>(monotonic_now() - begin).count();
}

std::string read_image(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {(std::istreambuf_iterator<char>(file)), {}};
}

template <class Function>
Function* driver_call(const GpuContext& context, const char* name) {
  return reinterpret_cast<Function*>(function_of_driver(context, name));
}

}  // namespace

struct KernelWork::Calls {
  int (*module_load)(void**, const void*) = nullptr;
  int (*function_of)(void**, void*, const char*) = nullptr;
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                void**, void**) = nullptr;
};

void* function_of_driver(const GpuContext& context, const char* name) {
  void* const library = ::dlopen(context.driver().library().c_str(), RTLD_NOW | RTLD_LOCAL);
  return library == nullptr ? nullptr : ::dlsym(library, name);
}

int KernelWork::attribute(int which) const {
  int value = 0;
  (void)context_->call().device_attribute(&value, which, context_->ordinal());
  return value;
}

Result<KernelWork> KernelWork::load(const std::shared_ptr<GpuContext>& context) {
  if (!context)
    return failure(ErrorCode::invalid_argument, "load kernels: the peer has no context");
  KernelWork made(context);
  auto calls = std::make_shared<Calls>();
  calls->module_load = driver_call<int(void**, const void*)>(*context, "cuModuleLoadData");
  calls->function_of =
      driver_call<int(void**, void*, const char*)>(*context, "cuModuleGetFunction");
  calls->launch = driver_call<int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                  unsigned, void*, void**, void**)>(*context, "cuLaunchKernel");
  if (calls->module_load == nullptr || calls->function_of == nullptr || calls->launch == nullptr) {
    return failure(ErrorCode::not_found, "load kernels: this driver starts no kernels");
  }
  const char* const named = std::getenv("MOBULA_GPU_KERNELS");
  const std::string directory = named == nullptr ? "." : named;
  const int major = made.attribute(cuda_abi::attribute_compute_capability_major),
            minor = made.attribute(attribute_capability_minor);
  std::string image = read_image(fmt::format("{}/kernels.sm_{}{}.cubin", directory, major, minor));
  if (image.empty()) image = read_image(directory + "/kernels.ptx");
  if (image.empty())
    return failure(ErrorCode::not_found,
                   fmt::format("load kernels: no kernels.ptx in {}", directory));
  const GpuContext::Current current(*context);
  void* module = nullptr;
  if (const int status = calls->module_load(&module, image.c_str()); status != 0)
    return context->driver().error("cuModuleLoadData", status);
  for (const auto& [function, name] :
       {std::pair{&made.spin_, "spin"}, std::pair{&made.nothing_, "nothing"},
        std::pair{&made.fault_, "fault"}}) {
    if (const int status = calls->function_of(function, module, name); status != 0)
      return context->driver().error("cuModuleGetFunction", status);
  }
  auto stream = GpuStream::create(context);
  if (!stream) return stream.error();
  made.stream_.emplace(std::move(*stream));
  made.calls_ = std::move(calls);
  return made;
}

Result<void> KernelWork::launch(void* function, unsigned blocks, unsigned threads,
                                cuda_abi::Stream stream, unsigned long long ticks) {
  void* arguments[] = {&ticks};
  return context_->driver().check("cuLaunchKernel",
                                  calls_->launch(function, blocks, 1, 1, threads, 1, 1, 0, stream,
                                                 function == spin_ ? arguments : nullptr, nullptr));
}

Result<Json> KernelWork::spin(const Json& order) {
  const GpuContext::Current current(*context_);
  auto stream = GpuStream::create(context_);
  if (!stream) return stream.error();
  spinning_.emplace(std::move(*stream));
  if (auto begun = launch(spin_, 1, 1, spinning_->get(), order.at("ticks")); !begun)
    return begun.error();
  return Json{{"spins", true}};
}

Result<Json> KernelWork::spin_repeatedly(const Json& order) {
  const GpuContext::Current current(*context_);
  const double seconds = order.at("seconds");
  const auto blocks = static_cast<unsigned>(attribute(attribute_multiprocessors)) *
                      order.value("blocks_per_multiprocessor", 1u);
  constexpr int otherwise_khz = 1'500'000;  // for a driver that does not report the clock
  const int clock_khz = attribute(attribute_clock_khz);
  const auto ticks = static_cast<unsigned long long>(clock_khz > 0 ? clock_khz : otherwise_khz) *
                     order.value("milliseconds", 2u);
  const Time begin = monotonic_now();
  int launches = 0;
  for (; elapsed_since(begin) < seconds; ++launches) {
    if (auto begun = launch(spin_, blocks, order.value("threads", 1024u), stream_->get(), ticks);
        !begun)
      return begun.error();
    if (auto done = stream_->synchronize(); !done) return done.error();
  }
  return Json{{"launches", launches}, {"seconds", elapsed_since(begin)}, {"blocks", blocks}};
}

Result<Json> KernelWork::launch_rate(const Json& order) {
  const GpuContext::Current current(*context_);
  const int count = order.at("count");
  const Time begin = monotonic_now();
  for (int i = 0; i < count; ++i) {
    if (auto begun = launch(nothing_, 1, 1, stream_->get(), 0); !begun) return begun.error();
  }
  if (auto done = stream_->synchronize(); !done) return done.error();
  return Json{{"per_second", count / elapsed_since(begin)}};
}

Result<Json> KernelWork::fault() {
  const GpuContext::Current current(*context_);
  if (auto begun = launch(fault_, 1, 1, stream_->get(), 0); !begun)
    return Json{{"failure", begun.error().text}};
  const auto done = stream_->synchronize();
  return Json{{"failure", done ? std::string() : done.error().text}};
}

Result<Json> allocation_rate(const GpuContext& context, const Json& order) {
  auto* const allocate =
      driver_call<int(cuda_abi::Address*, std::size_t)>(context, "cuMemAlloc_v2");
  auto* const release = driver_call<int(cuda_abi::Address)>(context, "cuMemFree_v2");
  if (allocate == nullptr || release == nullptr)
    return failure(ErrorCode::not_found, "measure allocations: this driver has no cuMemAlloc_v2");
  const GpuContext::Current current(context);
  const int count = order.at("count");
  const Time begin = monotonic_now();
  for (int i = 0; i < count; ++i) {
    cuda_abi::Address at = 0;
    if (auto done = context.driver().check("cuMemAlloc", allocate(&at, order.at("bytes"))); !done)
      return done.error();
    if (auto done = context.driver().check("cuMemFree", release(at)); !done) return done.error();
  }
  return Json{{"per_second", count / elapsed_since(begin)}};
}

Result<Json> allocate_directly(const GpuContext& context, const Json& order) {
  auto* const allocate =
      driver_call<int(cuda_abi::Address*, std::size_t)>(context, "cuMemAlloc_v2");
  if (allocate == nullptr)
    return failure(ErrorCode::not_found, "allocate: this driver has no cuMemAlloc_v2");
  const GpuContext::Current current(context);
  cuda_abi::Address at = 0;
  const int status = allocate(&at, order.at("bytes"));
  if (status != 0)
    return Json{{"allocated", false}, {"error", context.driver().error("cuMemAlloc", status).text}};
  return Json{{"allocated", true}};
}

Result<Json> library_path() {
  void* const library = ::dlopen(CudaDriver::library_name().c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return failure(ErrorCode::not_found,
                   fmt::format("load {}: {}", CudaDriver::library_name(), ::dlerror()));
  link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr)
    return failure(ErrorCode::not_found, "find the CUDA driver's file: dlinfo failed");
  return Json{{"path", map->l_name}};
}

Result<Json> compare_pointers(const std::string& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return failure(ErrorCode::not_found, fmt::format("load {}: {}", library, ::dlerror()));
  auto* const find =
      reinterpret_cast<cuda_abi::GetProcAddress*>(::dlsym(handle, "cuGetProcAddress_v2"));
  if (find == nullptr)
    return failure(ErrorCode::not_found, library + " has no cuGetProcAddress_v2");
  // Some functions are exported under names that no header defines any more, so every suffix is
  // tried.
  constexpr std::array suffixes{"",      "_v2",      "_v3",      "_v4",     "_ptds",
                                "_ptsz", "_v2_ptds", "_v2_ptsz", "_v3_ptsz"};
  int compared = 0, equal = 0;
  Json differ = Json::array();
  std::set<std::string> absent;
  for (const char* const name : intercepted_names) {
    std::set<const void*> exported;
    for (const char* const suffix : suffixes)
      exported.insert(::dlsym(handle, (std::string(name) + suffix).c_str()));
    bool found_any = false;
    for (const int version : {3020, 4000, 7000, 10020, 11000, 11020, 11040, 12000, 12050, 13000}) {
      for (const unsigned long long flags : {0ull, 1ull, 2ull}) {
        void* at = nullptr;
        int found = 0;
        if (find(name, &at, version, flags, &found) != 0 || at == nullptr) continue;
        found_any = true;
        ++compared;
        if (exported.contains(at)) {
          ++equal;
        } else if (differ.size() < 20) {
          differ.push_back(fmt::format("{} {} {}", name, version, flags));
        }
      }
    }
    if (!found_any) absent.insert(name);
  }
  return Json{{"compared", compared}, {"equal", equal}, {"differ", differ}, {"absent", absent}};
}

}  // namespace mobula::internal::gpu_check
