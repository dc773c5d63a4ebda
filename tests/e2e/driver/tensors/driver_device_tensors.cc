// Scenarios about tensors in GPU memory. Values are made and summed through host memory: only the
// host can read elements.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>

#include "e2e/driver/driver.h"
#include "e2e/driver/tensors/gpu_part.h"
#include "simulated_gpu/calls.h"

namespace mobula::e2e {
namespace {

using mobula::Device;
using mobula::Tensor;
using mobula::Transport;
using std::chrono::seconds;

constexpr int floats = 1 << 20;
const Device first_gpu{Device::cuda, 0};

Tensor on_host(int count, float first = 0) {
  Tensor tensor = Tensor::empty({count});
  for (float& each : tensor.mutable_view<float>()) each = first++;
  return tensor;
}

double total(const Tensor& tensor) {
  const Tensor here = tensor.to(Device{}).contiguous();
  const auto elements = here.view<float>();
  return std::accumulate(elements.begin(), elements.end(), 0.0);
}

double total_to(double count) { return count * (count - 1) / 2; }

std::string device_name(const Tensor& tensor) {
  return tensor.device().kind == Device::cpu ? "cpu"
                                             : "cuda:" + std::to_string(tensor.device().index);
}

struct Weights {
  Tensor on_gpu;
  Tensor on_host;
  Tensor columns;  // permuted, on the GPU
};

bool uses_cuda() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("simulated_cuda") != std::string::npos) return true;
  }
  return false;
}

// Models user code that calls the CUDA driver directly, in the device's primary context.
class UserContext {
 public:
  UserContext() {
    void* context = nullptr;
    internal::simulated_call<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, 0);
    internal::simulated_call<int(void*)>("cuCtxPushCurrent_v2")(context);
  }
  ~UserContext() {
    void* context = nullptr;
    internal::simulated_call<int(void**)>("cuCtxPopCurrent_v2")(&context);
  }
};

class Gpu {
 public:
  Tensor make(int count) { return kept_ = on_host(count).to(first_gpu); }
  Tensor make_here(int count) { return on_host(count); }
  Tensor make_on(int count, int gpu) { return on_host(count).to(Device{Device::cuda, gpu}); }
  Weights make_weights(int count) {
    return {on_host(count).to(first_gpu), on_host(count),
            on_host(count).to(first_gpu).reshape({2, -1}).transpose(0, 1)};
  }
  double sum(const Tensor& tensor) { return total(tensor); }
  double sum_weights(const Weights& all) {
    return total(all.on_gpu) + total(all.on_host) + total(all.columns);
  }
  std::string device_of(const Tensor& tensor) { return device_name(tensor); }
  std::string devices_of(const Weights& all) {
    return device_name(all.on_gpu) + " " + device_name(all.on_host) + " " +
           device_name(all.columns);
  }
  bool is_mine(const Tensor& tensor) { return tensor.data() == kept_.data(); }
  std::string get_at(const std::vector<mobula::ObjectRef<Tensor>>& refs, int gpu) {
    mobula::GetOptions options{.device = gpu < 0 ? Device{} : Device{Device::cuda, gpu},
                               .timeout = seconds(60)};
    const Tensor got = mobula::get(refs.at(0), options);
    return device_name(got) + " " + std::to_string(static_cast<long long>(total(got)));
  }
  std::string stream_kinds() {
    return mobula::current().stream() == nullptr                      ? "none"
           : mobula::current().stream() == mobula::current().stream() ? "one"
                                                                      : "two";
  }
  std::vector<std::string> paths() {
    std::vector<std::string> out;
    for (const auto& each : mobula::transfer_log())
      out.push_back(each.path + (each.in_place ? " in place" : ""));
    return out;
  }
  std::vector<std::string> refusals() {
    const auto all = mobula::transfer_log();
    return all.empty() ? std::vector<std::string>() : all.back().refusals;
  }
  // A kernel of 500 ms has only started when this returns. `declared`: the runtime knows the
  // kernel's stream.
  Tensor paint(int count, bool declared) {
    Tensor made = Tensor::zeros({count}, mobula::DType::uint8, first_gpu);
    void* const stream = mobula::current().stream();
    const UserContext context;
    internal::simulated_kernel(stream, made.data(), static_cast<std::size_t>(count), 7, 500);
    if (declared) made.produced_on(stream);
    return made;
  }
  std::int64_t count_painted(const Tensor& tensor) {
    const Tensor here = tensor.to(Device{});
    return std::ranges::count(here.view<std::uint8_t>(), std::uint8_t{7});
  }
  // Fails the device like a kernel with an invalid access.
  void break_device() {
    (void)Tensor::zeros({1}, mobula::DType::uint8, first_gpu);
    const UserContext context;
    internal::simulated_break(700);
    (void)Tensor::zeros({1}, mobula::DType::uint8, first_gpu);
  }
  bool sees_cuda() { return uses_cuda(); }
  // Twenty allocations, each larger than half of the share.
  int take_and_give(std::int64_t bytes) {
    for (int i = 0; i < 20; ++i) (void)Tensor::empty({bytes}, mobula::DType::uint8, first_gpu);
    return 20;
  }
  void forget() { kept_ = Tensor(); }
  std::int64_t pid() { return ::getpid(); }
  void crash() { std::_Exit(3); }
  void leave() { mobula::exit_actor(); }
  void throws() { throw std::runtime_error("as users' code does"); }

 private:
  Tensor kept_;
};

const mobula::CallOptions gpu_stays{.tensor_transport = Transport::automatic};

mobula::ActorOptions on_gpus(double gpus) {
  mobula::ActorOptions options;
  options.num_cpus = 0.1;
  options.num_gpus = gpus * part_of_gpu();
  return options;
}

template <class T>
T wait_for(const mobula::ObjectRef<T>& ref) {
  return mobula::get(ref, seconds(60));
}

bool mentions(const std::vector<std::string>& texts, const std::string& part) {
  return std::ranges::any_of(
      texts, [&](const std::string& each) { return each.find(part) != std::string::npos; });
}

// Tensors inside values, the default. They arrive on the device where they belong.
int gpu_values(const Words&) {
  Report report;
  auto maker = mobula::actor<Gpu>.options(on_gpus(1)).remote();
  auto user = mobula::actor<Gpu>.options(on_gpus(1)).remote();
  auto no_gpu = mobula::actor<Gpu>.options(on_gpus(0)).remote();
  const auto made = maker.call<&Gpu::make>(floats);
  report.equal("where another GPU's process has it", wait_for(user.call<&Gpu::device_of>(made)),
               "cuda:0");
  report.equal("its elements", wait_for(user.call<&Gpu::sum>(made)), total_to(floats));
  report.equal("without a GPU", wait_for(no_gpu.call<&Gpu::device_of>(made)), "cpu");
  report.equal("its elements there", wait_for(no_gpu.call<&Gpu::sum>(made)), total_to(floats));
  report.holds("the log has the reason",
               mentions(wait_for(no_gpu.call<&Gpu::refusals>()), "it is in host memory"));
  report.equal("without a GPU no CUDA", wait_for(no_gpu.call<&Gpu::sees_cuda>()), false);
  report.equal("nor in this program", uses_cuda(), false);
  report.equal("with a GPU", wait_for(maker.call<&Gpu::sees_cuda>()), true);
  report.equal("small ones", wait_for(user.call<&Gpu::device_of>(maker.call<&Gpu::make>(9))),
               "cuda:0");
  report.equal("small ones' elements", wait_for(user.call<&Gpu::sum>(maker.call<&Gpu::make>(9))),
               36);
  const auto weights = maker.call<&Gpu::make_weights>(floats);
  report.equal("several", wait_for(user.call<&Gpu::sum_weights>(weights)), 3 * total_to(floats));
  report.equal("their places", wait_for(user.call<&Gpu::devices_of>(weights)), "cuda:0 cpu cuda:0");
  report.equal("here", device_name(wait_for(made)), "cpu");
  report.equal("here, the elements", total(wait_for(made)), total_to(floats));
  report.equal("got to the host", wait_for(user.call<&Gpu::get_at>(std::vector{made}, -1)),
               "cpu " + std::to_string(static_cast<long long>(total_to(floats))));
  report.equal("streams", wait_for(maker.call<&Gpu::stream_kinds>()), "one");
  report.equal("streams without a GPU", wait_for(no_gpu.call<&Gpu::stream_kinds>()), "none");
  throws<mobula::TaskError>(report, "a device without a lease",
                            [&] { wait_for(no_gpu.call<&Gpu::make>(9)); });
  throws<mobula::TaskError>(report, "got to a device without a lease",
                            [&] { wait_for(no_gpu.call<&Gpu::get_at>(std::vector{made}, 0)); });
  throws<mobula::InvalidRequestError>(report, "got here to a device", [&] {
    (void)mobula::get(made, {.device = first_gpu, .timeout = seconds(30)});
  });
  throws<mobula::TaskError>(report, "more than the share", [&] {
    wait_for(maker.call<&Gpu::take_and_give>(std::int64_t{1} << 50));
  });
  report.equal("freed memory is available again",
               wait_for(maker.call<&Gpu::take_and_give>(std::int64_t{300} << 20)), 20);
  return report.exit_code();
}

// Tensors that stay in their producer, from GPU to GPU of one machine. Arguments: the expected
// path.
int gpu_tensors(const Words& arguments) {
  Report report;
  auto maker = mobula::actor<Gpu>.options(on_gpus(1)).remote();
  auto user = mobula::actor<Gpu>.options(on_gpus(1)).remote();
  auto no_gpu = mobula::actor<Gpu>.options(on_gpus(0)).remote();
  const auto made = maker.method<&Gpu::make>().options(gpu_stays).remote(floats);
  report.equal("elements by another GPU", wait_for(user.call<&Gpu::sum>(made)), total_to(floats));
  report.equal("where", wait_for(user.call<&Gpu::device_of>(made)), "cuda:0");
  report.holds("same memory in its maker", wait_for(maker.call<&Gpu::is_mine>(made)));
  const auto small = maker.method<&Gpu::make>().options(gpu_stays).remote(10);
  report.equal("sum of a small one", wait_for(maker.call<&Gpu::sum>(small)), total_to(10));
  report.holds("a small one is the same memory in its maker",
               wait_for(maker.call<&Gpu::is_mine>(small)));
  const auto paths = wait_for(user.call<&Gpu::paths>());
  report.holds("tensors were pulled", !paths.empty());
  for (const auto& path : paths) report.equal("a path", path, arguments.at(0));
  const auto weights = maker.method<&Gpu::make_weights>().options(gpu_stays).remote(floats);
  report.equal("several", wait_for(user.call<&Gpu::sum_weights>(weights)), 3 * total_to(floats));
  report.equal("their places", wait_for(user.call<&Gpu::devices_of>(weights)), "cuda:0 cpu cuda:0");
  report.equal("without a GPU", wait_for(no_gpu.call<&Gpu::sum>(made)), total_to(floats));
  report.equal("its path", wait_for(no_gpu.call<&Gpu::paths>()).back(), "staged");
  report.holds("the log has the reason",
               mentions(wait_for(no_gpu.call<&Gpu::refusals>()), "it is in host memory"));
  report.equal("here", total(wait_for(made)), total_to(floats));
  report.equal("through the store",
               total(mobula::get(
                   made, {.tensor_transport = Transport::object_store, .timeout = seconds(60)})),
               total_to(floats));
  report.equal("inside another value, to the host",
               wait_for(user.call<&Gpu::get_at>(std::vector{made}, -1)),
               "cpu " + std::to_string(static_cast<long long>(total_to(floats))));
  return report.exit_code();
}

// Named transports. Arguments: transports that must work between the two GPUs. After "not":
// transports that must not.
int gpu_paths(const Words& arguments) {
  Report report;
  auto maker = mobula::actor<Gpu>.options(on_gpus(1)).remote();
  auto user = mobula::actor<Gpu>.options(on_gpus(1)).remote();
  const std::map<std::string, Transport> names{
      {"shm", Transport::shm}, {"tcp", Transport::tcp},           {"gloo", Transport::gloo},
      {"ucx", Transport::ucx}, {"cuda_ipc", Transport::cuda_ipc}, {"nccl", Transport::nccl}};
  bool works = true;
  for (const std::string& word : arguments) {
    if (word == "not") {
      works = false;
      continue;
    }
    const mobula::CallOptions strict{.tensor_transport = names.at(word)};
    const mobula::CallOptions loose{.tensor_transport = names.at(word), .allow_fallback = true};
    const auto sum_by = [&](const mobula::CallOptions& options) {
      return wait_for(
          user.call<&Gpu::sum>(maker.method<&Gpu::make>().options(options).remote(floats)));
    };
    if (works) {
      report.equal(word.c_str(), sum_by(strict), total_to(floats));
      report.equal("its path", wait_for(user.call<&Gpu::paths>()).back().substr(0, word.size()),
                   word);
      continue;
    }
    try {
      (void)sum_by(strict);
      report.fail("no error by " + word);
    } catch (const mobula::TransferError& error) {
      tell(word + " is refused: " + error.what());
    }
    report.equal("another one in its place", sum_by(loose), total_to(floats));
    report.holds("and why", mentions(wait_for(user.call<&Gpu::refusals>()), word + ": "));
    tell(word + " for another: " + wait_for(user.call<&Gpu::paths>()).back());
  }
  return report.exit_code();
}

// Tasks, and one process with two GPUs.
Tensor made_on_gpu(int count) { return on_host(count).to(first_gpu); }
double sum_on_gpu(const Tensor& tensor) {
  return total(tensor) + (tensor.device() == first_gpu ? 0 : 1);
}

int gpu_pairs(const Words&) {
  Report report;
  auto maker = mobula::actor<Gpu>.options(on_gpus(2)).remote();
  auto user = mobula::actor<Gpu>.options(on_gpus(1)).remote();
  for (const int gpu : {0, 1}) {
    for (const auto way : {Transport::cuda_ipc, Transport::nccl}) {
      const auto made =
          maker.method<&Gpu::make_on>().options({.tensor_transport = way}).remote(floats, gpu);
      report.equal("from one of two GPUs", wait_for(user.call<&Gpu::sum>(made)), total_to(floats));
    }
    const auto back = user.method<&Gpu::make>().options(gpu_stays).remote(floats);
    report.equal("to one of two GPUs", wait_for(maker.call<&Gpu::get_at>(std::vector{back}, gpu)),
                 "cuda:" + std::to_string(gpu) + " " +
                     std::to_string(static_cast<long long>(total_to(floats))));
  }
  return report.exit_code();
}

Tensor made_on_host(int count) { return on_host(count); }

// A kernel still runs when its result is returned. The reader must see its complete output.
int gpu_streams(const Words&) {
  Report report;
  auto maker = mobula::actor<Gpu>.options(on_gpus(1)).remote();
  auto user = mobula::actor<Gpu>.options(on_gpus(1)).remote();
  constexpr int bytes = 1 << 20;
  for (const bool declared : {false, true}) {
    for (const auto way :
         {Transport::object_store, Transport::cuda_ipc, Transport::nccl, Transport::tcp}) {
      const auto made =
          maker.method<&Gpu::paint>().options({.tensor_transport = way}).remote(bytes, declared);
      report.equal("painted", wait_for(user.call<&Gpu::count_painted>(made)), bytes);
      report.equal("painted, in its maker", wait_for(maker.call<&Gpu::count_painted>(made)), bytes);
    }
    report.equal("small ones",
                 wait_for(user.call<&Gpu::count_painted>(maker.call<&Gpu::paint>(100, declared))),
                 100);
  }
  return report.exit_code();
}

// User code breaks the device. Its call fails with that reason, and its process is replaced.
int gpu_broken(const Words&) {
  Report report;
  mobula::ActorOptions options = on_gpus(1);
  options.max_restarts = 1;
  auto broken = mobula::actor<Gpu>.options(options).remote();
  const auto before = wait_for(broken.call<&Gpu::pid>());
  try {
    wait_for(broken.call<&Gpu::break_device>());
    report.fail("no error of a broken device");
  } catch (const mobula::Error& error) {
    tell(std::string("it ends with: ") + error.what());
  }
  std::int64_t after = before;
  for (int i = 0; i < 600 && after == before; ++i) {
    try {
      after = wait_for(broken.call<&Gpu::pid>());
    } catch (const mobula::Error&) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  report.holds("another process has taken its place", after != before);
  report.equal("which works", wait_for(broken.call<&Gpu::sum>(broken.call<&Gpu::make>(floats))),
               total_to(floats));
  return report.exit_code();
}

int gpu_tasks(const Words&) {
  Report report;
  mobula::TaskOptions half{
      .num_cpus = 0.1, .num_gpus = 0.5, .tensor_transport = Transport::automatic};
  const auto made = mobula::task<made_on_gpu>.options(half).remote(floats);
  report.equal("from task to task", wait_for(mobula::task<sum_on_gpu>.options(half).remote(made)),
               total_to(floats));
  report.equal("twice", wait_for(mobula::task<sum_on_gpu>.options(half).remote(made)),
               total_to(floats));
  mobula::TaskOptions once{
      .num_cpus = 0.1, .max_calls = 1, .tensor_transport = Transport::automatic};
  const auto on_hosts = mobula::task<made_on_host>.options(once).remote(floats);
  report.equal("from a task whose executor exited", total(wait_for(on_hosts)), total_to(floats));
  return report.exit_code();
}

// Many transfers at once, in both directions, around three processes, without a deadlock.
int gpu_ring(const Words& arguments) {
  Report report;
  const Transport way = arguments.at(0) == "nccl" ? Transport::nccl : Transport::automatic;
  std::vector<mobula::ActorHandle<Gpu>> all;
  for (int i = 0; i < 3; ++i) all.push_back(mobula::actor<Gpu>.options(on_gpus(1)).remote());
  std::vector<mobula::ObjectRef<double>> sums;
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (const std::size_t step : {std::size_t{1}, std::size_t{2}}) {
        const auto made =
            all[i].method<&Gpu::make>().options({.tensor_transport = way}).remote(floats);
        sums.push_back(all[(i + step) % all.size()].call<&Gpu::sum>(made));
      }
    }
  }
  for (const auto& each : sums) report.equal("a sum", wait_for(each), total_to(floats));
  return report.exit_code();
}

// Planned and unplanned exits of the holder. An exception in user code ends no process.
int gpu_ends(const Words&) {
  Report report;
  auto maker = mobula::actor<Gpu>.options(on_gpus(1)).remote();
  auto user = mobula::actor<Gpu>.options(on_gpus(1)).remote();
  const auto made = maker.method<&Gpu::make>().options(gpu_stays).remote(floats);
  throws<std::runtime_error>(report, "an exception of user code",
                             [&] { wait_for(maker.call<&Gpu::throws>()); });
  report.equal("after that", wait_for(user.call<&Gpu::sum>(made)), total_to(floats));
  maker.call<&Gpu::leave>();
  throws<mobula::ActorDiedError>(report, "a call of one that left",
                                 [&] { wait_for(maker.call<&Gpu::pid>()); });
  report.equal("after its maker left", wait_for(user.call<&Gpu::sum>(made)), total_to(floats));
  auto late = mobula::actor<Gpu>.options(on_gpus(1)).remote();
  report.equal("for a late reader", wait_for(late.call<&Gpu::device_of>(made)), "cuda:0");
  report.equal("its elements", wait_for(late.call<&Gpu::sum>(made)), total_to(floats));
  const auto lost = late.method<&Gpu::make>().options(gpu_stays).remote(floats);
  mobula::wait(std::vector{lost}, {.num_returns = 1, .timeout = seconds(30), .fetch_local = false});
  late.call<&Gpu::crash>();
  throws<mobula::Error>(report, "a call of one that crashed",
                        [&] { wait_for(late.call<&Gpu::pid>()); });
  throws<mobula::ObjectLostError>(report, "elements that are lost", [&] { (void)wait_for(lost); });
  throws<mobula::ObjectLostError>(report, "as an argument",
                                  [&] { wait_for(user.call<&Gpu::sum>(lost)); });
  report.equal("others work", wait_for(user.call<&Gpu::sum>(made)), total_to(floats));
  return report.exit_code();
}

// Readers are killed at random, and holders and readers are stopped for a while. Other readers
// continue, and all memory is freed. Arguments: the transport.
int gpu_kills(const Words& arguments) {
  Report report;
  const Transport way = arguments.at(0) == "nccl" ? Transport::nccl : Transport::automatic;
  constexpr int many_floats = 8 << 20;
  auto maker = mobula::actor<Gpu>.options(on_gpus(1)).remote();
  const auto maker_pid = static_cast<pid_t>(wait_for(maker.call<&Gpu::pid>()));
  {
    const auto made =
        maker.method<&Gpu::make>().options({.tensor_transport = way}).remote(many_floats);
    mobula::wait(std::vector{made},
                 {.num_returns = 1, .timeout = seconds(60), .fetch_local = false});
    for (int i = 0; i < 4; ++i) {
      auto killed = mobula::actor<Gpu>.options(on_gpus(1)).remote();
      (void)wait_for(killed.call<&Gpu::pid>());
      const auto sum = killed.call<&Gpu::sum>(made);
      std::this_thread::sleep_for(std::chrono::milliseconds(4 * i * i));  // an arbitrary delay
      mobula::kill(killed);
      throws<mobula::Error>(report, "a call of a killed actor", [&] {
        (void)wait_for(sum);
        throw mobula::ActorDiedError("it was done before");
      });
    }
    auto user = mobula::actor<Gpu>.options(on_gpus(1)).remote();
    const auto user_pid = static_cast<pid_t>(wait_for(user.call<&Gpu::pid>()));
    report.equal("by another one", wait_for(user.call<&Gpu::sum>(made)), total_to(many_floats));
    for (const pid_t stopped : {maker_pid, user_pid}) {
      const auto next =
          maker.method<&Gpu::make>().options({.tensor_transport = way}).remote(many_floats);
      mobula::wait(std::vector{next},
                   {.num_returns = 1, .timeout = seconds(60), .fetch_local = false});
      const auto sum = user.call<&Gpu::sum>(next);
      ::kill(stopped, SIGSTOP);
      std::this_thread::sleep_for(seconds(1));
      ::kill(stopped, SIGCONT);
      report.equal("after a stop", wait_for(sum), total_to(many_floats));
    }
    mobula::kill(user);
  }
  wait_for(maker.call<&Gpu::forget>());
  // No ref is left: nearly the whole share must become free.
  bool is_free = false;
  for (int i = 0; i < 100 && !is_free; ++i) {
    try {
      is_free = wait_for(maker.call<&Gpu::take_and_give>(std::int64_t{3} << 30)) == 20;
    } catch (const mobula::TaskError&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  report.holds("the memory is free again", is_free);
  return report.exit_code();
}

// Named transports of host tensors. Arguments: transports that must work. After "not": transports
// that must not.
int host_paths(const Words& arguments) {
  Report report;
  auto maker = mobula::actor<Gpu>.options(on_gpus(0)).remote();
  auto user = mobula::actor<Gpu>.options(on_gpus(0)).remote();
  const std::map<std::string, Transport> names{{"gloo", Transport::gloo}, {"ucx", Transport::ucx}};
  bool works = true;
  for (const std::string& word : arguments) {
    if (word == "not") {
      works = false;
      continue;
    }
    const auto made = maker.method<&Gpu::make_here>()
                          .options({.tensor_transport = names.at(word)})
                          .remote(floats);
    if (works) {
      report.equal(word.c_str(), wait_for(user.call<&Gpu::sum>(made)), total_to(floats));
      report.equal("its path", wait_for(user.call<&Gpu::paths>()).back(), word);
      report.equal("to this process", total(wait_for(made)), total_to(floats));
      continue;
    }
    try {
      (void)wait_for(user.call<&Gpu::sum>(made));
      report.fail("no error by " + word);
    } catch (const mobula::TransferError& error) {
      tell(word + " is refused: " + error.what());
    }
  }
  return report.exit_code();
}

// A device fails permanently, and the process that used it is replaced. Arguments: the failure in
// the syntax of the simulation, and the transport that encounters it.
int gpu_replaced(const Words& arguments) {
  Report report;
  mobula::ActorOptions options = on_gpus(1);
  options.max_restarts = 1;
  options.env["MOBULA_SIMULATED_GPU"] =
      std::string(std::getenv("MOBULA_SIMULATED_GPU")) + " " + arguments.at(0);
  auto maker = mobula::actor<Gpu>.options(options).remote();
  auto user = mobula::actor<Gpu>.options(on_gpus(1)).remote();
  const auto before = wait_for(maker.call<&Gpu::pid>());
  const Transport way = arguments.at(1) == "nccl" ? Transport::nccl : Transport::automatic;
  const auto made = maker.method<&Gpu::make>().options({.tensor_transport = way}).remote(floats);
  try {
    // If the failure costs only a connection, the next attempt gets the elements.
    report.equal("another try", wait_for(user.call<&Gpu::sum>(made)), total_to(floats));
    if (way != Transport::nccl) report.fail("a lost tensor gave no error");
  } catch (const mobula::Error& error) {
    tell(std::string("it is lost: ") + error.what());
  }
  std::int64_t after = before;
  for (int i = 0; i < 600 && after == before; ++i) {
    try {
      after = wait_for(maker.call<&Gpu::pid>());
    } catch (const mobula::Error& error) {
      tell(std::string("meanwhile: ") + error.what());
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  report.holds("another process has taken its place", after != before);
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> device_tensor_scenarios() {
  return {
      {"gpu_values", &gpu_values}, {"gpu_tensors", &gpu_tensors},   {"gpu_paths", &gpu_paths},
      {"gpu_pairs", &gpu_pairs},   {"gpu_tasks", &gpu_tasks},       {"gpu_ring", &gpu_ring},
      {"gpu_ends", &gpu_ends},     {"gpu_replaced", &gpu_replaced}, {"host_paths", &host_paths},
      {"gpu_kills", &gpu_kills},   {"gpu_streams", &gpu_streams},   {"gpu_broken", &gpu_broken}};
}

}  // namespace mobula::e2e
