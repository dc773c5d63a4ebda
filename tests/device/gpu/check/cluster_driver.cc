// The driver program of the stages about the product: scenarios on a running cluster with one GPU,
// through the public interface. It prints its findings as JSON lines, which the stage records.
// Executors reach the CUDA driver and NVML by dlopen, as user code does.
//   gpu_check_driver SCENARIO [brief] [WORDS…]
#include <mobula/mobula.h>

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

#include "device/gpu/check/driver_findings.h"
#include "device/gpu/check/driver_libraries.h"
#include "device/gpu/check/nccl_scenarios.h"

namespace {

using mobula::Device;
using mobula::Tensor;
using mobula::Transport;
using mobula::internal::gpu_check::clock_ns;
using mobula::internal::gpu_check::Cuda;
using mobula::internal::gpu_check::holds;
using mobula::internal::gpu_check::now_ns;
using mobula::internal::gpu_check::Nvml;
using mobula::internal::gpu_check::text_value;
using mobula::internal::gpu_check::value;
using std::chrono::milliseconds;
using std::chrono::seconds;

const Device gpu{Device::cuda, 0};
constexpr std::int64_t mib = 1 << 20;
bool brief = false;

// ---- findings -----------------------------------------------------------------------------------

std::string range_of(std::vector<double> all, double factor, const char* unit) {
  std::sort(all.begin(), all.end());
  std::ostringstream text;
  text.precision(3);
  text << all[all.size() / 2] * factor << " " << unit << " median, " << all.front() * factor
       << " to " << all.back() * factor << " of " << all.size();
  return text.str();
}

// ---- clocks -------------------------------------------------------------------------------------

// Seconds since this process was forked, with the resolution of the kernel's clock ticks (10 ms).
double age_of_process() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::istringstream fields(text.substr(text.rfind(')') + 2));
  std::string field;
  for (int i = 3; i <= 22 && fields >> field; ++i) {
  }
  const double start =
      std::strtod(field.c_str(), nullptr) / static_cast<double>(::sysconf(_SC_CLK_TCK));
  return static_cast<double>(clock_ns(CLOCK_BOOTTIME)) / 1e9 - start;
}

// ---- tasks and actors ---------------------------------------------------------------------------

struct DeviceView {
  std::vector<std::string> gpu_ids;
  std::string visible;
  int init = 0;
  int devices = 0;
  std::string uuid;
};

DeviceView view_devices() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const Cuda cuda;
  DeviceView seen{mobula::current().gpu_ids(), visible == nullptr ? "(not set)" : visible,
                  cuda.init(), 0, ""};
  seen.devices = seen.init == 0 ? cuda.devices() : 0;
  if (seen.devices > 0) seen.uuid = cuda.uuid();
  return seen;
}

class Barrier {
 public:
  explicit Barrier(int count) : missing_(count) {}
  void arrive() {
    std::unique_lock lock(mutex_);
    if (--missing_ <= 0) all_here_.notify_all();
    all_here_.wait(lock, [this] { return missing_ <= 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable all_here_;
  int missing_;
};

std::string meet(mobula::ActorHandle<Barrier> barrier) {
  mobula::get(barrier.call<&Barrier::arrive>());
  return mobula::current().gpu_ids().at(0);
}

class Half {
 public:
  std::string gpu_id() { return mobula::current().gpu_ids().at(0); }
};

// Allocates with the driver, past Mobula's allocator, and stays until it is asked to stop.
int exceed_share(std::int64_t bytes) {
  const Cuda cuda;
  if (cuda.init() != 0 || cuda.context() != 0 || cuda.allocate(bytes) != 0)
    throw std::runtime_error("the allocation beyond the share failed by itself");
  const auto end = std::chrono::steady_clock::now() + seconds(20);
  while (!mobula::current().cancelled() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(milliseconds(5));
  return mobula::current().cancelled() ? 1 : 0;
}

// Fills `bytes` of the device in a loop until it is cancelled, and returns the number of fills.
int keep_busy(std::int64_t bytes) {
  const Cuda cuda;
  unsigned long long at = 0;
  if (cuda.init() != 0 || cuda.context() != 0 || cuda.allocate(bytes, &at) != 0)
    throw std::runtime_error("the allocation failed");
  int fills = 0;
  const auto end = std::chrono::steady_clock::now() + seconds(brief ? 10 : 30);
  for (; !mobula::current().cancelled() && std::chrono::steady_clock::now() < end; ++fills) {
    if (cuda.fill(at, bytes) != 0) throw std::runtime_error("the fill failed");
  }
  return fills;
}

struct Start {
  std::int64_t user_code_ns = 0;
  double since_fork_s = 0;
  double context_s = 0;
  int status = 0;
  std::int64_t pid = 0;
  std::int64_t used_bytes = 0;  // in use on the device, before this process has a context
};

Start start_task(bool with_context) {
  Start made;
  made.user_code_ns = now_ns();
  made.since_fork_s = age_of_process();
  made.pid = ::getpid();
  made.used_bytes = Nvml().used_bytes();
  if (!with_context) return made;
  const std::int64_t begin = now_ns();
  const Cuda cuda;
  made.status = cuda.init();
  if (made.status == 0) made.status = cuda.context();
  made.context_s = static_cast<double>(now_ns() - begin) / 1e9;
  return made;
}

// Elements repeat after a prime number of bytes, so that a piece at a wrong place is wrong.
const std::vector<std::uint8_t>& pattern() {
  static const std::vector<std::uint8_t> made = [] {
    std::vector<std::uint8_t> all(65'521);
    for (std::size_t i = 0; i < all.size(); ++i)
      all[i] = static_cast<std::uint8_t>(i * 7 + i / 251);
    return all;
  }();
  return made;
}
// Calls `use` for each stretch of `size` bytes with its pattern.
template <class Use>
void for_each_piece(std::size_t size, const Use& use) {
  for (std::size_t at = 0; at < size; at += pattern().size())
    use(at, std::min(pattern().size(), size - at));
}

struct Pulled {
  std::int64_t wrong_pieces = 0;
  std::string path;
  bool in_place = false;
  bool on_gpu = false;
  double wire_s = 0;
  double copy_s = 0;  // for a copy of the same bytes on the device
};

class Holder {
 public:
  std::int64_t pid() { return ::getpid(); }
  std::int64_t hold(std::int64_t bytes) {
    kept_ = Tensor::zeros({bytes}, mobula::DType::uint8, gpu);
    return kept_.bytes();
  }
  Tensor make(std::int64_t bytes) {
    Tensor here = Tensor::empty({bytes}, mobula::DType::uint8);
    const auto elements = here.mutable_view<std::uint8_t>();
    for_each_piece(elements.size(), [&](std::size_t at, std::size_t size) {
      std::memcpy(elements.data() + at, pattern().data(), size);
    });
    return here.to(gpu);
  }
  Pulled pull(const Tensor& tensor) {
    Pulled seen;
    seen.on_gpu = tensor.device() == gpu;
    const auto log = mobula::transfer_log();
    if (!log.empty()) {
      seen.path = log.back().path;
      seen.in_place = log.back().in_place;
      seen.wire_s = std::chrono::duration<double>(log.back().wire_time).count();
    }
    for (int i = 0; i < 3; ++i) {
      const std::int64_t begin = now_ns();
      const Tensor copy = tensor.clone();
      const double took = static_cast<double>(now_ns() - begin) / 1e9;
      seen.copy_s = i == 0 ? took : std::min(seen.copy_s, took);
    }
    const Tensor here = tensor.to(Device{});
    const auto elements = here.view<std::uint8_t>();
    for_each_piece(elements.size(), [&](std::size_t at, std::size_t size) {
      seen.wrong_pieces += std::memcmp(elements.data() + at, pattern().data(), size) != 0 ? 1 : 0;
    });
    return seen;
  }

 private:
  Tensor kept_;
};

mobula::TaskOptions with_gpus(double gpus) {
  mobula::TaskOptions options;
  options.num_cpus = 0.1;
  options.num_gpus = gpus;
  return options;
}
mobula::ActorOptions actor_with_gpus(double gpus) {
  mobula::ActorOptions options;
  options.num_cpus = 0.1;
  options.num_gpus = gpus;
  return options;
}

template <class T>
T got(const mobula::ObjectRef<T>& ref, int timeout_s = 30) {
  return mobula::get(ref, seconds(timeout_s));
}

// ---- scenarios ----------------------------------------------------------------------------------

void masks() {
  const auto with = got(mobula::task<view_devices>.options(with_gpus(1)).remote());
  const auto without = got(mobula::task<view_devices>.remote());
  const std::string uuid = Nvml().uuid();
  holds("a task with a GPU has one device id and the mask names it",
        with.gpu_ids.size() == 1 && with.visible == with.gpu_ids.at(0), with.visible);
  holds("it sees one device", with.init == 0 && with.devices == 1, std::to_string(with.devices));
  holds("the device has the UUID that NVML reports", !uuid.empty() && with.uuid == uuid,
        with.uuid + ", NVML " + uuid);
  holds("a task without a GPU has an empty mask",
        without.gpu_ids.empty() && without.visible.empty(), without.visible);
  holds("it sees no device", without.devices == 0,
        "cuInit returns " + std::to_string(without.init));
}

std::string own_node() { return mobula::current().node_id; }

void accelerator_type() {
  const std::string prefix = "accelerator_type:";
  std::string type, node;
  for (const auto& each : mobula::nodes()) {
    const auto label = each.labels.find("mobula.io/accelerator-type");
    if (label == each.labels.end() || each.resources.count(prefix + label->second) == 0) continue;
    type = label->second;
    node = each.node_id;
  }
  holds("a node has an accelerator type", !type.empty(), type);
  if (type.empty()) return;
  auto options = with_gpus(0.5);
  options.accelerator_type = type;
  holds("a task that names the accelerator type runs on its node",
        got(mobula::task<own_node>.options(options).remote()) == node, type);
  options.accelerator_type = "no-such-accelerator";
  options.fail_if_infeasible = true;
  try {
    (void)got(mobula::task<own_node>.options(options).remote());
    holds("a task that names another type is rejected", false, "it ran");
  } catch (const mobula::UnschedulableError& error) {
    holds("a task that names another type is rejected", true, error.what());
  }
}

void fractions() {
  auto barrier = mobula::actor<Barrier>.options({.num_cpus = 0.0, .max_concurrency = 4}).remote(4);
  std::vector<mobula::ObjectRef<std::string>> met;
  for (int i = 0; i < 4; ++i)
    met.push_back(mobula::task<meet>.options(with_gpus(0.25)).remote(barrier));
  const auto ids = mobula::get(met, seconds(30));
  holds("four tasks of 0.25 run at the same time on one device",
        ids == std::vector<std::string>(4, ids.at(0)), ids.at(0));

  std::vector<mobula::ActorHandle<Half>> actors;
  std::vector<mobula::ObjectRef<std::string>> calls;
  for (int i = 0; i < 3; ++i) {
    actors.push_back(mobula::actor<Half>.options(actor_with_gpus(0.5)).remote());
    calls.push_back(actors.back().call<&Half::gpu_id>());
  }
  holds("two actors of 0.5 share the device", got(calls[0]) == got(calls[1]));
  const bool waits =
      mobula::wait(std::vector{calls[2]}, {.timeout = milliseconds(brief ? 200 : 1000)})
          .ready.empty();
  holds("a third actor of 0.5 waits", waits);
  const std::int64_t begin = now_ns();
  mobula::kill(actors[0]);
  holds("it starts when one of them has ended", got(calls[2]) == got(calls[1]));
  value("time until the third actor answers after a kill",
        static_cast<double>(now_ns() - begin) / 1e6, "ms");
}

void over_share(const std::string& policy) {
  const std::int64_t share = (brief ? 128 : 1024) * mib,
                     beyond = share + (brief ? 768 : 2048) * mib;
  mobula::TaskOptions options;
  options.name = "greedy";
  options.num_cpus = 0.1;
  options.gpu_memory = share;
  options.max_retries = 0;
  const std::int64_t begin = now_ns();
  const std::string what =
      "--gpu-over-share " + policy + ": a task that exceeds its share ends with OutOfMemoryError";
  try {
    const int stopped = got(mobula::task<exceed_share>.options(options).remote(beyond));
    holds(what, false, "it returned " + std::to_string(stopped));
  } catch (const mobula::OutOfMemoryError& error) {
    holds(what, true, error.what());
  } catch (const std::exception& error) {
    holds(what, false, error.what());
  }
  value("--gpu-over-share " + policy + ": time from submission to the error",
        static_cast<double>(now_ns() - begin) / 1e9, "s");
  const auto next = got(mobula::task<start_task>.options(with_gpus(1)).remote(true));
  holds("--gpu-over-share " + policy + ": the next task has the whole GPU", next.status == 0);
}

// Keeps the GPU at work while the stage reads the use that the cluster reports.
void busy() {
  const std::int64_t bytes = (brief ? 64 : 2048) * mib;
  value("memory of the task that keeps the GPU at work", static_cast<double>(bytes), "bytes");
  auto filling = mobula::task<keep_busy>.options(with_gpus(1)).remote(bytes);
  std::this_thread::sleep_for(milliseconds(brief ? 500 : 3000));
  holds("a task keeps the GPU at work",
        mobula::wait(std::vector{filling}, {.timeout = milliseconds(0)}).ready.empty());
  std::this_thread::sleep_for(seconds(2));
  mobula::cancel(filling);
  try {
    holds("it stops when it is cancelled", got(filling) > 0);
  } catch (const mobula::TaskCancelledError&) {
    holds("it stops when it is cancelled", true);
  }
}

// Executors that have just ended may still release memory: polls until the amount stays the same
// for a moment.
std::int64_t settled_used_bytes(const Nvml& nvml) {
  std::int64_t used = nvml.used_bytes();
  const std::int64_t quiet = brief ? 20'000'000 : 400'000'000, end = now_ns() + 5'000'000'000;
  for (std::int64_t since = now_ns(); now_ns() - since < quiet && now_ns() < end;
       std::this_thread::sleep_for(milliseconds(5))) {
    const std::int64_t now = nvml.used_bytes();
    if (now != used) since = now_ns();
    used = now;
  }
  return used;
}

void killed_executor() {
  const Nvml nvml;
  const std::int64_t bytes =
      brief ? 64 * mib : std::min<std::int64_t>(nvml.total_bytes() / 4, 16'384 * mib);
  auto holder = mobula::actor<Holder>.options(actor_with_gpus(1)).remote();
  const auto pid = static_cast<pid_t>(got(holder.call<&Holder::pid>()));
  const std::int64_t before = settled_used_bytes(nvml);
  holds("an executor holds a tensor on the GPU", got(holder.call<&Holder::hold>(bytes)) == bytes);
  const std::int64_t full = nvml.used_bytes();
  holds("NVML counts its bytes", full >= before + bytes,
        std::to_string(full - before) + " bytes more");
  const auto next = mobula::task<start_task>.options(with_gpus(1)).remote(true);
  const std::int64_t begin = now_ns();
  ::kill(pid, SIGKILL);
  std::int64_t used = full;
  for (const std::int64_t until = begin + 10'000'000'000;
       used > full - bytes && now_ns() < until;) {
    std::this_thread::sleep_for(milliseconds(1));
    used = nvml.used_bytes();
  }
  holds("its bytes are free after kill -9", used <= full - bytes,
        std::to_string(used) + " bytes in use");
  value("time from kill -9 until its bytes are free", static_cast<double>(now_ns() - begin) / 1e6,
        "ms");
  const Start started = got(next);
  holds("the next task runs", started.status == 0);
  value("time from kill -9 until the next task runs",
        static_cast<double>(started.user_code_ns - begin) / 1e6, "ms");
  text_value("the bytes were free when the next task began",
             started.used_bytes <= full - bytes
                 ? "yes"
                 : "no: " + std::to_string(started.used_bytes) + " bytes in use");
  try {
    got(holder.call<&Holder::pid>());
    holds("the actor of the killed executor is dead", false);
  } catch (const mobula::ActorDiedError&) {
    holds("the actor of the killed executor is dead", true);
  }
}

void fresh_processes() {
  const int count = brief ? 4 : 20;
  std::vector<double> to_user_code, since_fork, context;
  std::vector<std::int64_t> pids;
  bool right = true;
  for (int i = 0; i < count; ++i) {
    const std::int64_t begin = now_ns();
    const Start started = got(mobula::task<start_task>.options(with_gpus(1)).remote(true));
    to_user_code.push_back(static_cast<double>(started.user_code_ns - begin) / 1e9);
    since_fork.push_back(started.since_fork_s);
    context.push_back(started.context_s);
    pids.push_back(started.pid);
    right = right && started.status == 0;
  }
  std::sort(pids.begin(), pids.end());
  holds("each GPU task runs in its own process and gets a context",
        right && std::adjacent_find(pids.begin(), pids.end()) == pids.end());
  text_value("time from submission to user code", range_of(to_user_code, 1e3, "ms"));
  text_value("time from fork to user code (resolution 10 ms)", range_of(since_fork, 1e3, "ms"));
  text_value("time from user code to the first context", range_of(context, 1e3, "ms"));
}

void direct_tensors() {
  const std::int64_t bytes = brief ? 8 * mib : 512 * mib;
  auto maker = mobula::actor<Holder>.options(actor_with_gpus(0.5)).remote();
  auto reader = mobula::actor<Holder>.options(actor_with_gpus(0.5)).remote();
  const mobula::CallOptions by_ipc{.tensor_transport = Transport::cuda_ipc};
  double wire = 0, copy = 0;
  for (int i = 0; i < (brief ? 2 : 3); ++i) {
    const auto made = maker.method<&Holder::make>().options(by_ipc).remote(bytes);
    const Pulled seen = got(reader.call<&Holder::pull>(made), 60);
    holds("a tensor arrives on the GPU by cuda_ipc, byte by byte",
          seen.wrong_pieces == 0 && seen.on_gpu && seen.path == "cuda_ipc",
          std::to_string(seen.wrong_pieces) + " wrong pieces by " +
              (seen.path.empty() ? "no path" : seen.path));
    if (i == 0)
      text_value("the tensor is read in place", seen.in_place ? "yes" : "no, it is copied");
    wire = i == 0 ? seen.wire_s : std::min(wire, seen.wire_s);
    copy = i == 0 ? seen.copy_s : std::min(copy, seen.copy_s);
  }
  const double size = static_cast<double>(bytes) / 1e9;
  if (wire > 0) value("tensor by cuda_ipc between executors", size / wire, "GB/s");
  if (copy > 0) value("copy of the same size on the device", size / copy, "GB/s");
  if (wire > 0 && copy > 0) value("cuda_ipc divided by a copy on the device", copy / wire, "");
}

}  // namespace

int main(int argc, char** argv) {
  auto cluster = mobula::init(argc, argv);
  const std::vector<std::string> words(argv + 1, argv + argc);
  brief = std::find(words.begin(), words.end(), "brief") != words.end();
  const std::map<std::string, std::function<void()>> scenarios{
      {"masks", masks},
      {"accelerator-type", accelerator_type},
      {"fractions", fractions},
      {"over-share-error", [] { over_share("error"); }},
      {"over-share-kill", [] { over_share("kill"); }},
      {"busy", busy},
      {"killed-executor", killed_executor},
      {"fresh-processes", fresh_processes},
      {"direct-tensors", direct_tensors},
      {"nccl-shared", [] { mobula::internal::gpu_check::share_gpu_by_nccl(brief); }},
      {"nccl-refused", [] { mobula::internal::gpu_check::refuse_shared_gpu(brief); }}};
  const auto scenario = words.empty() ? scenarios.end() : scenarios.find(words.front());
  if (scenario == scenarios.end()) {
    std::cerr << "gpu_check_driver: no such scenario\n";
    return 2;
  }
  try {
    scenario->second();
  } catch (const std::exception& error) {
    holds(words.front() + " ran to its end", false, error.what());
    return 1;
  }
  return 0;
}
