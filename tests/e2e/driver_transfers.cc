// Scenarios about what is said of tensors that go between processes, and about those that are lost on the way.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string>

#include "e2e/driver.h"

namespace mobula::e2e {
namespace {

using mobula::Tensor;
using mobula::Transport;
using std::chrono::seconds;

constexpr int many = 1 << 18;  // floats: 1 MiB

Tensor ramp(int count) {
  Tensor tensor = Tensor::empty({count});
  const auto elements = tensor.mutable_view<float>();
  std::iota(elements.begin(), elements.end(), 0.0f);
  return tensor;
}

double sum_of(const Tensor& tensor) {
  const auto elements = tensor.view<float>();
  return std::accumulate(elements.begin(), elements.end(), 0.0);
}

double ramp_sum(double count) { return count * (count - 1) / 2; }

// A line in `log` for each time that it runs; says so with its process.
Tensor made_again(const std::string& log, int count) {
  std::ofstream(log, std::ios::app) << ::getpid() << std::endl;
  return ramp(count);
}
// Keeps the process that runs it from ending on purpose, until the file is there.
int stay_until(const std::string& file) {
  while (!std::filesystem::exists(file)) std::this_thread::yield();
  return 1;
}
double sum_by_a_task(const Tensor& tensor) { return sum_of(tensor); }

std::vector<pid_t> pids_in(const std::string& log) {
  std::vector<pid_t> pids;
  std::ifstream file(log);
  for (pid_t pid = 0; file >> pid;) pids.push_back(pid);
  return pids;
}

class Sharer {
 public:
  Tensor make(int count) { return ramp(count); }
  Tensor make_logged(const std::string& log, int count) { return made_again(log, count); }
  double sum(const Tensor& tensor) { return sum_of(tensor); }
  std::int64_t pid() const { return ::getpid(); }
  // "PATH encrypted" or "PATH plain" of the latest one.
  std::string latest() {
    const auto log = mobula::transfer_log();
    return log.empty() ? "none" : log.back().path + (log.back().encrypted ? " encrypted" : " plain");
  }
  void leave() { mobula::exit_actor(); }
};

const mobula::CallOptions stays{.tensor_transport = Transport::automatic};
const mobula::CallOptions by_tcp{.tensor_transport = Transport::tcp};

// Arguments: a resource that the second actor needs. Some transfers by two paths, and one that fails; then the user
// leaves, and what it knew with it.
int transfers_told(const Words& arguments) {
  Report report;
  auto maker = mobula::actor<Sharer>.remote();
  mobula::ActorOptions elsewhere;
  if (!arguments.empty()) elsewhere.resources = {{arguments[0], 1}};
  auto user = mobula::actor<Sharer>.options(elsewhere).remote();
  const auto made = maker.method<&Sharer::make>().options(stays).remote(many);
  report.equal("in place", mobula::get(user.call<&Sharer::sum>(made), seconds(30)), ramp_sum(many));
  for (int i = 0; i < 3; ++i) {
    const auto tensor = maker.method<&Sharer::make>().options(by_tcp).remote(many);
    report.equal("by tcp", mobula::get(user.call<&Sharer::sum>(tensor), seconds(30)), ramp_sum(many));
  }
  report.equal("here", sum_of(mobula::get(made, seconds(30))), ramp_sum(many));
  throws<mobula::TransferError>(report, "a path that is not there", [&] {
    mobula::get(made, {.tensor_transport = Transport::nccl, .timeout = seconds(30)});
  });
  tell("moved " + mobula::get(user.call<&Sharer::latest>(), seconds(30)));
  hear();
  user.call<&Sharer::leave>();
  throws<mobula::ActorDiedError>(report, "a call of one that left",
                                 [&] { mobula::get(user.call<&Sharer::latest>(), seconds(30)); });
  tell("left");
  hear();
  return report.exit_code();
}

// Arguments: a folder. A task's tensor whose process is killed is made again: for who reads it here, and for who
// gets it as an argument; likewise an actor's that restarts. Where nothing can run again they are lost.
int lost_elements(const Words& arguments) {
  Report report;
  const std::string log = arguments.at(0) + "/made";
  const mobula::TaskOptions alone{.resources = {{"one", 1}}, .max_retries = 3, .tensor_transport = Transport::automatic};
  const auto made = mobula::task<made_again>.options(alone).remote(log, many);
  report.equal("at first", sum_of(mobula::get(made, seconds(30))), ramp_sum(many));
  // Of one class, so in the same process: it does not end on purpose meanwhile, which would store the elements.
  const auto keep_busy = [&] {
    const std::string file = log + std::to_string(pids_in(log).size());
    return std::pair(file, mobula::task<stay_until>.options(alone).remote(file));
  };
  const auto kill_last = [&](const auto& busy) {
    const pid_t last = pids_in(log).back();
    ::kill(last, SIGKILL);
    while (::kill(last, 0) == 0) std::this_thread::yield();
    std::ofstream(busy.first) << "go on" << std::endl;
  };
  auto busy = keep_busy();
  kill_last(busy);
  report.equal("read here, made again", sum_of(mobula::get(made, seconds(60))), ramp_sum(many));
  report.equal("attempts", pids_in(log).size(), 2u);
  busy = keep_busy();
  kill_last(busy);
  auto user = mobula::actor<Sharer>.remote();
  report.equal("an actor's argument, made again", mobula::get(user.call<&Sharer::sum>(made), seconds(60)), ramp_sum(many));
  report.equal("attempts", pids_in(log).size(), 3u);
  busy = keep_busy();
  kill_last(busy);
  report.equal("a task's argument, made again", mobula::get(mobula::task<sum_by_a_task>.remote(made), seconds(60)),
               ramp_sum(many));
  report.equal("attempts", pids_in(log).size(), 4u);
  busy = keep_busy();
  kill_last(busy);
  throws<mobula::ObjectLostError>(report, "no retries are left", [&] { (void)mobula::get(made, seconds(60)); });
  throws<mobula::ObjectLostError>(report, "as an argument", [&] { mobula::get(user.call<&Sharer::sum>(made), seconds(60)); });

  const std::string again = arguments.at(0) + "/actor";
  auto maker = mobula::actor<Sharer>.options({.max_restarts = 2, .max_task_retries = 2}).remote();
  const auto by_actor = maker.method<&Sharer::make_logged>().options(stays).remote(again, many);
  report.equal("an actor's", mobula::get(user.call<&Sharer::sum>(by_actor), seconds(30)), ramp_sum(many));
  ::kill(pids_in(again).back(), SIGKILL);
  while (::kill(pids_in(again).back(), 0) == 0) std::this_thread::yield();
  auto other = mobula::actor<Sharer>.remote();
  report.equal("an actor's, made again", mobula::get(other.call<&Sharer::sum>(by_actor), seconds(60)), ramp_sum(many));
  report.equal("attempts of the actor", pids_in(again).size(), 2u);
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> transfer_scenarios() {
  return {{"transfers_told", &transfers_told}, {"lost_elements", &lost_elements}};
}

}  // namespace mobula::e2e
