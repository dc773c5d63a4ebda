// Scenarios about collective groups whose tensors lie in the memory of GPUs.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "e2e/driver.h"

namespace mobula::e2e {
namespace {

using mobula::CollectiveError;
using mobula::CollectiveGroup;
using mobula::Device;
using mobula::ReduceOp;
using mobula::Tensor;
using mobula::Transport;
using std::chrono::seconds;

const Device the_gpu{Device::cuda, 0};

// Small whole numbers: sums of them are the same in every order.
float note_of(int rank, std::int64_t index) { return static_cast<float>((index * 7 + rank * 3) % 11); }

class Player {
 public:
  // The first `with_gpu` members have a GPU; what the others have lies in host memory.
  void sit(int rank, int with_gpu) {
    place_ = rank < with_gpu ? the_gpu : Device{};
    with_gpu_ = with_gpu;
  }
  std::int64_t pid() { return ::getpid(); }

  std::string all_operations(const CollectiveGroup& group, std::int64_t count) {
    const int me = group.rank();
    const int n = group.size();
    const int root = n - 1;
    const auto sum = [&](std::int64_t i) {
      float total = 0;
      for (int rank = 0; rank < n; ++rank) total += note_of(rank, i);
      return total;
    };
    const auto greatest = [&](std::int64_t i) {
      float most = 0;
      for (int rank = 0; rank < n; ++rank) most = std::max(most, note_of(rank, i));
      return most;
    };
    const auto of = [](int rank) { return [rank](std::int64_t i) { return note_of(rank, i); }; };
    wrong_.clear();
    const Tensor mine = operand(me, count);
    check("all_reduce", group.all_reduce(mine), count, sum);
    check("max", group.all_reduce(mine, {.op = ReduceOp::max}), count, greatest);
    check("average", group.all_reduce(mine, {.op = ReduceOp::average}), count, [&](std::int64_t i) { return sum(i) / static_cast<float>(n); });
    Tensor in_place = operand(me, count);
    group.all_reduce_in_place(in_place);
    check("in place", in_place, count, sum);
    check("broadcast", group.broadcast(me == root ? mine : Tensor(), {.root = root}), count, of(root), root);
    in_place = operand(me, count);
    group.broadcast_in_place(in_place, {.root = 0});
    check("broadcast in place", in_place, count, of(0));
    const Tensor reduced = group.reduce(mine, {.root = root});
    if (me == root) check("reduce", reduced, count, sum);
    if (me != root && reduced.size() != 0) wrong_ += "reduce gives something to others than the root; ";
    const auto gathered = group.all_gather(mine);
    const auto at_root = group.gather(mine, {.root = root});
    if (static_cast<int>(gathered.size()) != n || static_cast<int>(at_root.size()) != (me == root ? n : 0)) return "other sizes";
    for (int rank = 0; rank < n; ++rank) check("all_gather", gathered[static_cast<std::size_t>(rank)], count, of(rank));
    for (int rank = 0; rank < static_cast<int>(at_root.size()); ++rank) {
      check("gather", at_root[static_cast<std::size_t>(rank)], count, of(rank));
    }
    std::vector<Tensor> parts;
    for (int rank = 0; rank < n; ++rank) parts.push_back(operand(me * n + rank, count));
    check("scatter", group.scatter(me == root ? parts : std::vector<Tensor>(), {.root = root}), count, of(root * n + me), root);
    const auto exchanged = group.all_to_all(parts);
    for (int rank = 0; rank < n; ++rank) check("all_to_all", exchanged[static_cast<std::size_t>(rank)], count, of(rank * n + me));
    check("reduce_scatter", group.reduce_scatter(operand(me, count * n)), count, [&](std::int64_t i) { return sum(me * count + i); });
    group.barrier();
    if (n > 1) {
      Tensor came;
      if (me % 2 == 0) group.send(mine, (me + 1) % n);
      came = group.receive((me + n - 1) % n);
      if (me % 2 != 0) group.send(mine, (me + 1) % n);
      check("send and receive", came, count, of((me + n - 1) % n), (me + n - 1) % n);
    }
    return wrong_;
  }

  // Permuted, and of other types.
  std::string odd_ones(const CollectiveGroup& group) {
    wrong_.clear();
    const int me = group.rank();
    const Tensor columns = operand(me, 12).reshape({3, 4}).transpose(0, 1);
    const Tensor sum = group.all_reduce(columns).to(Device{});
    if (sum.shape() != std::vector<std::int64_t>{4, 3}) return "another shape";
    for (int i = 0; i < 12; ++i) {
      float expected = 0;
      for (int rank = 0; rank < group.size(); ++rank) expected += note_of(rank, (i % 3) * 4 + i / 3);
      if (sum.view<float>()[static_cast<std::size_t>(i)] != expected) return "another element of what is permuted";
    }
    Tensor small = Tensor::from<std::int64_t>({me + 1, -me}).to(place_);
    const Tensor product = group.all_reduce(small, {.op = ReduceOp::product}).to(Device{});
    std::int64_t expected = 1;
    for (int rank = 0; rank < group.size(); ++rank) expected *= rank + 1;
    if (product.view<std::int64_t>()[0] != expected || product.view<std::int64_t>()[1] != 0) return "another product";
    const Tensor least = group.all_reduce(small, {.op = ReduceOp::min}).to(Device{});
    if (least.view<std::int64_t>()[1] != 1 - group.size()) return "another minimum";
    return "";
  }

  mobula::CollectiveGroupState state(const CollectiveGroup& group) { return group.state(); }

  // "reason: ranks" of the error of an operation on a tensor of the GPU, or of the host; or "done".
  std::string outcome(const CollectiveGroup& group, std::int64_t count, bool on_gpu, double timeout) {
    try {
      Tensor mine = Tensor::zeros({count}, mobula::DType::float32, on_gpu ? the_gpu : Device{});
      (void)group.all_reduce(mine, {.timeout = mobula::Duration(timeout)});
      return "done";
    } catch (const CollectiveError& error) {
      std::string text = error.reason() + ":";
      for (const int rank : error.ranks()) text += " " + std::to_string(rank);
      return text;
    } catch (const mobula::InvalidRequestError& error) {
      return std::string("invalid: ") + error.what();
    }
  }
  std::string play_for_ever(const CollectiveGroup& group, std::int64_t count) {
    while (true) {
      const auto said = outcome(group, count, true, 60);
      if (said != "done") return said;
    }
  }
  std::string refused_types(const CollectiveGroup& group) {
    try {
      (void)group.all_reduce(Tensor::zeros({8}, mobula::DType::int16, the_gpu));
      return "done";
    } catch (const mobula::InvalidRequestError& error) {
      return error.what();
    }
  }
  Tensor make(std::int64_t count) { return operand(0, count); }
  // What is pulled by its own way while the group works.
  double sum_of(const Tensor& tensor) {
    const Tensor here = tensor.to(Device{});
    double total = 0;
    for (const float each : here.view<float>()) total += each;
    return total;
  }

 private:
  Tensor operand(int rank, std::int64_t count) {
    Tensor tensor = Tensor::empty({count});
    std::int64_t i = 0;
    for (float& each : tensor.mutable_view<float>()) each = note_of(rank, i++);
    return tensor.to(place_);
  }
  // `like`: of another member, whose operand says where it lies.
  template <class Expected>
  void check(const std::string& what, const Tensor& tensor, std::int64_t count, Expected expected, int like = 0) {
    if (tensor.device() != (like < with_gpu_ ? place_ : Device{})) wrong_ += what + ": on another device; ";
    if (tensor.shape() != std::vector<std::int64_t>{count}) {
      wrong_ += what + ": another shape; ";
      return;
    }
    const Tensor here = tensor.to(Device{}).contiguous();
    const auto elements = here.view<float>();
    for (std::int64_t i = 0; i < count; ++i) {
      if (std::abs(elements[static_cast<std::size_t>(i)] - expected(i)) < 1e-4f) continue;  // an average is rounded
      wrong_ += what + ": another element at " + std::to_string(i) + "; ";
      return;
    }
  }

  Device place_ = the_gpu;
  int with_gpu_ = 0;
  std::string wrong_;
};

using Band = std::vector<mobula::ActorHandle<Player>>;

Band band(int members, int with_gpu) {
  Band all;
  for (int i = 0; i < members; ++i) {
    mobula::ActorOptions options;
    options.num_cpus = 0;
    if (i < with_gpu) options.num_gpus = 1;
    all.push_back(mobula::actor<Player>.options(options).remote());
    all.back().call<&Player::sit>(i, with_gpu);
  }
  return all;
}

template <auto M, class... Args>
auto each_of(const Band& all, const Args&... args) {
  std::vector<decltype(all[0].template call<M>(args...))> refs;
  for (const auto& each : all) refs.push_back(each.template call<M>(args...));
  return mobula::get(refs, seconds(120));
}

const std::map<std::string, Transport> ways{{"automatic", Transport::automatic}, {"shm", Transport::shm}, {"tcp", Transport::tcp},
                                            {"gloo", Transport::gloo}, {"nccl", Transport::nccl}};

// Arguments: the transport, how many members, how many of them have a GPU.
int gpu_collectives(const Words& arguments) {
  Report report;
  const std::string way = arguments.at(0);
  const int members = std::stoi(arguments.at(1));
  const int with_gpu = std::stoi(arguments.at(2));
  const auto all = band(members, with_gpu);
  const auto group = mobula::create_collective_group(all, ways.at(way), "band");
  for (const std::int64_t count : {0, 5, 1000, 1 << 17}) {
    for (const auto& wrong : each_of<&Player::all_operations>(all, group, count)) {
      report.equal(("all operations of " + std::to_string(count)).c_str(), wrong, "");
    }
  }
  for (const auto& wrong : each_of<&Player::odd_ones>(all, group)) report.equal("odd ones", wrong, "");
  const auto states = each_of<&Player::state>(all, group);
  for (int rank = 0; rank < members; ++rank) {
    const auto& state = states[static_cast<std::size_t>(rank)];
    report.equal("paths", state.paths.size(), static_cast<std::size_t>(members));
    report.equal("none to itself", state.paths[static_cast<std::size_t>(rank)], "");
    report.holds("operations", state.operations > 50);
    const bool staged = way != "nccl" && rank < with_gpu;
    report.equal("by way of the host", state.staged_bytes > 0, staged);
  }
  mobula::destroy_collective_group(group);
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> device_collective_scenarios() { return {{"gpu_collectives", &gpu_collectives}}; }

}  // namespace mobula::e2e
