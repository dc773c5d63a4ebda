#include "device/gpu/check/nccl_scenarios.h"

#include <mobula/mobula.h>

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "device/gpu/check/driver_findings.h"

namespace mobula::internal::gpu_check {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::int64_t a_mib = 1 << 20;
const Device shared_gpu{Device::cuda, 0};
constexpr const char* switch_of_nccl = "NCCL_MULTI_RANK_GPU_ENABLE";

// The bytes of a tensor; their period is a prime, so that a piece at a wrong place is wrong.
std::uint8_t byte_at(std::size_t index, int seed) {
  return static_cast<std::uint8_t>(index % 65'521 * 7 + index / 65'521 +
                                   static_cast<std::size_t>(seed));
}
// FNV-1a of 64 bits.
std::uint64_t checksum(std::size_t size, const std::function<std::uint8_t(std::size_t)>& byte) {
  std::uint64_t sum = 0xcbf29ce484222325ULL;
  for (std::size_t i = 0; i < size; ++i) sum = (sum ^ byte(i)) * 0x100000001b3ULL;
  return sum;
}

// An element of the operand of one rank: small integers, whose sums are exact in every order.
float element_of(int rank, std::int64_t index) {
  return static_cast<float>((index * 7 + rank * 3) % 11);
}

struct Received {
  bool right = false;
  bool on_gpu = false;
  std::string path;
  double wire_s = 0;
};

class Sharer {
 public:
  std::int64_t pid() { return ::getpid(); }
  Tensor make(std::int64_t bytes, int seed) {
    Tensor here = Tensor::empty({bytes}, DType::uint8);
    std::size_t i = 0;
    for (auto& each : here.mutable_view<std::uint8_t>()) each = byte_at(i++, seed);
    return here.to(shared_gpu);
  }
  Received receive(const Tensor& tensor, int seed) {
    Received seen;
    seen.on_gpu = tensor.device() == shared_gpu;
    const auto log = transfer_log();
    if (!log.empty()) {
      seen.path = log.back().path;
      seen.wire_s = std::chrono::duration<double>(log.back().wire_time).count();
    }
    const Tensor here = tensor.to(Device{});
    const auto bytes = here.view<std::uint8_t>();
    seen.right = checksum(bytes.size(), [&](std::size_t i) { return bytes[i]; }) ==
                 checksum(bytes.size(), [&](std::size_t i) { return byte_at(i, seed); });
    return seen;
  }

  // Names of the operations with a wrong result; empty: all are right.
  std::string operate(const CollectiveGroup& group, std::int64_t count) {
    const int me = group.rank(), members = group.size(), last = members - 1;
    const Tensor mine = operand(me, count);
    std::string wrong;
    const auto expect = [&](const char* what, const Tensor& seen, const auto& expected) {
      const Tensor here = seen.to(Device{});
      const auto elements = here.view<float>();
      bool right = static_cast<std::int64_t>(elements.size()) == count;
      for (std::int64_t i = 0; right && i < count; ++i)
        right = std::abs(elements[static_cast<std::size_t>(i)] - expected(i)) < 1e-4f;
      if (!right) wrong += std::string(what) + "; ";
    };
    const auto of = [](int rank) { return [rank](std::int64_t i) { return element_of(rank, i); }; };
    expect("all_reduce", group.all_reduce(mine), [members](std::int64_t i) {
      float sum = 0;
      for (int rank = 0; rank < members; ++rank) sum += element_of(rank, i);
      return sum;
    });
    expect("broadcast", group.broadcast(me == last ? mine : Tensor(), {.root = last}), of(last));
    const auto parts = group.all_gather(mine);
    for (int rank = 0; rank < members; ++rank)
      expect("all_gather", parts.at(static_cast<std::size_t>(rank)), of(rank));
    const int next = (me + 1) % members, before = (me + last) % members;
    if (me % 2 == 0) group.send(mine, next);
    const Tensor came = group.receive(before);
    if (me % 2 != 0) group.send(mine, next);
    expect("send and receive", came, of(before));
    if (group.state().device_path != "nccl") wrong += "another path: " + group.state().device_path;
    return wrong;
  }
  // "REASON: RANKS" of the error that ends it.
  std::string repeat(const CollectiveGroup& group, std::int64_t count, double timeout_s) {
    const Tensor mine = operand(group.rank(), count);
    try {
      for (;; ++repeated_) (void)group.all_reduce(mine, {.timeout = mobula::Duration(timeout_s)});
    } catch (const CollectiveError& error) {
      std::string text = error.reason() + ":";
      for (const int rank : error.ranks()) text += " " + std::to_string(rank);
      return text;
    }
  }
  int repeated() { return repeated_; }
  // The shortest of three.
  double seconds_of_all_reduce(const CollectiveGroup& group, std::int64_t count) {
    const Tensor mine = operand(group.rank(), count);
    (void)group.all_reduce(mine);
    double least = 0;
    for (int i = 0; i < 3; ++i) {
      const std::int64_t begin = now_ns();
      (void)group.all_reduce(mine);
      const double took = static_cast<double>(now_ns() - begin) / 1e9;
      least = i == 0 ? took : std::min(least, took);
    }
    return least;
  }

 private:
  static Tensor operand(int rank, std::int64_t count) {
    Tensor tensor = Tensor::empty({count});
    std::int64_t i = 0;
    for (float& each : tensor.mutable_view<float>()) each = element_of(rank, i++);
    return tensor.to(shared_gpu);
  }
  std::atomic<int> repeated_{0};
};

using Sharers = std::vector<ActorHandle<Sharer>>;

ActorHandle<Sharer> sharer(double gpus, const std::string& switched = {}) {
  ActorOptions options;
  options.num_cpus = 0.1;
  options.num_gpus = gpus;
  options.max_concurrency = 2;
  if (!switched.empty()) options.env[switch_of_nccl] = switched;
  return actor<Sharer>.options(options).remote();
}

template <auto M, class... Args>
auto all_of(const Sharers& all, const Args&... args) {
  std::vector<decltype(all[0].template call<M>(args...))> refs;
  for (const auto& each : all) refs.push_back(each.template call<M>(args...));
  return get(refs, seconds(30));
}

CollectiveGroup group_of(const Sharers& all, const char* name,
                         Transport transport = Transport::nccl) {
  return create_collective_group(all, transport, name,
                                 {.timeout = seconds(20), .create_timeout = seconds(20)});
}

void transfer(const Sharers& all, std::int64_t bytes) {
  const CallOptions by_nccl{.tensor_transport = Transport::nccl};
  bool right = true;
  std::string seen;
  double wire_s = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const int seed = static_cast<int>(i);
    const auto made = all[i].method<&Sharer::make>().options(by_nccl).remote(bytes, seed);
    const auto received =
        get(all[(i + 1) % all.size()].call<&Sharer::receive>(made, seed), seconds(30));
    right = right && received.right && received.on_gpu && received.path == "nccl";
    seen = "by " + received.path;
    wire_s = received.wire_s;
  }
  const std::string what = std::to_string(all.size()) + " actors of one GPU, a tensor of " +
                           std::to_string(bytes) + " bytes";
  holds(what + " by nccl from each to the next", right, seen);
  if (bytes >= 16 * a_mib) value(what + " by nccl", wire_s * 1e3, "ms");
}

void operate_in(const Sharers& all, const CollectiveGroup& group, std::int64_t count,
                const std::string& when = {}) {
  std::string wrong;
  for (const auto& each : all_of<&Sharer::operate>(all, group, count)) wrong += each;
  holds(std::to_string(all.size()) + " actors of one GPU, a group over nccl" + when +
            ": all_reduce, broadcast, all_gather, send of " + std::to_string(count) + " elements",
        wrong.empty(), wrong);
}

void compare_paths(const Sharers& all, const CollectiveGroup& group, std::int64_t count) {
  const auto longest = [&](const CollectiveGroup& of) {
    const auto each = all_of<&Sharer::seconds_of_all_reduce>(all, of, count);
    return *std::max_element(each.begin(), each.end()) * 1e3;
  };
  const std::string what =
      "all_reduce of " + std::to_string(count * 4) + " bytes, two actors of one GPU, ";
  value(what + "over nccl", longest(group), "ms");
  const auto by_host = group_of(all, "by host", Transport::automatic);
  value(what + "through host memory", longest(by_host), "ms");
  destroy_collective_group(by_host);
}

void kill_member(Sharers& all, const CollectiveGroup& group, bool brief) {
  const std::int64_t count = (brief ? a_mib : 64 * a_mib) / 4;
  const auto pid = static_cast<pid_t>(get(all[1].call<&Sharer::pid>(), seconds(30)));
  std::vector<ObjectRef<std::string>> ends;
  for (const auto& each : all) ends.push_back(each.call<&Sharer::repeat>(group, count, 20.0));
  for (const std::int64_t end = now_ns() + 20'000'000'000; now_ns() < end;) {
    const auto done = all_of<&Sharer::repeated>(all);
    if (*std::min_element(done.begin(), done.end()) >= 3) break;
    std::this_thread::sleep_for(milliseconds(5));
  }
  const std::int64_t begin = now_ns();
  ::kill(pid, SIGKILL);
  const std::string text = get(ends[0], seconds(30));
  holds("kill -9 of rank 1 during an operation: the other gets CollectiveError within the timeout",
        text == "broken: 1", text);
  value("time from kill -9 to the error", static_cast<double>(now_ns() - begin) / 1e6, "ms");
}

// Whether the text of `error` has all parts.
void expect_text(const std::string& what, const std::string& text,
                 const std::vector<std::string>& parts) {
  bool all = true;
  for (const auto& each : parts) all = all && text.find(each) != std::string::npos;
  holds(what, all, text);
}

std::string refusal_of_group(const Sharers& all) {
  try {
    (void)group_of(all, "refused");
    return "the group was created";
  } catch (const TransferError& error) {
    return error.what();
  }
}

}  // namespace

void share_gpu_by_nccl(bool brief) {
  const std::int64_t largest = brief ? 2 * a_mib : 64 * a_mib;
  const std::int64_t count = brief ? 10'007 : 1'000'003;
  {
    Sharers two{sharer(0.5), sharer(0.5)};
    for (const std::int64_t bytes : {a_mib / 2 - 1, a_mib + 1, largest / 4, largest})
      transfer(two, bytes);
    const auto group = group_of(two, "two");
    operate_in(two, group, 5);
    operate_in(two, group, count);
    compare_paths(two, group, largest / 4);
    kill_member(two, group, brief);
    destroy_collective_group(group);
    two[1] = sharer(0.5);
    const auto next = group_of(two, "next");
    operate_in(two, next, count, " after the kill");
    destroy_collective_group(next);
  }
  {
    const Sharers three{sharer(0.3), sharer(0.3), sharer(0.3)};
    for (const std::int64_t bytes : {a_mib + 1, largest}) transfer(three, bytes);
    const auto group = group_of(three, "three");
    operate_in(three, group, count);
    destroy_collective_group(group);
  }
  const Sharers mixed{sharer(0.3), sharer(0.3, "0")};
  expect_text("a member with the switch at 0 is refused, with the remedy", refusal_of_group(mixed),
              {"rank 0", "rank 1", "GPU-", std::string(switch_of_nccl) + "=1"});
}

void refuse_shared_gpu(bool brief) {
  const Sharers two{sharer(0.5), sharer(0.5)};
  const std::string remedy = "install 2.30 or newer";
  expect_text("an older NCCL: a group is refused; the text names both members, the GPU, the remedy",
              refusal_of_group(two), {"rank 0", "rank 1", "GPU-", remedy});
  const CallOptions by_nccl{.tensor_transport = Transport::nccl};
  std::string text = "the tensor arrived";
  try {
    (void)get(two[1].call<&Sharer::receive>(
                  two[0].method<&Sharer::make>().options(by_nccl).remote(a_mib, 1), 1),
              seconds(30));
  } catch (const Error& error) {
    text = error.what();
  }
  expect_text("an older NCCL: a strict transfer is refused with the same remedy", text,
              {"the holder", "the receiver", "GPU-", remedy});
  const auto group = group_of(two, "by host", Transport::automatic);
  const auto took =
      all_of<&Sharer::seconds_of_all_reduce>(two, group, brief ? a_mib / 4 : 16 * a_mib);
  holds("an older NCCL: an automatic group works", took.size() == two.size());
  destroy_collective_group(group);
}

}  // namespace mobula::internal::gpu_check
