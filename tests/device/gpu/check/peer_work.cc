// Orders that peers execute on the GPU.
#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include "device/gpu/check/exchange_work.h"
#include "device/gpu/check/kernel_work.h"
#include "device/gpu/check/peers.h"
#include "device/gpu/device_arena.h"
#include "device/gpu/nccl_library.h"

namespace mobula::internal::gpu_check {
namespace {

constexpr std::uint64_t piece = 8u << 20;  // bytes that the host compares at a time

cuda_abi::Address address_of(const void* at) { return reinterpret_cast<std::uintptr_t>(at); }

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class Work {
 public:
  Result<Json> carry_out(const Json& order, std::vector<Fd>& fds, std::vector<Fd>& answer_fds) {
    const std::string what = order.at("do");
    if (what == "open") return open();
    if (what == "make") return make(order, answer_fds);
    if (what == "import") return import(order, fds);
    if (what == "check") return check(order);
    if (what == "copies") return copies(order);
    if (what == "by host") return by_host(order);
    if (what == "share") return share(order);
    if (what == "spin" || what == "spin repeatedly" || what == "launch rate" || what == "fault")
      return kernel(what, order);
    if (what == "allocation rate" || what == "allocate") return direct(what, order);
    if (what == "memory") return memory();
    if (what == "library path") return library_path();
    if (what == "pointers") return compare_pointers(CudaDriver::library_name());
    if (what == "exchange") return start_exchange(order);
    if (what == "publish" || what == "pull" || what == "retire") return exchange(what, order);
    if (what == "begin capture") return begin_capture(order);
    if (what == "end capture") return end_capture();
    if (what == "fork") return fork_once();
    if (what == "nccl id") return nccl_id();
    if (what == "nccl join") return nccl_join(order);
    if (what == "nccl ring") return nccl_ring(order);
    return failure(ErrorCode::invalid_argument, "a peer knows no " + what);
  }

 private:
  Result<Json> open() {
    const Time begin = monotonic_now();
    const auto driver = CudaDriver::open();
    if (!driver) return driver.error();
    const auto visible = GpuContext::visible(**driver);
    if (!visible) return visible.error();
    if (visible->empty()) return failure(ErrorCode::not_found, "open GPU: no device is visible");
    auto context = GpuContext::open(*driver, visible->front());
    if (!context) return context.error();
    context_ = std::move(*context);
    auto stream = GpuStream::create(context_);
    if (!stream) return stream.error();
    stream_.emplace(std::move(*stream));
    const auto memory = context_->memory();
    return Json{{"name", context_->name()},
                {"seconds", std::chrono::duration<double>(monotonic_now() - begin).count()},
                {"driver", (*driver)->version()},
                {"total_bytes", memory ? memory->total_bytes : 0},
                {"free_bytes", memory ? memory->free_bytes : 0}};
  }

  Result<void> fill(std::span<std::byte> bytes, int value) {
    const GpuContext::Current current(*context_);
    const auto& call = context_->call();
    if (auto done = context_->driver().check(
            "cuMemsetD8Async",
            call.fill_async(address_of(bytes.data()), static_cast<unsigned char>(value),
                            bytes.size(), stream_->get()));
        !done)
      return done;
    return stream_->synchronize();
  }

  // Number of the first `size` bytes that differ from `value`.
  Result<std::uint64_t> others(std::span<const std::byte> bytes, std::uint64_t size, int value) {
    const GpuContext::Current current(*context_);
    std::vector<std::byte> host(std::min(size, piece));
    std::uint64_t count = 0;
    for (std::uint64_t at = 0; at < size; at += host.size()) {
      const std::uint64_t now = std::min<std::uint64_t>(host.size(), size - at);
      const auto status = context_->call().copy_async(
          address_of(host.data()), address_of(bytes.data() + at), now, stream_->get());
      if (auto done = context_->driver().check("cuMemcpyAsync", status); !done) return done.error();
      if (auto done = stream_->synchronize(); !done) return done.error();
      for (std::uint64_t i = 0; i < now; ++i)
        count += host[i] == static_cast<std::byte>(value) ? 0 : 1;
    }
    return count;
  }

  Result<Json> make(const Json& order, std::vector<Fd>& answer_fds) {
    auto made = DeviceMapping::create(context_, order.at("bytes"));
    if (!made) return made.error();
    if (auto filled = fill(made->bytes(), order.at("value")); !filled) return filled.error();
    auto fd = made->descriptor();
    if (!fd) return fd.error();
    answer_fds.push_back(std::move(*fd));
    Json answer = {{"mapped_bytes", made->bytes().size()}};
    made_.push_back(std::move(*made));
    return answer;
  }

  Result<Json> import(const Json& order, std::vector<Fd>& fds) {
    if (fds.empty()) return failure(ErrorCode::invalid_argument, "no descriptor came");
    auto mapped = DeviceMapping::import(context_, fds.front(), order.at("mapped_bytes"));
    if (!mapped) return mapped.error();
    imported_.emplace(std::move(*mapped));
    return Json{{"imported", true}};
  }

  Result<Json> check(const Json& order) {
    if (!imported_) return failure(ErrorCode::invalid_argument, "nothing is imported");
    const auto wrong = others(imported_->bytes(), order.at("bytes"), order.at("value"));
    if (!wrong) return wrong.error();
    return Json{{"wrong_bytes", *wrong}};
  }

  // Copies `bytes` on the device, from imported memory and within this process's own memory, and
  // verifies the result.
  Result<Json> copies(const Json& order) {
    const std::uint64_t size = order.at("bytes");
    auto target = DeviceMapping::create(context_, size);
    auto own = DeviceMapping::create(context_, size);
    if (!target || !own) return (target ? own : target).error();
    const int rounds = order.at("rounds");
    const auto time_of = [&](const std::byte* from) -> Result<double> {
      const GpuContext::Current current(*context_);
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < rounds; ++i) {
        const auto status = context_->call().copy_async(address_of(target->bytes().data()),
                                                        address_of(from), size, stream_->get());
        if (auto done = context_->driver().check("cuMemcpyAsync", status); !done)
          return done.error();
      }
      if (auto done = stream_->synchronize(); !done) return done.error();
      return seconds_since(begin) / rounds;
    };
    const auto timeout = time_of(own->bytes().data());
    if (!timeout) return timeout.error();
    const auto between = time_of(imported_->bytes().data());
    if (!between) return between.error();
    const auto wrong = others(target->bytes(), size, order.at("value"));
    if (!wrong) return wrong.error();
    return Json{{"between_s", *between}, {"within_s", *timeout}, {"wrong_bytes", *wrong}};
  }

  // Copies to host memory and back.
  Result<Json> by_host(const Json& order) {
    const std::uint64_t size = order.at("bytes");
    auto target = DeviceMapping::create(context_, size);
    if (!target) return target.error();
    std::vector<std::byte> host(size);
    const GpuContext::Current current(*context_);
    const auto begin = std::chrono::steady_clock::now();
    const auto copy = [&](cuda_abi::Address to, cuda_abi::Address from) -> Result<void> {
      if (auto done = context_->driver().check(
              "cuMemcpyAsync", context_->call().copy_async(to, from, size, stream_->get()));
          !done)
        return done;
      return stream_->synchronize();
    };
    if (auto done = copy(address_of(host.data()), address_of(imported_->bytes().data())); !done)
      return done.error();
    if (auto done = copy(address_of(target->bytes().data()), address_of(host.data())); !done)
      return done.error();
    return Json{{"seconds", seconds_since(begin)}};
  }

  // Allocates from an arena of `share` bytes, then `rogue` bytes directly from the driver.
  Result<Json> share(const Json& order) {
    arena_.emplace(context_, DeviceArenaOptions{.max_bytes = order.at("share")});
    Json answer;
    auto fits = arena_->take(order.at("fits"));
    answer["fits"] = fits.ok();
    if (fits) taken_.push_back(std::move(*fits));
    const auto beyond = arena_->take(order.at("beyond"));
    answer["refused"] = !beyond.ok();
    if (!beyond) answer["refusal"] = beyond.error().text;
    auto rogue = DeviceMapping::create(context_, order.at("rogue"));
    answer["rogue"] = rogue.ok();
    if (rogue) made_.push_back(std::move(*rogue));
    return answer;
  }

  // Loads the kernels once, then executes an order for them.
  template <class Order>
  Result<Json> with_kernels(const Order& order) {
    if (!kernels_) {
      auto loaded = KernelWork::load(context_);
      if (!loaded) return loaded.error();
      kernels_.emplace(std::move(*loaded));
    }
    return order(*kernels_);
  }
  Result<Json> kernel(const std::string& what, const Json& order) {
    return with_kernels([&](KernelWork& kernels) {
      if (what == "spin") return kernels.spin(order);
      if (what == "spin repeatedly") return kernels.spin_repeatedly(order);
      return what == "launch rate" ? kernels.launch_rate(order) : kernels.fault();
    });
  }
  Result<Json> direct(const std::string& what, const Json& order) {
    if (!context_) return failure(ErrorCode::invalid_argument, what + ": the peer has no context");
    return what == "allocation rate" ? allocation_rate(*context_, order)
                                     : allocate_directly(*context_, order);
  }
  Result<Json> memory() {
    const GpuContext::Current current(*context_);
    std::size_t free = 0, total = 0;
    if (auto done =
            context_->driver().check("cuMemGetInfo", context_->call().memory_left(&free, &total));
        !done)
      return done.error();
    return Json{{"free_bytes", free}, {"total_bytes", total}};
  }

  Result<Json> start_exchange(const Json& order) {
    auto started = ExchangeWork::start(order);
    if (!started) return started.error();
    exchange_ = std::move(*started);
    return Json{{"started", true}};
  }
  Result<Json> exchange(const std::string& what, const Json& order) {
    if (!exchange_) return failure(ErrorCode::invalid_argument, "no exchange was started");
    return what == "publish" ? exchange_->register_tensor(order)
           : what == "pull"  ? exchange_->pull(order)
                             : exchange_->unregister(order);
  }

  // As user code does: in CUDA's default mode, through calls that Mobula itself does not use.
  template <class Function>
  Function* call_of_driver(const char* name) const {
    void* const library = ::dlopen(context_->driver().library().c_str(), RTLD_NOW);
    return library == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library, name));
  }
  // order: {"mode": 0 for the default mode, 1 for the thread-local mode}
  Result<Json> begin_capture(const Json& order) {
    if (!context_) {
      if (auto opened = open(); !opened) return opened;
    }
    auto* const begin = call_of_driver<int(cuda_abi::Stream, int)>("cuStreamBeginCapture_v2");
    if (begin == nullptr)
      return failure(ErrorCode::not_found,
                     "capture a graph: the driver has no cuStreamBeginCapture_v2");
    auto written = DeviceMapping::create(context_, piece);
    if (!written) return written.error();
    captured_.emplace(std::move(*written));
    if (auto filled = fill(captured_->bytes(), 1); !filled) return filled.error();
    auto stream = GpuStream::create(context_);
    if (!stream) return stream.error();
    capturing_.emplace(std::move(*stream));
    const GpuContext::Current current(*context_);
    if (const int status = begin(capturing_->get(), order.value("mode", 0)); status != 0)
      return context_->driver().error("cuStreamBeginCapture", status);
    const auto status = context_->call().fill_async(address_of(captured_->bytes().data()), 9,
                                                    captured_->bytes().size(), capturing_->get());
    if (status != 0) return context_->driver().error("cuMemsetD8Async", status);
    return Json{{"captures", true}};
  }
  Result<Json> end_capture() {
    auto* const end = call_of_driver<int(cuda_abi::Stream, void**)>("cuStreamEndCapture");
    auto* const instantiate =
        call_of_driver<int(void**, void*, unsigned long long)>("cuGraphInstantiateWithFlags");
    auto* const launch = call_of_driver<int(void*, cuda_abi::Stream)>("cuGraphLaunch");
    if (!capturing_ || end == nullptr || instantiate == nullptr || launch == nullptr) {
      return failure(ErrorCode::not_found,
                     "nothing is captured, or this driver launches no graphs");
    }
    const GpuContext::Current current(*context_);
    const auto& driver = context_->driver();
    void *graph = nullptr, *executable = nullptr;
    if (const int status = end(capturing_->get(), &graph); status != 0)
      return driver.error("cuStreamEndCapture", status);
    const auto before = others(captured_->bytes(), captured_->bytes().size(), 1);
    if (!before) return before.error();
    if (const int status = instantiate(&executable, graph, 0); status != 0)
      return driver.error("cuGraphInstantiateWithFlags", status);
    if (const int status = launch(executable, capturing_->get()); status != 0)
      return driver.error("cuGraphLaunch", status);
    if (auto done = capturing_->synchronize(); !done) return done.error();
    const auto after = others(captured_->bytes(), captured_->bytes().size(), 9);
    if (!after) return after.error();
    // The graph keeps the memory, and both stay until the process ends.
    return Json{{"right", *before == 0 && *after == 0}};
  }
  // Result of CUDA calls in a child of a process that uses CUDA.
  Result<Json> fork_once() {
    if (!context_) {
      if (auto opened = open(); !opened) return opened;
    }
    const pid_t child = ::fork();
    if (child < 0) return errno_failure("fork", errno);
    if (child == 0) {
      ::alarm(10);
      std::size_t free = 0, total = 0;
      const GpuContext::Current current(*context_);
      const int status = current.made() ? context_->call().memory_left(&free, &total) : 3;
      ::_exit(status == 0 ? 0 : 1);
    }
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status))
      return Json{{"child", fmt::format("it was ended by signal {}", WTERMSIG(status))}};
    return Json{{"child", WEXITSTATUS(status) == 0 ? "success" : "an error"}};
  }

  Result<void> open_nccl() {
    if (nccl_) return {};
    auto library = NcclLibrary::open();
    if (!library) return library.error();
    nccl_ = std::move(*library);
    return {};
  }

  Result<Json> nccl_id() {
    if (auto opened = open_nccl(); !opened) return opened.error();
    nccl_abi::UniqueId id{};
    if (const auto status = nccl_->call().unique_id(&id); status != 0)
      return nccl_->error("ncclGetUniqueId", status);
    std::string hex;
    for (const char each : id.bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(each));
    return Json{{"id", hex}, {"version", nccl_version_text(nccl_->version())}};
  }

  // Waits until it is no longer in progress, or for `timeout`.
  Result<void> settled(const char* what, Duration timeout) {
    const auto& call = nccl_->call();
    nccl_abi::Status state = nccl_abi::in_progress;
    for (const Time until = monotonic_now() + timeout; monotonic_now() < until;) {
      if (const auto status = call.async_error(communicator_, &state); status != 0)
        return nccl_->error("ncclCommGetAsyncError", status);
      if (state == nccl_abi::success) return {};
      if (state != nccl_abi::in_progress) return nccl_->error(what, state);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return failure(ErrorCode::timed_out, fmt::format("{} is still in progress", what));
  }

  Result<Json> nccl_join(const Json& order) {
    if (auto opened = open_nccl(); !opened) return opened.error();
    nccl_abi::UniqueId id{};
    const std::string hex = order.at("id");
    for (std::size_t i = 0; i < sizeof id.bytes && 2 * i + 1 < hex.size(); ++i) {
      id.bytes[i] = static_cast<char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
    }
    rank_ = order.at("rank");
    ranks_ = order.at("ranks");
    nccl_abi::Config config;
    config.blocking = 0;
    config.max_ctas = 1;
    const GpuContext::Current current(*context_);
    const auto begin = std::chrono::steady_clock::now();
    const auto status = nccl_->call().init_rank(&communicator_, ranks_, id, rank_, &config);
    if (status != 0 && status != nccl_abi::in_progress)
      return nccl_->error("ncclCommInitRankConfig", status);
    if (auto joined = settled("ncclCommInitRankConfig", Duration(30s)); !joined)
      return joined.error();
    return Json{{"seconds", seconds_since(begin)}};
  }

  // Sends to the next rank and receives from the previous one, in one group, and checks the bytes
  // that arrived. A transfer that fails is aborted, so that its memory can be freed.
  Result<Json> nccl_ring(const Json& order) {
    if (communicator_ == nullptr)
      return failure(ErrorCode::invalid_argument, "nccl ring: this rank has no communicator");
    const std::uint64_t size = order.at("bytes");
    auto from = DeviceMapping::create(context_, std::max<std::uint64_t>(size, 1));
    auto to = DeviceMapping::create(context_, std::max<std::uint64_t>(size, 1));
    if (!from || !to) return (from ? to : from).error();
    const int before = (rank_ + ranks_ - 1) % ranks_;
    if (auto filled = fill(from->bytes(), 16 + rank_); !filled) return filled.error();
    if (auto filled = fill(to->bytes(), 255); !filled) return filled.error();
    const GpuContext::Current current(*context_);
    const auto begin = std::chrono::steady_clock::now();
    if (size > 0) {
      const auto moved = send_and_receive(from->bytes().data(), to->bytes().data(), size, before,
                                          std::chrono::seconds(order.value("limit_s", 20)));
      if (!moved) {
        (void)nccl_->call().abort(std::exchange(communicator_, nullptr));
        (void)stream_->synchronize();
        return moved.error();
      }
    }
    const double seconds = seconds_since(begin);
    const auto wrong = others(to->bytes(), size, 16 + before);
    if (!wrong) return wrong.error();
    return Json{{"seconds", seconds}, {"wrong_bytes", *wrong}};
  }
  Result<void> send_and_receive(const void* from, void* to, std::uint64_t size, int before,
                                Duration limit) {
    const auto& call = nccl_->call();
    nccl_abi::Status status = call.group_start();
    if (status == 0)
      status = call.send(from, size, nccl_abi::type_bytes, (rank_ + 1) % ranks_, communicator_,
                         stream_->get());
    if (status == 0)
      status = call.receive(to, size, nccl_abi::type_bytes, before, communicator_, stream_->get());
    const auto ended = call.group_end();
    if (status != 0) return nccl_->error("ncclSend or ncclRecv", status);
    if (ended != 0 && ended != nccl_abi::in_progress) return nccl_->error("ncclGroupEnd", ended);
    if (auto done = settled("ncclGroupEnd", limit); !done) return done;
    for (const Time until = monotonic_now() + limit;;) {
      const auto state = call_stream();
      if (state == cuda_abi::success) return {};
      if (state != cuda_abi::not_ready) return context_->driver().error("cuStreamQuery", state);
      if (monotonic_now() > until)
        return failure(ErrorCode::timed_out,
                       fmt::format("transfer: no end within {} s", limit / 1s));
      if (auto fine = settled("a transfer", Duration(1s));
          !fine && fine.error().code != ErrorCode::timed_out)
        return fine;
    }
  }
  cuda_abi::Status call_stream() { return context_->call().stream_query(stream_->get()); }

  std::shared_ptr<GpuContext> context_;  // shared with all allocations on the device
  std::optional<GpuStream> stream_;
  std::optional<KernelWork> kernels_;
  std::vector<DeviceMapping> made_;
  std::optional<DeviceMapping> imported_;
  std::optional<DeviceArena> arena_;
  std::vector<DeviceBytes> taken_;
  std::optional<DeviceMapping> captured_;
  std::optional<GpuStream> capturing_;
  std::unique_ptr<ExchangeWork> exchange_;
  std::shared_ptr<const NcclLibrary> nccl_;
  nccl_abi::Communicator communicator_ = nullptr;
  int rank_ = 0, ranks_ = 0;
};

}  // namespace

int be_peer() {
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Fd socket(peer_fd);
  Work work;
  while (true) {
    auto order = receive(socket, Duration(600s));
    if (!order || order->json.value("do", "") == "exit") return 0;
    std::vector<Fd> fds;
    Json answer;
    try {
      auto done = work.carry_out(order->json, order->fds, fds);
      answer = done ? std::move(*done) : Json{{"error", done.error().text}};
    } catch (const nlohmann::json::exception& error) {
      answer = {{"error", std::string("invalid order: ") + error.what()}};
    }
    if (const auto sent = send(socket, answer, fds); !sent) return 0;
  }
}

}  // namespace mobula::internal::gpu_check
