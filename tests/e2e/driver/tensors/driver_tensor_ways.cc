// Scenarios that every transport path of tensors must pass. The first argument names the path:
// inproc, shm, tcp, store, gloo, ucx, or nixl for host memory, and cuda_ipc, nccl, or staged for
// GPU memory.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <tuple>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using mobula::DType;
using mobula::Tensor;
using mobula::Transport;
using std::chrono::seconds;

const mobula::Device gpu_of_slot{mobula::Device::cuda, 0};
constexpr std::int64_t side = 300;

enum Kind : int { sizes, types, layouts, regions, mixed };

Tensor filled(const mobula::Extents& shape, DType type, int seed) {
  Tensor made = Tensor::empty(shape, type);
  auto bytes = made.mutable_view<std::byte>();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>((i * 7 + static_cast<std::size_t>(seed)) &
                                      (type == DType::boolean ? 1u : 255u));
  }
  return made;
}

// The tensors that both sides expect, on the host.
std::vector<Tensor> made_of(int kind) {
  std::vector<Tensor> all;
  if (kind == sizes) {
    for (const std::int64_t size :
         {0, 1, 65'535, 65'536, 65'537, 2'097'151, 2'097'152, 2'097'153}) {
      all.push_back(filled({size}, DType::uint8, static_cast<int>(all.size())));
    }
  } else if (kind == types) {
    for (const DType type :
         {DType::boolean, DType::int8, DType::uint8, DType::int16, DType::uint16, DType::int32,
          DType::uint32, DType::int64, DType::uint64, DType::float16, DType::bfloat16,
          DType::float32, DType::float64, DType::complex64, DType::complex128, DType::float8_e4m3fn,
          DType::float8_e5m2, DType::float8_e8m0}) {
      all.push_back(filled({side, side}, type, static_cast<int>(all.size())));
    }
  } else if (kind == layouts) {
    const Tensor cube = filled({40, 50, 60}, DType::int32, 1);
    all = {cube,
           cube.transpose(0, 1),
           cube.transpose(1, 2),
           cube.transpose(0, 2),
           cube.reshape({2'000, -1}).transpose(0, 1),
           filled({}, DType::float64, 2),
           filled({0, 3}, DType::float32, 3),
           filled({1, 1, 1}, DType::int16, 4)};
  } else {
    for (int i = 0; i < 100; ++i) all.push_back(filled({1'000 + i * 37}, DType::int32, i));
  }
  return all;
}

std::int64_t checksum(const Tensor& tensor) {
  const Tensor here = tensor.to(mobula::Device{}).contiguous();
  std::uint64_t sum = 0;
  for (const std::byte each : here.view<std::byte>())
    sum = sum * 31 + static_cast<std::uint64_t>(each);
  return static_cast<std::int64_t>(sum >> 8);  // several sums together do not overflow
}

struct Nest {
  std::vector<Tensor> many;
  std::optional<Tensor> one;
  std::string name;
};

class Keeper {
 public:
  explicit Keeper(bool on_gpu) : on_gpu_(on_gpu) {}
  std::vector<Tensor> make_all(int kind) {
    std::vector<Tensor> all = made_of(kind);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (on_gpu_ && (kind != mixed || i % 2 == 0)) all[i] = all[i].to(gpu_of_slot);
    }
    return all;
  }
  // Describes the differences.
  std::string check_all(int kind, const std::vector<Tensor>& all) {
    const std::vector<Tensor> expected = made_of(kind);
    if (all.size() != expected.size()) return "another number of them";
    for (std::size_t i = 0; i < all.size(); ++i) {
      const bool alike =
          all[i].shape() == expected[i].shape() && all[i].dtype() == expected[i].dtype();
      if (!alike || checksum(all[i]) != checksum(expected[i]))
        return "another one at " + std::to_string(i);
    }
    return {};
  }
  Tensor make(int seed) { return kept_ = moved(filled({100'000}, DType::uint8, seed)); }
  Tensor make_large(std::int64_t bytes) { return moved(filled({bytes}, DType::uint8, 5)); }
  std::tuple<Tensor, int> make_two(int seed) { return {make(seed), seed}; }
  Nest make_nest(int seed) { return {{make(seed), make(seed + 1)}, make(seed + 2), "nest"}; }
  std::int64_t sum(const Tensor& tensor) { return checksum(tensor); }
  std::int64_t sum_of_two(const Tensor& a, const Tensor& b) { return checksum(a) + checksum(b); }
  std::int64_t sum_nest(const Nest& nest) {
    return checksum(nest.many.at(0)) + checksum(nest.many.at(1)) + checksum(*nest.one);
  }
  std::int64_t sum_of_ref(const std::vector<mobula::ObjectRef<Tensor>>& refs) {
    return checksum(mobula::get(refs.at(0), seconds(60)));
  }
  bool is_mine(const Tensor& tensor) { return tensor.data() == kept_.data(); }
  bool may_write() {
    try {
      return kept_.mutable_data() != nullptr;
    } catch (const mobula::TensorSharedError&) {
      return false;
    }
  }
  bool freed_within(double patience) {
    try {
      mobula::wait_tensor_freed(kept_, mobula::Duration(patience));
      return true;
    } catch (const mobula::GetTimeoutError&) {
      return false;
    }
  }
  // User code that computes and allocates, and never calls the runtime.
  int busy_until(const std::string& file) {
    while (!std::filesystem::exists(file))
      std::vector<char>(100'000, 'x').swap(*std::make_unique<std::vector<char>>());
    return 1;
  }
  std::vector<std::string> paths() {
    std::vector<std::string> out;
    for (const auto& each : mobula::transfer_log()) out.push_back(each.path);
    return out;
  }
  std::int64_t pid() const { return ::getpid(); }
  void leave() { mobula::exit_actor(); }

 private:
  Tensor moved(Tensor made) const { return on_gpu_ ? made.to(gpu_of_slot) : made; }

  bool on_gpu_;
  Tensor kept_;
};

// A producer and a reader that use one path.
class Way {
 public:
  explicit Way(const std::string& name)
      : name_(name), on_gpu_(name == "cuda_ipc" || name == "nccl" || name == "staged") {
    const std::map<std::string, Transport> named{
        {"shm", Transport::shm},   {"tcp", Transport::tcp},  {"store", Transport::object_store},
        {"gloo", Transport::gloo}, {"ucx", Transport::ucx},  {"cuda_ipc", Transport::cuda_ipc},
        {"nccl", Transport::nccl}, {"nixl", Transport::nixl}};
    const auto at = named.find(name);
    transport = at == named.end() ? Transport::automatic : at->second;
    by.tensor_transport = transport;
    maker.emplace(start());
    user.emplace(name == "inproc" ? *maker : start());
  }
  mobula::ActorHandle<Keeper> start() const {
    mobula::ActorOptions options;
    options.num_cpus = 0.1;
    if (on_gpu_) options.num_gpus = 1;
    return mobula::actor<Keeper>.options(options).remote(on_gpu_);
  }
  bool on_gpu() const { return on_gpu_; }
  // Expects that the reader received all tensors over this path. Small GPU tensors are inside their
  // values and go through the store.
  void expect_paths(Report& report) const {
    const auto paths = mobula::get(user->call<&Keeper::paths>(), seconds(60));
    if (name_ == "inproc") report.holds("nothing was moved", paths.empty());
    if (name_ == "inproc" || name_ == "store") return;
    const auto is_this = [&](const std::string& path) {
      return path.substr(0, name_.size()) == name_;
    };
    report.holds("tensors were pulled", std::ranges::any_of(paths, is_this));
    for (const auto& path : paths) {
      if (!is_this(path) && !(on_gpu_ && path == "store")) report.fail("by another path: " + path);
    }
  }

  std::optional<mobula::ActorHandle<Keeper>> maker, user;
  mobula::CallOptions by;
  Transport transport = Transport::automatic;

 private:
  std::string name_;
  bool on_gpu_;
};

template <class T>
T soon(const mobula::ObjectRef<T>& ref) {
  return mobula::get(ref, seconds(60));
}
std::int64_t sum_of(int seed) { return checksum(filled({100'000}, DType::uint8, seed)); }

int way_layouts(const Words& arguments) {
  Report report;
  const Way way(arguments.at(0));
  for (const int kind : {sizes, types, layouts, regions}) {
    const auto all = way.maker->method<&Keeper::make_all>().options(way.by).remote(kind);
    report.equal("of one kind", soon(way.user->call<&Keeper::check_all>(kind, all)), "");
  }
  way.expect_paths(report);
  if (!way.on_gpu()) return report.exit_code();
  auto or_another = way.by;
  or_another.allow_fallback = true;
  const auto all = way.maker->method<&Keeper::make_all>().options(or_another).remote(mixed);
  report.equal("tensors of the host and of a GPU together",
               soon(way.user->call<&Keeper::check_all>(mixed, all)), "");
  return report.exit_code();
}

int way_refs(const Words& arguments) {
  Report report;
  const Way way(arguments.at(0));
  const auto made = way.maker->method<&Keeper::make>().options(way.by).remote(1);
  report.equal("the same ref twice", soon(way.user->call<&Keeper::sum_of_two>(made, made)),
               2 * sum_of(1));
  std::vector<mobula::ObjectRef<std::int64_t>> sums;
  for (int i = 0; i < 20; ++i) sums.push_back(way.user->call<&Keeper::sum>(made));
  for (const auto& each : sums) report.equal("one of 20 consumers", soon(each), sum_of(1));
  const auto [first, second] =
      way.maker->method<&Keeper::make_two>().split().options(way.by).remote(2);
  report.equal("of a tuple", soon(way.user->call<&Keeper::sum>(first)), sum_of(2));
  report.equal("the rest of it", soon(second), 2);
  const auto nest = way.maker->method<&Keeper::make_nest>().options(way.by).remote(3);
  report.equal("nested", soon(way.user->call<&Keeper::sum_nest>(nest)),
               sum_of(3) + sum_of(4) + sum_of(5));
  report.equal("inside another value", soon(way.user->call<&Keeper::sum_of_ref>(std::vector{made})),
               sum_of(1));
  way.expect_paths(report);
  const mobula::GetOptions by_store{.tensor_transport = Transport::object_store,
                                    .timeout = seconds(60)};
  report.equal("get from a driver",
               checksum(way.on_gpu() ? mobula::get(made, by_store) : soon(made)), sum_of(1));
  const auto put =
      mobula::put(filled({100'000}, DType::uint8, 9),
                  {.tensor_transport = way.on_gpu() ? Transport::automatic : way.transport});
  report.equal("put", soon(way.user->call<&Keeper::sum>(put)), sum_of(9));
  return report.exit_code();
}

// Arguments: the path, a directory.
int way_life(const Words& arguments) {
  Report report;
  const Way way(arguments.at(0));
  {
    const auto made = way.maker->method<&Keeper::make>().options(way.by).remote(1);
    if (way.transport != Transport::object_store) {
      report.holds("the same memory in its maker", soon(way.maker->call<&Keeper::is_mine>(made)));
      report.equal("written while it is shared", soon(way.maker->call<&Keeper::may_write>()),
                   false);
      report.equal("freed while it is shared", soon(way.maker->call<&Keeper::freed_within>(0.1)),
                   false);
    }
    report.equal("a sum", soon(way.user->call<&Keeper::sum>(made)), sum_of(1));
  }
  report.holds("freed after its last ref", soon(way.maker->call<&Keeper::freed_within>(30.0)));
  report.holds("written then", soon(way.maker->call<&Keeper::may_write>()));

  const auto made = way.maker->method<&Keeper::make>().options(way.by).remote(2);
  mobula::wait(std::vector{made}, {.num_returns = 1, .timeout = seconds(60), .fetch_local = false});
  const std::string go = arguments.at(1) + "/go-" + arguments.at(0);
  const auto busy = way.maker->call<&Keeper::busy_until>(go);
  if (arguments.at(0) != "inproc") {
    report.equal("while its maker is busy", soon(way.user->call<&Keeper::sum>(made)), sum_of(2));
  }
  std::ofstream(go) << "go on" << std::endl;
  report.equal("the busy one", soon(busy), 1);

  way.maker->call<&Keeper::leave>();
  throws<mobula::ActorDiedError>(report, "a call of one that left",
                                 [&] { soon(way.maker->call<&Keeper::pid>()); });
  auto late = way.start();
  report.equal("after its maker left", soon(late.call<&Keeper::sum>(made)), sum_of(2));
  report.equal("here, too", checksum(soon(made)), sum_of(2));
  return report.exit_code();
}

// Eight transfers in a ring, and pairs in both directions and at random, all at once.
int way_graph(const Words& arguments) {
  Report report;
  const Way way(arguments.at(0));
  std::vector<mobula::ActorHandle<Keeper>> all;
  for (int i = 0; i < 8; ++i) all.push_back(way.start());
  std::vector<std::pair<mobula::ObjectRef<std::int64_t>, int>> sums;
  const auto pass = [&](std::size_t from, std::size_t to) {
    const int seed = static_cast<int>(sums.size());
    const auto made = all[from].method<&Keeper::make>().options(way.by).remote(seed);
    sums.emplace_back(all[to].call<&Keeper::sum>(made), seed);
  };
  for (std::size_t i = 0; i < all.size(); ++i) pass(i, (i + 1) % all.size());
  for (std::size_t i = 0; i + 1 < all.size(); i += 2) pass(i + 1, i);
  for (std::size_t i = 0; i < 40; ++i) pass(i * 5 % 8, (i * 3 + 1) % 8);
  for (const auto& [sum, seed] : sums) report.equal("a sum", soon(sum), sum_of(seed));
  return report.exit_code();
}

// Runs a thousand cycles. Prints "warm" after 50 cycles and "done" at the end, and waits for the
// test each time.
int way_cycles(const Words& arguments) {
  Report report;
  {
    const Way way(arguments.at(0));
    for (int i = 0; i < 1'000; ++i) {
      const auto made = way.maker->method<&Keeper::make>().options(way.by).remote(i);
      report.equal("a sum", soon(way.user->call<&Keeper::sum>(made)), sum_of(i));
      if (i == 50) {
        tell("warm");
        hear();
      }
    }
    tell("done");
    hear();
  }
  return report.exit_code();
}

int way_gibibyte(const Words& arguments) {
  Report report;
  const Way way(arguments.at(0));
  constexpr std::int64_t bytes = std::int64_t{1} << 30;
  const auto made = way.maker->method<&Keeper::make_large>().options(way.by).remote(bytes);
  report.equal("a sum", mobula::get(way.user->call<&Keeper::sum>(made), seconds(150)),
               checksum(filled({bytes}, DType::uint8, 5)));
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> tensor_way_scenarios() {
  return {{"way_layouts", &way_layouts}, {"way_refs", &way_refs},
          {"way_life", &way_life},       {"way_graph", &way_graph},
          {"way_cycles", &way_cycles},   {"way_gibibyte", &way_gibibyte}};
}

}  // namespace mobula::e2e
