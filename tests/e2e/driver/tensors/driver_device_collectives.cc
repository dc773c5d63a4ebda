// Scenarios about collective groups with tensors in GPU memory.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "e2e/driver/driver.h"
#include "e2e/driver/tensors/gpu_part.h"

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

// Small integers, whose sums are equal in every order.
float note_of(int rank, std::int64_t index) {
  return static_cast<float>((index * 7 + rank * 3) % 11);
}

class Player {
 public:
  // The first `with_gpu` members have a GPU. The operands of the others are in host memory.
  void sit(int rank, int with_gpu) {
    device_ = rank < with_gpu ? the_gpu : Device{};
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
    check("average", group.all_reduce(mine, {.op = ReduceOp::average}), count,
          [&](std::int64_t i) { return sum(i) / static_cast<float>(n); });
    Tensor in_place = operand(me, count);
    group.all_reduce_in_place(in_place);
    check("in place", in_place, count, sum);
    check("broadcast", group.broadcast(me == root ? mine : Tensor(), {.root = root}), count,
          of(root), root);
    in_place = operand(me, count);
    group.broadcast_in_place(in_place, {.root = 0});
    check("broadcast in place", in_place, count, of(0));
    const Tensor reduced = group.reduce(mine, {.root = root});
    if (me == root) check("reduce", reduced, count, sum);
    if (me != root && reduced.size() != 0)
      wrong_ += "reduce gives something to others than the root; ";
    const auto gathered = group.all_gather(mine);
    const auto at_root = group.gather(mine, {.root = root});
    if (static_cast<int>(gathered.size()) != n ||
        static_cast<int>(at_root.size()) != (me == root ? n : 0))
      return "other sizes";
    for (int rank = 0; rank < n; ++rank)
      check("all_gather", gathered[static_cast<std::size_t>(rank)], count, of(rank));
    for (int rank = 0; rank < static_cast<int>(at_root.size()); ++rank) {
      check("gather", at_root[static_cast<std::size_t>(rank)], count, of(rank));
    }
    std::vector<Tensor> parts;
    for (int rank = 0; rank < n; ++rank) parts.push_back(operand(me * n + rank, count));
    check("scatter", group.scatter(me == root ? parts : std::vector<Tensor>(), {.root = root}),
          count, of(root * n + me), root);
    const auto exchanged = group.all_to_all(parts);
    for (int rank = 0; rank < n; ++rank)
      check("all_to_all", exchanged[static_cast<std::size_t>(rank)], count, of(rank * n + me));
    check("reduce_scatter", group.reduce_scatter(operand(me, count * n)), count,
          [&](std::int64_t i) { return sum(me * count + i); });
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

  // Permuted tensors, and tensors of other types.
  std::string odd_ones(const CollectiveGroup& group) {
    wrong_.clear();
    const int me = group.rank();
    const Tensor columns = operand(me, 12).reshape({3, 4}).transpose(0, 1);
    const Tensor sum = group.all_reduce(columns).to(Device{});
    if (sum.shape() != std::vector<std::int64_t>{4, 3}) return "another shape";
    for (int i = 0; i < 12; ++i) {
      float expected = 0;
      for (int rank = 0; rank < group.size(); ++rank)
        expected += note_of(rank, (i % 3) * 4 + i / 3);
      if (sum.view<float>()[static_cast<std::size_t>(i)] != expected)
        return "wrong element of the permuted tensor";
    }
    Tensor small = Tensor::from<std::int64_t>({me + 1, -me}).to(device_);
    const Tensor product = group.all_reduce(small, {.op = ReduceOp::product}).to(Device{});
    std::int64_t expected = 1;
    for (int rank = 0; rank < group.size(); ++rank) expected *= rank + 1;
    if (product.view<std::int64_t>()[0] != expected || product.view<std::int64_t>()[1] != 0)
      return "another product";
    const Tensor least = group.all_reduce(small, {.op = ReduceOp::min}).to(Device{});
    if (least.view<std::int64_t>()[1] != 1 - group.size()) return "another minimum";
    return "";
  }

  mobula::CollectiveGroupState state(const CollectiveGroup& group) { return group.state(); }

  // "reason: ranks" of the error of an operation on a tensor on the GPU or the host, or "done".
  std::string outcome(const CollectiveGroup& group, std::int64_t count, bool on_gpu,
                      double timeout) {
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
  // The same for a reduction in place. If it is not done, also reports whether the tensor is
  // unchanged.
  std::string outcome_in_place(const CollectiveGroup& group, std::int64_t count, double timeout) {
    Tensor mine = operand(group.rank(), count);
    try {
      group.all_reduce_in_place(mine, {.timeout = mobula::Duration(timeout)});
      wrong_.clear();
      check("sum", mine, count, [&](std::int64_t i) {
        float total = 0;
        for (int rank = 0; rank < group.size(); ++rank) total += note_of(rank, i);
        return total;
      });
      return wrong_.empty() ? "done" : wrong_;
    } catch (const CollectiveError& error) {
      std::string text = error.reason() + ":";
      for (const int rank : error.ranks()) text += " " + std::to_string(rank);
      wrong_.clear();
      const int me = group.rank();
      check("in place", mine, count, [me](std::int64_t i) { return note_of(me, i); });
      return text + (wrong_.empty() ? ", and in place is what was there" : ", and " + wrong_);
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
  std::string failed_tries() {
    std::string all;
    for (const auto& each : mobula::transfer_log()) {
      for (const auto& why : each.refusals) all += why + "; ";
    }
    return all;
  }
  std::string ways_of_large_ones() {
    std::string all;
    for (const auto& each : mobula::transfer_log()) {
      if (each.bytes + each.sent_bytes >= (1 << 19)) all += each.path + ", ";
    }
    return all;
  }
  Tensor make(std::int64_t count) { return operand(0, count); }
  // Pulls a tensor outside the group while the group works.
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
    return tensor.to(device_);
  }
  // `like`: the member whose operand has the expected location.
  template <class Expected>
  void check(const std::string& what, const Tensor& tensor, std::int64_t count, Expected expected,
             int like = 0) {
    if (tensor.device() != (like < with_gpu_ ? device_ : Device{}))
      wrong_ += what + ": on another device; ";
    if (tensor.shape() != std::vector<std::int64_t>{count}) {
      wrong_ += what + ": another shape; ";
      return;
    }
    const Tensor here = tensor.to(Device{}).contiguous();
    const auto elements = here.view<float>();
    for (std::int64_t i = 0; i < count; ++i) {
      // An average is rounded.
      if (std::abs(elements[static_cast<std::size_t>(i)] - expected(i)) < 1e-4f) continue;
      wrong_ += what + ": another element at " + std::to_string(i) + "; ";
      return;
    }
  }

  Device device_ = the_gpu;
  int with_gpu_ = 0;
  std::string wrong_;
};

using Band = std::vector<mobula::ActorHandle<Player>>;

Band band(int members, int with_gpu) {
  Band all;
  for (int i = 0; i < members; ++i) {
    mobula::ActorOptions options;
    options.num_cpus = 0;
    if (i < with_gpu) options.num_gpus = part_of_gpu();
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

const std::map<std::string, Transport> ways{{"automatic", Transport::automatic},
                                            {"shm", Transport::shm},
                                            {"tcp", Transport::tcp},
                                            {"gloo", Transport::gloo},
                                            {"nccl", Transport::nccl}};

// A member with a GPU whose process has one more environment variable, given as NAME=VALUE. A value
// of MOBULA_SIMULATED_GPU is appended to the present one.
mobula::ActorHandle<Player> other_player(int rank, int with_gpu, const std::string& words) {
  mobula::ActorOptions options;
  options.num_cpus = 0;
  options.num_gpus = part_of_gpu();
  const std::string name = words.substr(0, words.find('='));
  const char* const before = name == "MOBULA_SIMULATED_GPU" ? std::getenv(name.c_str()) : nullptr;
  options.env[name] =
      (before != nullptr ? std::string(before) + " " : "") + words.substr(name.size() + 1);
  auto player = mobula::actor<Player>.options(options).remote();
  player.call<&Player::sit>(rank, with_gpu);
  return player;
}

// Arguments: the transport, the number of members, and the number of members with a GPU. Then the
// final path of GPU tensors, a part of the reason against another path, and the environment of the
// last member.
int gpu_collectives(const Words& arguments) {
  Report report;
  const std::string way = arguments.at(0);
  const int members = std::stoi(arguments.at(1));
  const int with_gpu = std::stoi(arguments.at(2));
  const std::string path = arguments.size() > 3 ? arguments[3] : way == "nccl" ? "nccl" : "staged";
  auto all = band(members - (arguments.size() > 5 ? 1 : 0), with_gpu);
  if (arguments.size() > 5) all.push_back(other_player(members - 1, with_gpu, arguments[5]));
  const auto group =
      mobula::create_collective_group(all, ways.at(way), "band", {.timeout = seconds(40)});
  for (const std::int64_t count : {0, 5, 1000, 1 << 17}) {
    for (const auto& wrong : each_of<&Player::all_operations>(all, group, count)) {
      report.equal(("all operations of " + std::to_string(count)).c_str(), wrong, "");
    }
  }
  for (const auto& wrong : each_of<&Player::odd_ones>(all, group))
    report.equal("odd ones", wrong, "");
  const auto states = each_of<&Player::state>(all, group);
  for (int rank = 0; rank < members; ++rank) {
    const auto& state = states[static_cast<std::size_t>(rank)];
    report.equal("paths", state.paths.size(), static_cast<std::size_t>(members));
    report.equal("none to itself", state.paths[static_cast<std::size_t>(rank)], "");
    report.holds("operations", state.operations > 50);
    const bool staged = way != "nccl" && rank < with_gpu;
    report.equal("through host memory", state.staged_bytes > 0, staged);
    report.equal("what it says", state.device_path, path);
    if (arguments.size() <= 4) continue;
    report.holds(("the reason: " + state.device_reason).c_str(),
                 state.device_reason.find(arguments[4]) != std::string::npos);
  }
  mobula::destroy_collective_group(group);
  return report.exit_code();
}

std::vector<std::string> outcomes(const Band& all, const CollectiveGroup& group, std::int64_t count,
                                  double timeout) {
  return each_of<&Player::outcome>(all, group, count, true, timeout);
}

// Rejected groups and operations over NCCL. Arguments: parts of the reason for the whole group.
// Without arguments, the group can be created.
int gpu_collective_refusals(const Words& arguments) {
  Report report;
  const auto all = band(3, 2);
  const Band two{all[0], all[1]};
  const auto reason_of = [&](const Band& members, const mobula::CollectiveGroupOptions& options) {
    try {
      (void)mobula::create_collective_group(members, Transport::nccl, "refused", options);
      return std::string("none");
    } catch (const mobula::TransferError& error) {
      report.equal("path", error.path(), "nccl");
      return std::string(error.what());
    }
  };
  const auto holds = [&](const std::string& text, const std::string& part) {
    report.holds((part + ", in: " + text).c_str(), text.find(part) != std::string::npos);
  };
  if (!arguments.empty()) {
    const auto text = reason_of(two, {});
    for (const auto& part : arguments) holds(text, part);
    // The rejected group left no state, and another transport works.
    const auto group = mobula::create_collective_group(two, Transport::automatic, "refused");
    for (const auto& each : outcomes(two, group, 1000, 60))
      report.equal("by another way", each, "done");
    return report.exit_code();
  }
  holds(reason_of(all, {}), "rank 2");
  holds(reason_of(all, {}), "it has no lease on a GPU");
  holds(reason_of(two, {.device = 1}), "no lease on a GPU of index 1");
  throws<mobula::InvalidRequestError>(report, "a device below the first", [&] {
    (void)mobula::create_collective_group(two, Transport::nccl, "", {.device = -1});
  });
  const auto group = mobula::create_collective_group(two, Transport::nccl, "refused");
  report.holds("transport", group.transport() == Transport::nccl);
  holds(
      mobula::get(two[0].call<&Player::outcome>(group, std::int64_t{8}, false, 30.0), seconds(60)),
      "invalid: ");
  holds(
      mobula::get(two[0].call<&Player::outcome>(group, std::int64_t{8}, false, 30.0), seconds(60)),
      "one in host memory");
  holds(mobula::get(two[1].call<&Player::refused_types>(group), seconds(60)),
        "NCCL does not reduce");
  // Different shapes are detected before any data moves.
  const auto one = two[0].call<&Player::outcome>(group, std::int64_t{8}, true, 30.0);
  const auto other = two[1].call<&Player::outcome>(group, std::int64_t{9}, true, 30.0);
  report.equal("another shape", mobula::get(one, seconds(60)), "mismatch: 1");
  report.equal("another shape", mobula::get(other, seconds(60)), "mismatch: 1");
  for (const auto& each : outcomes(two, group, 1000, 60))
    report.equal("and it goes on", each, "done");
  return report.exit_code();
}

// A member is killed during an operation, another is late, and one is cancelled. The others receive
// an error, stay alive, and form a new group.
int gpu_collective_ends(const Words& arguments) {
  Report report;
  const Transport way = ways.at(arguments.at(0));
  auto all = band(3, 3);
  for (const std::int64_t count : {1000, 1 << 20}) {
    const auto group = mobula::create_collective_group(all, way, "ends");
    auto late = all[0].call<&Player::outcome>(group, count, true, 0.5);
    auto waits = all[1].call<&Player::outcome>(group, count, true, 60.0);
    report.equal("who waits", mobula::get(late, seconds(60)), "timed_out: 2");
    report.equal("a member with a longer timeout", mobula::get(waits, seconds(60)), "broken: 2");
    mobula::destroy_collective_group(group);

    const auto next = mobula::create_collective_group(all, way, "ends");
    std::vector<mobula::ObjectRef<std::string>> refs;
    const auto pid = mobula::get(all[1].call<&Player::pid>(), seconds(30));
    for (const auto& each : all) refs.push_back(each.call<&Player::play_for_ever>(next, count));
    (void)mobula::wait(refs,
                       {.num_returns = 1, .timeout = mobula::Duration(0.3), .fetch_local = false});
    ::kill(static_cast<pid_t>(pid), SIGKILL);
    report.equal("at the first", mobula::get(refs[0], seconds(100)), "broken: 1");
    report.equal("at the last", mobula::get(refs[2], seconds(100)), "broken: 1");
    throws<mobula::ActorDiedError>(report, "at itself", [&] { mobula::get(refs[1], seconds(60)); });
    mobula::destroy_collective_group(next);
    all[1] = band(1, 1)[0];
    const auto anew = mobula::create_collective_group(all, way, "ends");
    for (const auto& each : outcomes(all, anew, count, 60)) report.equal("anew", each, "done");

    const auto cancelled = all[0].call<&Player::outcome>(anew, count, true, 60.0);
    const auto left = all[1].call<&Player::outcome>(anew, count, true, 60.0);
    (void)mobula::wait(std::vector{cancelled},
                       {.num_returns = 1, .timeout = mobula::Duration(0.2), .fetch_local = false});
    mobula::cancel(cancelled);
    throws<mobula::TaskCancelledError>(report, "the cancelled call",
                                       [&] { mobula::get(cancelled, seconds(60)); });
    report.equal("the other", mobula::get(left, seconds(60)), "broken: 0");
    mobula::destroy_collective_group(anew);
  }
  return report.exit_code();
}

// One member's library hangs. No member waits forever, and the member's process is replaced.
// Arguments: settings of its GPU, the transport.
int gpu_collective_hangs(const Words& arguments) {
  Report report;
  auto all = band(2, 2);
  mobula::ActorOptions options;
  options.num_cpus = 0;
  options.num_gpus = part_of_gpu();
  options.max_restarts = 1;
  options.env["MOBULA_SIMULATED_GPU"] =
      std::string(std::getenv("MOBULA_SIMULATED_GPU")) + " " + arguments.at(0);
  all.push_back(mobula::actor<Player>.options(options).remote());
  for (int i = 0; i < 3; ++i) all[static_cast<std::size_t>(i)].call<&Player::sit>(i, 3);
  const auto before = mobula::get(all[2].call<&Player::pid>(), seconds(60));
  const Transport way = ways.at(arguments.size() > 1 ? arguments[1] : "nccl");
  // Half of it is reserved for another path.
  const double timeout = way == Transport::nccl ? 3.0 : 60.0;
  try {
    const auto group =
        mobula::create_collective_group(all, way, "hangs", {.create_timeout = seconds(4)});
    bool broke = false;
    const std::int64_t count = way == Transport::nccl ? 1000 : 1 << 17;
    for (int i = 0; i < 3 && !broke; ++i) {
      std::vector<mobula::ObjectRef<std::string>> refs;
      for (const auto& each : all) {
        refs.push_back(way == Transport::nccl
                           ? each.call<&Player::outcome>(group, count, true, timeout)
                           : each.call<&Player::outcome_in_place>(group, count, timeout));
      }
      for (const auto& ref : refs) {
        try {
          const auto said = mobula::get(ref, seconds(100));
          broke = broke || said != "done";
          tell("it ends with: " + said);
        } catch (const mobula::Error& error) {
          broke = true;
          tell(std::string("meanwhile: ") + error.what());
        }
      }
    }
    report.holds("the group broke", broke);
    mobula::destroy_collective_group(group);
  } catch (const mobula::Error& error) {
    tell(std::string("it is not made: ") + error.what());
  }
  std::int64_t after = before;
  for (int i = 0; i < 900 && after == before; ++i) {
    try {
      after = mobula::get(all[2].call<&Player::pid>(), seconds(60));
    } catch (const mobula::Error&) {
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  report.holds("another process has taken its place", after != before);
  // The other members still work.
  const Band well{all[0], all[1]};
  const auto group = mobula::create_collective_group(well, Transport::nccl, "hangs");
  for (const auto& each : outcomes(well, group, 1000, 60)) report.equal("the others", each, "done");
  return report.exit_code();
}

// In an automatic group, an operation over the communicator fails at the last member, caused by its
// environment. This and all later operations still complete, in place or not. Arguments: that
// environment, a part of the reason.
int gpu_collective_again(const Words& arguments) {
  Report report;
  auto all = band(2, 3);
  all.push_back(other_player(2, 3, arguments.at(0)));
  const auto group =
      mobula::create_collective_group(all, Transport::automatic, "again", {.timeout = seconds(12)});
  for (int round = 0; round < 2; ++round) {
    for (const std::int64_t count : {1 << 17, 1000}) {
      for (const auto& wrong : each_of<&Player::all_operations>(all, group, count))
        report.equal("all operations", wrong, "");
    }
  }
  std::string reason;
  for (const auto& state : each_of<&Player::state>(all, group)) {
    report.equal("what it says", state.device_path, "staged");
    report.holds(("the reason: " + state.device_reason).c_str(),
                 state.device_reason.find(arguments.at(1)) != std::string::npos);
    if (reason.empty()) reason = state.device_reason;
    report.equal("the same reason", state.device_reason, reason);
  }
  for (const auto& went : each_of<&Player::ways_of_large_ones>(all)) {
    // The first operations use the communicator. After the first that goes through host memory,
    // none does.
    report.holds(("ways: " + went).c_str(),
                 went.find("nccl") == 0 && went.rfind("nccl") < went.find("staged"));
  }
  for (const auto& tries : each_of<&Player::failed_tries>(all)) {
    report.holds("the log has the reason", tries.find(reason) != std::string::npos);
  }
  mobula::destroy_collective_group(group);
  return report.exit_code();
}

// A reduction in place keeps a copy of its operand. Without space on the GPU, the copy is in host
// memory. It also serves the retry after a failure of the communicator.
int gpu_collective_no_memory(const Words&) {
  Report report;
  auto all = band(1, 2);
  all.push_back(other_player(1, 2, "MOBULA_SIMULATED_GPU=hang=end@2"));
  const auto group = mobula::create_collective_group(all, Transport::automatic, "no room",
                                                     {.timeout = seconds(20)});
  const std::int64_t count = 14 << 20;
  for (const char* path : {"nccl", "staged"}) {
    for (const auto& each : each_of<&Player::outcome_in_place>(all, group, count, 20.0))
      report.equal("reduced in place", each, "done");
    for (const auto& state : each_of<&Player::state>(all, group)) {
      report.equal("what it says", state.device_path, path);
      report.holds(("copied: " + std::to_string(state.staged_bytes)).c_str(),
                   state.staged_bytes >= count * 4);
    }
  }
  return report.exit_code();
}

// Two groups and transfers between the same GPUs at once, all over NCCL, without a deadlock.
int gpu_collective_beside(const Words&) {
  Report report;
  Band all;
  for (int i = 0; i < 3; ++i) {
    mobula::ActorOptions options;
    options.num_cpus = 0;
    options.num_gpus = part_of_gpu();
    options.max_concurrency = 4;
    all.push_back(mobula::actor<Player>.options(options).remote());
    all.back().call<&Player::sit>(i, 3);
  }
  const auto one = mobula::create_collective_group(all, Transport::nccl, "one");
  const auto two =
      mobula::create_collective_group({all[2], all[0], all[1]}, Transport::nccl, "two");
  const std::int64_t count = 1 << 18;
  double expected = 0;
  for (std::int64_t i = 0; i < count; ++i) expected += note_of(0, i);
  const mobula::CallOptions strict{.tensor_transport = Transport::nccl};
  for (int round = 0; round < 5; ++round) {
    std::vector<mobula::ObjectRef<std::string>> ends;
    std::vector<mobula::ObjectRef<double>> sums;
    for (const auto& each : all)
      ends.push_back(each.call<&Player::outcome>(one, count, true, 60.0));
    for (const auto& each : all)
      ends.push_back(each.call<&Player::outcome>(two, count, true, 60.0));
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (const std::size_t step : {std::size_t{1}, std::size_t{2}}) {
        sums.push_back(all[(i + step) % 3].call<&Player::sum_of>(
            all[i].method<&Player::make>().options(strict).remote(count)));
      }
    }
    for (const auto& each : ends) report.equal("a group", mobula::get(each, seconds(100)), "done");
    for (const auto& each : sums)
      report.equal("a transfer", mobula::get(each, seconds(100)), expected);
  }
  // Without turns, two operations on different devices would wait for each other until a timeout
  // closes the channel.
  for (const auto& said : each_of<&Player::failed_tries>(all))
    report.equal("tries that failed", said, "");
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> device_collective_scenarios() {
  return {{"gpu_collectives", &gpu_collectives},
          {"gpu_collective_refusals", &gpu_collective_refusals},
          {"gpu_collective_ends", &gpu_collective_ends},
          {"gpu_collective_hangs", &gpu_collective_hangs},
          {"gpu_collective_again", &gpu_collective_again},
          {"gpu_collective_no_memory", &gpu_collective_no_memory},
          {"gpu_collective_beside", &gpu_collective_beside}};
}

}  // namespace mobula::e2e
