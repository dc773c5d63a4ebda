// Records the answers of this machine's GPU libraries to about eighty valid and invalid calls. Each
// JSON line has the call, its special conditions, its status, and the status that Mobula expects.
// For real hardware, which the simulation must match, and for the simulation. Needs one GPU and a
// few MiB of its memory. Exits with 1 if an answer is unexpected, with 2 without a GPU.
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "device/gpu/cuda_driver.h"
#include "device/gpu/nccl_library.h"

namespace mobula::internal {
namespace {

class Notes {
 public:
  void note(const char* call, const char* what, int status, int expected) {
    const bool same = status == expected;
    others_ += same ? 0 : 1;
    fmt::print(
        "{{\"call\": \"{}\", \"what\": \"{}\", \"status\": {}, \"expected\": {}, \"same\": {}}}\n",
        call, what, status, expected, same);
    std::fflush(stdout);
  }
  void fact(const char* what, const std::string& value) {
    fmt::print("{{\"fact\": \"{}\", \"value\": \"{}\"}}\n", what, value);
  }
  bool all_same() const { return others_ == 0; }

 private:
  int others_ = 0;
};

cuda_abi::Address address_of(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

// Shared state of the parts of the probe.
struct Probe {
  const CudaDriver& driver;
  const CudaFunctions& call;
  Notes& notes;
  std::size_t unit = 0;
  cuda_abi::AllocationProperties wanted{};
  cuda_abi::MemoryHandle handle = 0;
  cuda_abi::Address at = 0;
  cuda_abi::Stream stream = nullptr;
  cuda_abi::Context context = nullptr;
};

void probe_devices(Probe& p) {
  int number = 0, device = 0;
  cuda_abi::Uuid uuid{};
  std::size_t bytes = 0;
  std::array<char, 256> name{};
  Notes& n = p.notes;
  n.note("cuDeviceGetCount", "before cuInit", p.call.device_count(&number),
         cuda_abi::not_initialized);
  n.note("cuInit", "", p.call.init(0), 0);
  n.note("cuInit", "again", p.call.init(0), 0);
  n.note("cuDriverGetVersion", "", p.call.driver_version(&number), 0);
  n.fact("driver", std::to_string(number));
  n.note("cuDeviceGetCount", "", p.call.device_count(&number), 0);
  n.fact("devices", std::to_string(number));
  n.note("cuDeviceGet", "of ordinal 9999", p.call.device_at(&device, 9'999),
         cuda_abi::invalid_device);
  n.note("cuDeviceGet", "", p.call.device_at(&device, 0), 0);
  n.note("cuDeviceGetName", "", p.call.device_name(name.data(), 255, 0), 0);
  n.fact("name", name.data());
  n.note("cuDeviceGetUuid", "", p.call.device_uuid(&uuid, 0), 0);
  n.note("cuDeviceTotalMem", "", p.call.device_memory(&bytes, 0), 0);
  n.fact("bytes", std::to_string(bytes));
  for (const int attribute :
       {cuda_abi::attribute_unified_addressing, cuda_abi::attribute_virtual_memory,
        cuda_abi::attribute_posix_fd_handles, cuda_abi::attribute_compute_capability_major}) {
    n.note("cuDeviceGetAttribute", "", p.call.device_attribute(&number, attribute, 0), 0);
    n.fact(fmt::format("attribute {}", attribute).c_str(), std::to_string(number));
  }
  n.note("cuDeviceGetAttribute", "of device 9999", p.call.device_attribute(&number, 41, 9'999),
         cuda_abi::invalid_device);
  n.note("cuDeviceCanAccessPeer", "itself", p.call.can_access_peer(&number, 0, 0), 0);
  n.fact("reaches itself", std::to_string(number));
}

void probe_context(Probe& p) {
  Notes& n = p.notes;
  int least = 0, greatest = 0;
  std::size_t free = 0, total = 0;
  n.note("cuMemGetInfo", "without a context", p.call.memory_left(&free, &total),
         cuda_abi::invalid_context);
  n.note("cuCtxSynchronize", "without a context", p.call.context_synchronize(),
         cuda_abi::invalid_context);
  n.note("cuDevicePrimaryCtxRetain", "", p.call.context_retain(&p.context, 0), 0);
  n.note("cuCtxPushCurrent", "", p.call.context_push(p.context), 0);
  n.note("cuCtxGetStreamPriorityRange", "", p.call.priority_range(&least, &greatest), 0);
  n.note("cuMemGetInfo", "", p.call.memory_left(&free, &total), 0);
  n.fact("free after the context", std::to_string(free));
  n.note("cuStreamCreateWithPriority", "",
         p.call.stream_create(&p.stream, cuda_abi::stream_non_blocking, greatest), 0);
  n.note("cuStreamQuery", "idle", p.call.stream_query(p.stream), 0);
  int capturing = 0, mode = cuda_abi::capture_mode_relaxed;
  n.note("cuStreamIsCapturing", "", p.call.stream_is_capturing(p.stream, &capturing), 0);
  n.note("cuThreadExchangeStreamCaptureMode", "", p.call.exchange_capture_mode(&mode), 0);
  n.note("cuThreadExchangeStreamCaptureMode", "back", p.call.exchange_capture_mode(&mode), 0);
}

void probe_memory(Probe& p) {
  Notes& n = p.notes;
  p.wanted.type = cuda_abi::allocation_pinned;
  p.wanted.handle_types = cuda_abi::handle_posix_fd;
  p.wanted.location = {cuda_abi::location_device, 0};
  n.note("cuMemGetAllocationGranularity", "", p.call.memory_granularity(&p.unit, &p.wanted, 0), 0);
  n.fact("granularity", std::to_string(p.unit));
  cuda_abi::MemoryHandle other = 0;
  n.note("cuMemCreate", "of an odd size", p.call.memory_create(&other, 1'000, &p.wanted, 0),
         cuda_abi::invalid_value);
  n.note("cuMemCreate", "of nothing", p.call.memory_create(&other, 0, &p.wanted, 0),
         cuda_abi::invalid_value);
  n.note("cuMemCreate", "of 4 PiB",
         p.call.memory_create(&other, std::size_t{1} << 52, &p.wanted, 0), cuda_abi::out_of_memory);
  n.note("cuMemCreate", "", p.call.memory_create(&p.handle, p.unit, &p.wanted, 0), 0);
  n.note("cuMemAddressReserve", "of nothing", p.call.address_reserve(&p.at, 0, 0, 0, 0),
         cuda_abi::invalid_value);
  n.note("cuMemAddressReserve", "", p.call.address_reserve(&p.at, p.unit, 0, 0, 0), 0);
  n.note("cuMemMap", "larger than it is", p.call.memory_map(p.at, 2 * p.unit, 0, p.handle, 0),
         cuda_abi::not_supported);
  n.note("cuMemMap", "", p.call.memory_map(p.at, p.unit, 0, p.handle, 0), 0);
  n.note("cuMemMap", "where something is mapped", p.call.memory_map(p.at, p.unit, 0, p.handle, 0),
         cuda_abi::invalid_value);
  const cuda_abi::AccessDescription access{{cuda_abi::location_device, 0},
                                           cuda_abi::access_read_write};
  n.note("cuMemSetAccess", "", p.call.memory_set_access(p.at, p.unit, &access, 1), 0);
}

void probe_copies(Probe& p) {
  Notes& n = p.notes;
  std::vector<unsigned char> host(4'096);
  const auto here = address_of(host.data());
  n.note("cuMemsetD8Async", "", p.call.fill_async(p.at, 7, host.size(), p.stream), 0);
  n.note("cuMemcpyAsync", "to the host", p.call.copy_async(here, p.at, host.size(), p.stream), 0);
  n.note("cuStreamSynchronize", "", p.call.stream_synchronize(p.stream), 0);
  n.fact("bytes came", host.front() == 7 && host.back() == 7 ? "yes" : "no");
  n.note("cuMemcpyAsync", "to the device", p.call.copy_async(p.at, here, host.size(), p.stream), 0);
  n.note("cuMemcpyAsync", "of nothing", p.call.copy_async(p.at, here, 0, p.stream), 0);
  n.note("cuMemcpyAsync", "on the device", p.call.copy_async(p.at + 8'192, p.at, 4'096, p.stream),
         0);
  n.note("cuMemcpyAsync", "to address 0", p.call.copy_async(0, p.at, 16, p.stream),
         cuda_abi::invalid_value);
  cuda_abi::Copy2D rows{};
  rows.source_type = rows.target_type = cuda_abi::memory_unified;
  rows.source_device = p.at;
  rows.source_pitch = 64;
  rows.target_device = p.at + 8'192;
  rows.target_pitch = rows.width_bytes = 16;
  rows.height = 8;
  n.note("cuMemcpy2DAsync", "", p.call.copy_2d_async(&rows, p.stream), 0);
  rows.source_pitch = 8;
  n.note("cuMemcpy2DAsync", "rows that overlap", p.call.copy_2d_async(&rows, p.stream),
         cuda_abi::invalid_value);
  int kinds[] = {cuda_abi::pointer_memory_type, cuda_abi::pointer_is_managed,
                 cuda_abi::pointer_device_ordinal};
  int kind = -1, managed = -1, ordinal = -1;
  void* values[] = {&kind, &managed, &ordinal};
  n.note("cuPointerGetAttributes", "of the device",
         p.call.pointer_attributes(3, kinds, values, p.at), 0);
  n.fact("attributes", fmt::format("{} {} {}", kind, managed, ordinal));
  n.note("cuPointerGetAttributes", "of the host", p.call.pointer_attributes(3, kinds, values, here),
         0);
  n.fact("attributes", fmt::format("{} {} {}", kind, managed, ordinal));
  const char* name = nullptr;
  n.note("cuGetErrorName", "", p.call.error_name(2, &name), 0);
  n.note("cuGetErrorName", "of none", p.call.error_name(123'456, &name), cuda_abi::invalid_value);
}

void probe_events(Probe& p) {
  Notes& n = p.notes;
  cuda_abi::Event event = nullptr;
  n.note("cuEventCreate", "", p.call.event_create(&event, cuda_abi::event_no_timing), 0);
  n.note("cuEventQuery", "never recorded", p.call.event_query(event), 0);
  n.note("cuEventRecord", "", p.call.event_record(event, p.stream), 0);
  n.note("cuStreamWaitEvent", "", p.call.stream_wait_event(p.stream, event, 0), 0);
  n.note("cuEventSynchronize", "", p.call.event_synchronize(event), 0);
  n.note("cuEventQuery", "", p.call.event_query(event), 0);
  n.note("cuCtxSynchronize", "", p.call.context_synchronize(), 0);
  n.note("cuEventDestroy", "", p.call.event_destroy(event), 0);
}

void probe_descriptors(Probe& p) {
  Notes& n = p.notes;
  int fd = -1;
  n.note("cuMemExportToShareableHandle", "",
         p.call.memory_export(&fd, p.handle, cuda_abi::handle_posix_fd, 0), 0);
  n.fact("closed on exec", (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0 ? "yes" : "no");
  struct stat status {};
  ::fstat(fd, &status);
  n.fact("kind of descriptor", fmt::format("{:o} {}", status.st_mode & S_IFMT, status.st_size));
  const auto by_number = [](int number) {
    return reinterpret_cast<void*>(static_cast<std::intptr_t>(number));
  };
  cuda_abi::MemoryHandle imported = 0;
  n.note("cuMemImportFromShareableHandle", "exported by this process",
         p.call.memory_import(&imported, by_number(fd), cuda_abi::handle_posix_fd), 0);
  ::close(fd);
  cuda_abi::Address second = 0;
  n.note("cuMemAddressReserve", "a second one", p.call.address_reserve(&second, p.unit, 0, 0, 0),
         0);
  n.note("cuMemMap", "imported memory", p.call.memory_map(second, p.unit, 0, imported, 0), 0);
  const cuda_abi::AccessDescription access{{cuda_abi::location_device, 0}, cuda_abi::access_read};
  n.note("cuMemSetAccess", "to read", p.call.memory_set_access(second, p.unit, &access, 1), 0);
  unsigned char seen = 0;
  (void)p.call.fill_async(p.at, 9, 1, p.stream);
  n.note("cuMemcpyAsync", "by the second mapping",
         p.call.copy_async(address_of(&seen), second, 1, p.stream), 0);
  n.note("cuStreamSynchronize", "", p.call.stream_synchronize(p.stream), 0);
  n.fact("the same bytes", seen == 9 ? "yes" : "no");
  n.note("cuMemUnmap", "", p.call.memory_unmap(second, p.unit), 0);
  n.note("cuMemAddressFree", "", p.call.address_free(second, p.unit), 0);
  n.note("cuMemRelease", "imported memory", p.call.memory_release(imported), 0);
  const int other = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  n.note("cuMemImportFromShareableHandle", "of /dev/null",
         p.call.memory_import(&imported, by_number(other), cuda_abi::handle_posix_fd),
         cuda_abi::unknown);
  ::close(other);
}

nccl_abi::Status settled(const NcclFunctions& call, nccl_abi::Communicator communicator) {
  nccl_abi::Status state = nccl_abi::in_progress;
  for (int i = 0; i < 60'000 && state == nccl_abi::in_progress; ++i) {
    (void)call.async_error(communicator, &state);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return state;
}

// A function that Mobula itself does not use. Null if the driver lacks it.
template <class Function>
Function* call_of_driver(const Probe& p, const char* name) {
  void* const library = ::dlopen(p.driver.library().c_str(), RTLD_NOW);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library, name));
}

// Result of a call during a capture, and of the end of the capture.
struct Expected {
  int status = 0;
  int end = 0;
};
constexpr int invalidated = 901;
constexpr Expected breaks{cuda_abi::stream_capture_unsupported, invalidated};

// Runs `during` on another thread while this thread captures a stream in CUDA's default mode. The
// other thread is in the default mode, too, or in relaxed mode.
void while_captured(Probe& p, const std::string& call, const std::string& what, bool relaxed,
                    Expected expected, const std::function<int()>& during) {
  auto* const begin = call_of_driver<int(cuda_abi::Stream, int)>(p, "cuStreamBeginCapture_v2");
  auto* const end = call_of_driver<int(cuda_abi::Stream, void**)>(p, "cuStreamEndCapture");
  auto* const destroy = call_of_driver<int(void*)>(p, "cuGraphDestroy");
  if (begin == nullptr || end == nullptr || destroy == nullptr) return;
  cuda_abi::Stream stream = nullptr;
  (void)p.call.stream_create(&stream, cuda_abi::stream_non_blocking, 0);
  constexpr int default_mode = 0;
  p.notes.note("cuStreamBeginCapture", "", begin(stream, default_mode), 0);
  (void)p.call.fill_async(p.at, 9, 4'096, stream);
  int status = 0;
  std::thread([&] {
    int mode = relaxed ? cuda_abi::capture_mode_relaxed : default_mode;
    cuda_abi::Context popped = nullptr;
    (void)p.call.context_push(p.context);
    (void)p.call.exchange_capture_mode(&mode);
    status = during();
    (void)p.call.context_pop(&popped);
  }).join();
  void* graph = nullptr;
  const int ended = end(stream, &graph);
  if (graph != nullptr) (void)destroy(graph);
  (void)p.call.stream_destroy(stream);
  const std::string when = what + (what.empty() ? "" : ", ") +
                           (relaxed ? "in relaxed mode during a capture" : "during a capture");
  p.notes.note(call.c_str(), when.c_str(), status, expected.status);
  p.notes.note("cuStreamEndCapture", (call + ", " + when).c_str(), ended, expected.end);
}

void probe_captures(Probe& p) {
  cuda_abi::Event event = nullptr;
  (void)p.call.event_create(&event, cuda_abi::event_no_timing);
  (void)p.call.event_record(event, p.stream);
  (void)p.call.stream_synchronize(p.stream);
  std::size_t free = 0, total = 0;
  cuda_abi::MemoryHandle handle = 0;
  void* host = nullptr;
  auto* const allocate = call_of_driver<int(cuda_abi::Address*, std::size_t)>(p, "cuMemAlloc_v2");
  auto* const release = call_of_driver<int(cuda_abi::Address)>(p, "cuMemFree_v2");
  if (allocate == nullptr || release == nullptr) return;
  cuda_abi::Address got = 0;
  int capturing = 0;
  struct Row {
    const char *call, *what;
    Expected in_default_mode, in_relaxed_mode;
    std::function<int()> during;
  };
  const std::vector<Row> rows{
      {"cuMemGetInfo", "", {}, {}, [&] { return p.call.memory_left(&free, &total); }},
      {"cuMemAlloc", "", breaks, {}, [&] { return allocate(&got, 4'096); }},
      {"cuMemAlloc", "of nothing", breaks, {1, 0}, [&] { return allocate(&got, 0); }},
      {"cuMemFree", "of address 0", breaks, {}, [&] { return release(0); }},
      {"cuMemHostAlloc",
       "of nothing",
       breaks,
       {},
       [&] { return p.call.host_allocate(&host, 0, 0); }},
      {"cuMemCreate",
       "of nothing",
       {1, 0},
       {1, 0},
       [&] { return p.call.memory_create(&handle, 0, &p.wanted, 0); }},
      {"cuEventQuery", "of another stream", breaks, {}, [&] { return p.call.event_query(event); }},
      {"cuEventQuery",
       "of no event",
       {400, 0},
       {400, 0},
       [&] { return p.call.event_query(nullptr); }},
      {"cuEventSynchronize",
       "of another stream",
       breaks,
       {},
       [&] { return p.call.event_synchronize(event); }},
      {"cuEventSynchronize",
       "of no event",
       {400, 0},
       {400, 0},
       [&] { return p.call.event_synchronize(nullptr); }},
      {"cuStreamQuery",
       "of another stream",
       breaks,
       {},
       [&] { return p.call.stream_query(p.stream); }},
      {"cuStreamSynchronize",
       "of another stream",
       breaks,
       {},
       [&] { return p.call.stream_synchronize(p.stream); }},
      {"cuStreamIsCapturing",
       "legacy stream",
       {},
       {},
       [&] { return p.call.stream_is_capturing(nullptr, &capturing); }},
      {"cuStreamCreateWithPriority",
       "",
       {},
       {},
       [&] {
         cuda_abi::Stream made = nullptr;
         const int status = p.call.stream_create(&made, cuda_abi::stream_non_blocking, 0);
         if (made != nullptr) (void)p.call.stream_destroy(made);
         return status;
       }},
      {"cuEventCreate",
       "",
       {},
       {},
       [&] {
         cuda_abi::Event made = nullptr;
         const int status = p.call.event_create(&made, cuda_abi::event_no_timing);
         if (made != nullptr) (void)p.call.event_destroy(made);
         return status;
       }},
      {"cuCtxSynchronize", "", breaks, breaks, [&] { return p.call.context_synchronize(); }},
  };
  for (const Row& row : rows) {
    while_captured(p, row.call, row.what, false, row.in_default_mode, row.during);
    while_captured(p, row.call, row.what, true, row.in_relaxed_mode, row.during);
  }
  if (got != 0) (void)release(got);
  (void)p.call.event_destroy(event);
}

// A communicator of one rank that opens, and moves bytes, while another thread captures.
void probe_nccl_captures(Probe& p) {
  const auto library = NcclLibrary::open();
  if (!library) return;
  const NcclFunctions& call = (*library)->call();
  nccl_abi::Communicator communicator = nullptr;
  const auto opens = [&] {
    nccl_abi::UniqueId id{};
    (void)call.unique_id(&id);
    nccl_abi::Config config;
    config.blocking = 0;
    config.max_ctas = 1;
    const int begun = call.init_rank(&communicator, 1, id, 0, &config);
    return begun == nccl_abi::in_progress ? settled(call, communicator) : begun;
  };
  auto* const at = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(p.at));
  const auto moves = [&] {
    (void)call.group_start();
    (void)call.send(at + 16'384, 4'096, nccl_abi::type_bytes, 0, communicator, p.stream);
    (void)call.receive(at + 32'768, 4'096, nccl_abi::type_bytes, 0, communicator, p.stream);
    const int begun = call.group_end();
    const int end = begun == nccl_abi::in_progress ? settled(call, communicator) : begun;
    if (end != 0) return end;
    for (int i = 0; i < 5'000; ++i) {
      if (const int status = p.call.stream_query(p.stream); status != cuda_abi::not_ready)
        return status;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return static_cast<int>(cuda_abi::not_ready);
  };
  // A thread of NCCL that is in the default mode opens it.
  constexpr Expected breaks_nccl{nccl_abi::unhandled_cuda_error, invalidated};
  while_captured(p, "ncclCommInitRankConfig", "first", true, breaks_nccl, opens);
  p.notes.note("ncclCommInitRankConfig", "after a capture", opens(), 0);
  while_captured(p, "ncclGroupEnd", "first", true, {}, moves);
  p.notes.note("ncclGroupEnd", "after a capture", moves(), 0);
  while_captured(p, "ncclGroupEnd", "", true, {}, moves);
  (void)call.destroy(communicator);
  while_captured(p, "ncclCommInitRankConfig", "", true, breaks_nccl, opens);
}

// A single rank that sends to itself.
void probe_nccl(Probe& p) {
  Notes& n = p.notes;
  const auto library = NcclLibrary::open();
  if (!library) return n.fact("nccl", library.error().text);
  n.fact("nccl", nccl_version_text((*library)->version()));
  const NcclFunctions& call = (*library)->call();
  for (const bool revokes : {false, true}) {
    nccl_abi::UniqueId id{};
    n.note("ncclGetUniqueId", "", call.unique_id(&id), 0);
    nccl_abi::Config config;
    config.blocking = 0;
    config.max_ctas = 1;
    nccl_abi::Communicator communicator = nullptr;
    n.note("ncclCommInitRankConfig", "without blocking",
           call.init_rank(&communicator, 1, id, 0, &config), nccl_abi::in_progress);
    n.note("ncclCommGetAsyncError", "begun", settled(call, communicator), 0);
    auto* const at = reinterpret_cast<std::byte*>(static_cast<std::uintptr_t>(p.at));
    n.note("ncclGroupStart", "", call.group_start(), 0);
    n.note("ncclSend", "", call.send(at, 4'096, nccl_abi::type_bytes, 0, communicator, p.stream),
           0);
    n.note("ncclRecv", "",
           call.receive(at + 8'192, 4'096, nccl_abi::type_bytes, 0, communicator, p.stream), 0);
    n.note("ncclGroupEnd", "", call.group_end(), nccl_abi::in_progress);
    n.note("ncclCommGetAsyncError", "after a group", settled(call, communicator), 0);
    n.note("cuStreamSynchronize", "after a group", p.call.stream_synchronize(p.stream), 0);
    if (!revokes || call.revoke == nullptr) {
      n.note("ncclCommFinalize", "", call.finalize(communicator), nccl_abi::in_progress);
      n.note("ncclCommGetAsyncError", "finalized", settled(call, communicator), 0);
      n.note("ncclCommDestroy", "", call.destroy(communicator), 0);
    } else {
      n.note("ncclCommRevoke", "", call.revoke(communicator, 0), nccl_abi::in_progress);
      n.note("ncclCommGetAsyncError", "revoked", settled(call, communicator), 0);
      n.note("ncclCommDestroy", "a revoked communicator", call.destroy(communicator), 0);
    }
  }
}

void probe_end(Probe& p) {
  Notes& n = p.notes;
  std::size_t free = 0, total = 0;
  cuda_abi::Context popped = nullptr;
  n.note("cuMemUnmap", "", p.call.memory_unmap(p.at, p.unit), 0);
  n.note("cuMemAddressFree", "", p.call.address_free(p.at, p.unit), 0);
  n.note("cuMemRelease", "", p.call.memory_release(p.handle), 0);
  n.note("cuMemGetInfo", "at the end", p.call.memory_left(&free, &total), 0);
  n.fact("free at the end", std::to_string(free));
  n.note("cuStreamDestroy", "", p.call.stream_destroy(p.stream), 0);
  n.note("cuCtxPopCurrent", "", p.call.context_pop(&popped), 0);
  n.note("cuCtxPopCurrent", "with none", p.call.context_pop(&popped), cuda_abi::invalid_context);
  n.note("cuDevicePrimaryCtxRelease", "", p.call.context_release(0), 0);
}

int run() {
  Notes notes;
  const auto driver = CudaDriver::open();
  if (!driver) {
    notes.fact("no driver", driver.error().text);
    return 2;
  }
  Probe probe{**driver, (*driver)->call(), notes};
  probe_devices(probe);
  int count = 0;
  if (probe.call.device_count(&count) != cuda_abi::success || count == 0) return 2;
  probe_context(probe);
  probe_memory(probe);
  probe_copies(probe);
  probe_events(probe);
  probe_descriptors(probe);
  probe_captures(probe);
  probe_nccl_captures(probe);
  probe_nccl(probe);
  probe_end(probe);
  return notes.all_same() ? 0 : 1;
}

}  // namespace
}  // namespace mobula::internal

int main() { return mobula::internal::run(); }
