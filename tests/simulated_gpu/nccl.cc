// Functions of the simulated NCCL. Communicators start and launch on separate threads; destroy and
// abort wait for these threads.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "simulated_gpu/nccl_state.h"
#include "simulated_gpu/settings.h"
#include "simulated_gpu/taken.h"

namespace simulated_gpu {

Communicator::~Communicator() {
  if (thread.joinable()) thread.join();
  for (const int socket : to) {
    if (socket >= 0) ::close(socket);
  }
  for (const int socket : from) {
    if (socket >= 0) ::close(socket);
  }
  if (listener >= 0) {
    ::close(listener);
    ::unlink((settings().directory + "/" + self.listens).c_str());
  }
  if (taken >= 0) ::close(taken);
}

namespace {

struct Issued {
  Communicator* communicator;
  abi::Stream stream;
  Operation operation;
  Whole whole;
};
// Work of one communicator in one group.
struct Doing {
  abi::Stream stream = nullptr;
  std::vector<Operation> operations;
  Whole whole;
};
thread_local int group_depth = 0;
thread_local std::vector<Issued> group;

// One NCCL kernel at a time per device; the next one is selected at random.
class KernelSlots {
 public:
  bool take(int device, const std::atomic<bool>& stopped) {
    std::unique_lock lock(mutex_);
    Slot& location = slots_[device];
    const auto number = ++last_;
    location.waiting.push_back(number);
    while (true) {
      if (!location.busy && location.next == 0)
        location.next = location.waiting[chance_below(location.waiting.size())];
      if (stopped || (!location.busy && location.next == number)) break;
      changed_.wait_for(lock, std::chrono::milliseconds(1));
    }
    std::erase(location.waiting, number);
    if (location.next == number) location.next = 0;
    if (stopped) return false;
    location.busy = true;
    return true;
  }
  void give(int device) {
    const std::scoped_lock lock(mutex_);
    slots_[device].busy = false;
    changed_.notify_all();
  }

 private:
  struct Slot {
    bool busy = false;
    std::uint64_t next = 0;
    std::vector<std::uint64_t> waiting;
  };
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, Slot> slots_;
  std::uint64_t last_ = 0;
};
KernelSlots& slots() {
  static auto* const made = new KernelSlots;
  return *made;
}

// NCCL must be called by one thread at a time per device.
class Issuing {
 public:
  explicit Issuing(int device) : at_(inside[static_cast<std::size_t>(device)]) {
    if (at_.fetch_add(1) != 0) misuse("NCCL is issued by two threads of one device at once");
  }
  ~Issuing() { --at_; }
  Issuing(const Issuing&) = delete;
  Issuing& operator=(const Issuing&) = delete;

 private:
  static std::array<std::atomic<int>, 64> inside;
  std::atomic<int>& at_;
};
std::array<std::atomic<int>, 64> Issuing::inside{};

void wait_while_stopped_not(const Communicator& of) {
  while (!of.stopped) ::usleep(1000);
}

std::string random_name(const char* kind) {
  char text[48];
  std::snprintf(text, sizeof text, "nccl-%s-%d-%016lx", kind, static_cast<int>(::getpid()),
                static_cast<unsigned long>(chance_below(UINT64_MAX)));
  return text;
}

std::uint64_t host_of_process() {
  const char* const named = std::getenv("NCCL_HOSTID");
  const std::string text = named != nullptr ? named : settings().directory;
  std::uint64_t host = 14'695'981'039'346'656'037ULL;
  for (const char each : text)
    host = (host ^ static_cast<unsigned char>(each)) * 1'099'511'628'211ULL;
  return host;
}

void begin(Communicator& of, const std::string& root) {
  // A thread of NCCL in CUDA's default mode creates a memory pool here.
  if (simulatedGpuUnsafeCall() != 0) {
    of.state = nccl::unhandled_cuda_error;
    return;
  }
  if (hangs("init")) wait_while_stopped_not(of);
  drain(of.device);  // waits for all work of the device, as the real library does
  ::usleep(static_cast<useconds_t>(settings().init_ms * 1000));
  const nccl::Status met = of.stopped ? nccl::internal_error : meet(of, root);
  of.state = met;
}

void run_kernel(Communicator& of, const std::vector<Operation>& operations, Whole& whole) {
  if (slots().take(of.device, of.stopped)) {
    if (hangs("kernel")) wait_while_stopped_not(of);
    // A collective reads the memory when its kernel runs.
    const auto of_all =
        whole.kind == Collective::none ? std::vector<Operation>() : begin(whole, of);
    const bool moved = exchange(of, whole.kind == Collective::none ? operations : of_all);
    if (moved && whole.kind != Collective::none) finish(whole, of);
    if (moved && hangs("end")) wait_while_stopped_not(of);
    if (!moved) {
      // A kernel waits for a missing peer until it is stopped.
      if (!of.stopped) of.state = nccl::remote_error;
      wait_while_stopped_not(of);
    }
    slots().give(of.device);
  }
  --of.kernels;
}

// Establishes the needed connections, then issues the kernel on its stream.
void launch(Communicator& of, Doing doing) {
  const auto stream = doing.stream;
  // The peers are known before the data is read.
  if (doing.whole.kind != Collective::none) doing.operations = begin(doing.whole, of);
  const bool connected = !hangs("connect") && connect_peers(of, doing.operations);
  if (!connected) wait_while_stopped_not(of);
  if (connected) {
    ++of.kernels;
    const auto kept = std::make_shared<Doing>(std::move(doing));
    issue_kernel(stream, of.device, [&of, kept] { run_kernel(of, kept->operations, kept->whole); });
  }
  forbid(stream, of.device, -1);
  if (of.state == nccl::in_progress) of.state = connected ? nccl::success : nccl::internal_error;
}

nccl::Status run_group() {
  std::vector<Issued> all;
  all.swap(group);
  std::map<Communicator*, Doing> by_communicator;
  for (Issued& each : all) {
    const auto [at, fresh] = by_communicator.try_emplace(each.communicator);
    Doing& doing = at->second;
    if (!fresh && doing.stream != each.stream)
      misuse("a communicator is used on two streams in one group");
    doing.stream = each.stream;
    if (each.whole.kind != Collective::none) {
      if (!fresh) misuse("a collective and other calls in one group, which is not simulated");
      doing.whole = std::move(each.whole);
      continue;
    }
    if (doing.whole.kind != Collective::none)
      misuse("a collective and other calls in one group, which is not simulated");
    doing.operations.push_back(std::move(each.operation));
  }
  nccl::Status said = nccl::success;
  for (auto& [of, issued] : by_communicator) {
    const Issuing issuing(of->device);
    if (of->thread.joinable()) of->thread.join();
    of->state = nccl::in_progress;
    forbid(issued.stream, of->device, 1);
    of->thread = std::thread(
        [of = of, doing = std::move(issued)]() mutable { launch(*of, std::move(doing)); });
    if (!of->blocking) {
      said = nccl::in_progress;
      continue;
    }
    of->thread.join();
    said = of->state;
  }
  return said;
}

nccl::Status add(const void* at, std::size_t count, int type, int peer, Communicator* of,
                 abi::Stream stream, bool sends) {
  if (of == nullptr || type != nccl::type_bytes || peer < 0 || peer >= of->self.ranks)
    return nccl::invalid_argument;
  if (const int fault = fault_of(sends ? "ncclSend" : "ncclRecv")) return fault;
  if (of->state == nccl::in_progress) misuse("a communicator is used while it is in progress");
  if (of->revoked || of->finalized) return nccl::invalid_usage;
  if (of->state != nccl::success) return of->state;
  if (count > settings().most_bytes) return nccl::invalid_argument;
  if (peer == of->self.rank && group_depth == 0)
    misuse("a send to oneself outside a group never ends");
  Operation operation{sends, peer, count, {}, 0};
  if (count > 0) {
    operation.memory = see(reinterpret_cast<std::uintptr_t>(at), count, of->device, !sends);
    if (!operation.memory.found) misuse("NCCL is given a range that is not memory of the device");
    if (operation.memory.pieces.size() != 1) misuse("NCCL is given memory of several mappings");
  }
  group.push_back({of, stream, std::move(operation), {}});
  return group_depth > 0 ? nccl::success : run_group();
}

Seen see_all(const void* at, std::size_t bytes, int device, bool writes) {
  if (bytes == 0) return {};
  Seen seen = see(reinterpret_cast<std::uintptr_t>(at), bytes, device, writes);
  if (!seen.found) misuse("NCCL is given a range that is not memory of the device");
  if (seen.pieces.size() != 1) misuse("NCCL is given memory of several mappings");
  return seen;
}

nccl::Status add_whole(const char* name, Whole whole, const void* from, void* to,
                       nccl::Communicator handle, abi::Stream stream) {
  auto* const of = reinterpret_cast<Communicator*>(handle);
  if (of == nullptr || size_of_type(whole.type) == 0 || whole.reduction < 0 ||
      whole.reduction > nccl::op_average || whole.root < 0 || whole.root >= of->self.ranks) {
    return nccl::invalid_argument;
  }
  if (const int fault = fault_of(name)) return fault;
  if (of->state == nccl::in_progress) misuse("a communicator is used while it is in progress");
  if (of->revoked || of->finalized) return nccl::invalid_usage;
  if (of->state != nccl::success) return of->state;
  const std::size_t reads = bytes_from(whole, *of), writes = bytes_to(whole, *of);
  if (reads > settings().most_bytes || writes > settings().most_bytes)
    return nccl::invalid_argument;
  whole.from = see_all(from, reads, of->device, false);
  whole.to = see_all(to, writes, of->device, true);
  // In place means that the output is at the rank's own part of the input; otherwise the two must
  // not overlap.
  if (reads > 0 && writes > 0) {
    const auto a = reinterpret_cast<std::uintptr_t>(from), b = reinterpret_cast<std::uintptr_t>(to);
    const std::size_t part =
        whole.count * size_of_type(whole.type) * static_cast<std::size_t>(of->self.rank);
    const bool in_place = whole.kind == Collective::all_gather       ? a == b + part
                          : whole.kind == Collective::reduce_scatter ? b == a + part
                                                                     : a == b;
    if (!in_place && a < b + writes && b < a + reads)
      misuse("a collective whose memory overlaps itself");
  }
  group.push_back({of, stream, {}, std::move(whole)});
  return group_depth > 0 ? nccl::success : run_group();
}

Communicator* of_handle(nccl::Communicator handle) {
  return reinterpret_cast<Communicator*>(handle);
}

void wait_for_kernels(const Communicator& of) {
  while (of.kernels > 0) ::usleep(500);
}

[[noreturn]] void never() {
  while (true) ::pause();
}

}  // namespace
}  // namespace simulated_gpu

using namespace simulated_gpu;

extern "C" {

int ncclGetVersion(int* version) {
  *version = settings().nccl;
  return nccl::success;
}

const char* ncclGetErrorString(int status) {
  static const char* const names[] = {"no error",
                                      "unhandled cuda error",
                                      "unhandled system error",
                                      "internal error",
                                      "invalid argument",
                                      "invalid usage",
                                      "remote process exited or there was a network error",
                                      "NCCL operation in progress"};
  return status >= 0 && status < 8 ? names[status] : "unknown result code";
}

// The caller is the rendezvous of the ranks and must live until they have met.
int ncclGetUniqueId(nccl::UniqueId* id) {
  if (const int fault = fault_of("ncclGetUniqueId")) return fault;
  const std::string name = random_name("root");
  const int listener = listen_at(name);
  if (listener < 0) return nccl::system_error;
  std::thread(serve_root, listener).detach();
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->bytes, sizeof id->bytes, "%s", name.c_str());
  return nccl::success;
}

int ncclCommInitRankConfig(nccl::Communicator* to, int ranks, nccl::UniqueId id, int rank,
                           nccl::Config* config) {
  if (ranks < 1 || rank < 0 || rank >= ranks || config->magic != 0xcafebeef)
    return nccl::invalid_argument;
  if (const int fault = fault_of("ncclCommInitRankConfig")) return fault;
  const int device = simulatedGpuCurrent();
  if (device < 0) return nccl::unhandled_cuda_error;
  const Issuing issuing(device);
  const int location = simulatedGpuLocation(device);
  const Taken taken = take(location, Taking::communicator, settings().communicator);
  if (taken.fd < 0) return nccl::unhandled_cuda_error;
  auto* const made = new Communicator;
  const char* const forced = std::getenv("NCCL_COMM_BLOCKING");
  made->blocking = forced != nullptr ? std::strcmp(forced, "0") != 0 : config->blocking != 0;
  made->device = device;
  made->taken = taken.fd;
  const char* const several = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  made->self = {rank,
                ranks,
                settings().nccl,
                location,
                host_of_process(),
                several != nullptr && *several == '1',
                {}};
  std::snprintf(made->self.listens, sizeof made->self.listens, "%s", random_name("rank").c_str());
  made->listener = listen_at(made->self.listens);
  made->to.assign(static_cast<std::size_t>(ranks), -1);
  made->from = made->to;
  made->thread = std::thread([made, root = std::string(id.bytes)] { begin(*made, root); });
  *to = reinterpret_cast<nccl::Communicator>(made);
  if (!made->blocking) return nccl::in_progress;
  made->thread.join();
  return made->state;
}

int ncclCommGetAsyncError(nccl::Communicator handle, int* status) {
  *status = of_handle(handle)->state;
  return nccl::success;
}

int ncclGroupStart() {
  ++group_depth;
  return nccl::success;
}

int ncclGroupEnd() {
  if (group_depth == 0) return nccl::invalid_usage;
  return --group_depth > 0 ? nccl::success : run_group();
}

int ncclSend(const void* at, std::size_t count, int type, int peer, nccl::Communicator handle,
             abi::Stream stream) {
  return add(at, count, type, peer, of_handle(handle), stream, true);
}

int ncclRecv(void* at, std::size_t count, int type, int peer, nccl::Communicator handle,
             abi::Stream stream) {
  return add(at, count, type, peer, of_handle(handle), stream, false);
}

int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root,
                  nccl::Communicator handle, abi::Stream stream) {
  return add_whole("ncclBroadcast", {Collective::broadcast, count, type, 0, root, {}, {}, {}}, from,
                   to, handle, stream);
}

int ncclAllReduce(const void* from, void* to, std::size_t count, int type, int reduction,
                  nccl::Communicator handle, abi::Stream stream) {
  return add_whole("ncclAllReduce", {Collective::all_reduce, count, type, reduction, 0, {}, {}, {}},
                   from, to, handle, stream);
}

int ncclReduce(const void* from, void* to, std::size_t count, int type, int reduction, int root,
               nccl::Communicator handle, abi::Stream stream) {
  return add_whole("ncclReduce", {Collective::reduce, count, type, reduction, root, {}, {}, {}},
                   from, to, handle, stream);
}

int ncclAllGather(const void* from, void* to, std::size_t count, int type,
                  nccl::Communicator handle, abi::Stream stream) {
  return add_whole("ncclAllGather", {Collective::all_gather, count, type, 0, 0, {}, {}, {}}, from,
                   to, handle, stream);
}

int ncclReduceScatter(const void* from, void* to, std::size_t count, int type, int reduction,
                      nccl::Communicator handle, abi::Stream stream) {
  return add_whole("ncclReduceScatter",
                   {Collective::reduce_scatter, count, type, reduction, 0, {}, {}, {}}, from, to,
                   handle, stream);
}

int ncclCommFinalize(nccl::Communicator handle) {
  Communicator& of = *of_handle(handle);
  if (of.state == nccl::in_progress) misuse("a communicator is finalized while it is in progress");
  if (of.revoked || of.finalized) return nccl::invalid_usage;
  of.finalized = true;
  of.state = nccl::in_progress;
  if (of.thread.joinable()) of.thread.join();
  of.thread = std::thread([&of] {
    wait_for_kernels(of);
    if (of.state == nccl::in_progress) of.state = nccl::success;
  });
  return of.blocking ? nccl::success : nccl::in_progress;
}

int ncclCommRevoke(nccl::Communicator handle, int) {
  if (settings().lacks.contains("ncclCommRevoke")) return nccl::invalid_usage;
  Communicator& of = *of_handle(handle);
  of.stopped = true;
  of.revoked = true;
  if (of.thread.joinable()) of.thread.join();
  of.state = nccl::in_progress;
  of.thread = std::thread([&of] {
    wait_for_kernels(of);
    of.state = nccl::success;
  });
  return of.blocking ? nccl::success : nccl::in_progress;
}

// Waits for work in progress; without an earlier revoke, for the peers, too, as the real library
// may.
int ncclCommDestroy(nccl::Communicator handle) {
  if (hangs("destroy")) never();
  Communicator* const of = of_handle(handle);
  if (of->thread.joinable()) of->thread.join();
  wait_for_kernels(*of);
  if (!of->revoked) {
    for (std::size_t peer = 0; peer < of->to.size(); ++peer) {
      const int socket = of->to[peer];
      char end = 0;
      if (socket < 0 || static_cast<int>(peer) == of->self.rank) continue;
      ::shutdown(socket, SHUT_WR);
      while (::read(socket, &end, 1) > 0) {
      }
    }
  }
  delete of;
  return nccl::success;
}

// Stops work in progress, waits for its end, and joins the starting thread.
int ncclCommAbort(nccl::Communicator handle) {
  Communicator* const of = of_handle(handle);
  of->stopped = true;
  if (hangs("abort")) never();
  ::usleep(1000);
  if (of->thread.joinable()) of->thread.join();
  wait_for_kernels(*of);
  delete of;
  return nccl::success;
}

}  // extern "C"
