// Scenarios about transfer reports, and about tensors that are lost in transit.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <string>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using mobula::Tensor;
using mobula::Transport;
using std::chrono::seconds;

constexpr int many_floats = 1 << 18;  // floats: 1 MiB

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

// Appends its process id to `log` on each run.
Tensor made_again(const std::string& log, int count) {
  std::ofstream(log, std::ios::app) << ::getpid() << std::endl;
  return ramp(count);
}
// Keeps its process from a planned exit until the file exists.
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
  // "PATH encrypted" or "PATH plain" of the latest transfer.
  std::string latest() {
    const auto log = mobula::transfer_log();
    return log.empty() ? "none"
                       : log.back().path + (log.back().encrypted ? " encrypted" : " plain");
  }
  void leave() { mobula::exit_actor(); }
};

// Numbers its calls in the order in which they start.
class Counting {
 public:
  int next() { return ++calls_; }
  int next_with(const Tensor& tensor) {
    return sum_of(tensor) == ramp_sum(many_floats) ? ++calls_ : -1;
  }

 private:
  int calls_ = 0;
};

const mobula::CallOptions stays{.tensor_transport = Transport::automatic};
const mobula::CallOptions by_tcp{.tensor_transport = Transport::tcp};

// Arguments: a resource that the second actor needs. Some transfers over two paths, and one that
// fails. Then the reader exits, and its log is lost.
int report_transfers(const Words& arguments) {
  Report report;
  mobula::ActorOptions here, elsewhere;
  if (!arguments.empty()) here.resources = {{"here", 1}};
  if (!arguments.empty()) elsewhere.resources = {{arguments[0], 1}};
  auto maker = mobula::actor<Sharer>.options(here).remote();
  auto user = mobula::actor<Sharer>.options(elsewhere).remote();
  const auto made = maker.method<&Sharer::make>().options(stays).remote(many_floats);
  report.equal("in place", mobula::get(user.call<&Sharer::sum>(made), seconds(30)),
               ramp_sum(many_floats));
  for (int i = 0; i < 3; ++i) {
    const auto tensor = maker.method<&Sharer::make>().options(by_tcp).remote(many_floats);
    report.equal("by tcp", mobula::get(user.call<&Sharer::sum>(tensor), seconds(30)),
                 ramp_sum(many_floats));
  }
  report.equal("here", sum_of(mobula::get(made, seconds(30))), ramp_sum(many_floats));
  {
    auto mortal = mobula::actor<Sharer>.remote();
    const auto lost = mortal.method<&Sharer::make>().options(stays).remote(many_floats);
    const auto pid = static_cast<pid_t>(mobula::get(mortal.call<&Sharer::pid>(), seconds(30)));
    ::kill(pid, SIGKILL);
    throws<mobula::ObjectLostError>(report, "elements of a killed process",
                                    [&] { mobula::get(lost, seconds(30)); });
  }
  tell("moved " + mobula::get(user.call<&Sharer::latest>(), seconds(30)));
  hear();
  user.call<&Sharer::leave>();
  throws<mobula::ActorDiedError>(report, "a call of one that left",
                                 [&] { mobula::get(user.call<&Sharer::latest>(), seconds(30)); });
  tell("left");
  hear();
  return report.exit_code();
}

// Reads a tensor from a process that the test stops and continues.
int read_from_a_stopped_process(const Words&) {
  Report report;
  auto maker = mobula::actor<Sharer>.remote();
  auto user = mobula::actor<Sharer>.remote();
  const auto made = maker.method<&Sharer::make>().options(by_tcp).remote(many_floats);
  mobula::wait({made}, {.num_returns = 1, .timeout = seconds(30), .fetch_local = false});
  report.holds("the user is there", mobula::get(user.call<&Sharer::pid>(), seconds(30)) > 0);
  tell("holder " + std::to_string(mobula::get(maker.call<&Sharer::pid>(), seconds(30))));
  hear();
  const auto sum = user.call<&Sharer::sum>(made);
  tell("asked");
  report.equal("the sum", mobula::get(sum, seconds(60)), ramp_sum(many_floats));
  tell("read");
  hear();
  return report.exit_code();
}

// A task's tensor whose process is killed right after making it. A task of the same class in the
// same process prevents an earlier planned exit, which would store the elements.
mobula::ObjectRef<Tensor> of_a_killed_process(const std::string& log, int retries) {
  const mobula::TaskOptions alone{
      .resources = {{"one", 1}}, .max_retries = retries, .tensor_transport = Transport::automatic};
  auto made = mobula::task<made_again>.options(alone).remote(log, many_floats);
  const auto busy = mobula::task<stay_until>.options(alone).remote(log + ".go");
  mobula::wait(std::vector{made}, {.num_returns = 1, .timeout = seconds(30), .fetch_local = false});
  const pid_t last = pids_in(log).back();
  ::kill(last, SIGKILL);
  while (::kill(last, 0) == 0) std::this_thread::yield();
  std::ofstream(log + ".go") << "go on" << std::endl;
  mobula::wait(std::vector{busy}, {.num_returns = 1, .timeout = seconds(30)});
  return made;
}

// Arguments: a directory. Some calls of one actor have tensors whose elements must be recomputed
// first. All calls still start in order, also behind one whose elements are lost forever.
int calls_behind_lost_elements(const Words& arguments) {
  Report report;
  const std::string directory = arguments.at(0) + "/";
  auto counting = mobula::actor<Counting>.remote();
  report.equal("first", mobula::get(counting.call<&Counting::next>(), seconds(30)), 1);
  const auto one = of_a_killed_process(directory + "one", 3);
  const auto other = of_a_killed_process(directory + "other", 3);
  const auto never = of_a_killed_process(directory + "never", 0);
  std::vector<mobula::ObjectRef<int>> counts;
  counts.push_back(counting.call<&Counting::next>());
  counts.push_back(counting.call<&Counting::next_with>(one));
  for (int i = 0; i < 200; ++i) counts.push_back(counting.call<&Counting::next>());
  const auto in_vain = counting.call<&Counting::next_with>(never);
  counts.push_back(counting.call<&Counting::next_with>(other));
  counts.push_back(counting.call<&Counting::next_with>(one));
  for (int i = 0; i < 200; ++i) counts.push_back(counting.call<&Counting::next>());
  for (std::size_t i = 0; i < counts.size(); ++i) {
    report.equal(("call " + std::to_string(i)).c_str(), mobula::get(counts[i], seconds(60)),
                 static_cast<int>(i) + 2);
  }
  throws<mobula::ObjectLostError>(report, "lost for good",
                                  [&] { mobula::get(in_vain, seconds(60)); });
  report.equal("attempts", pids_in(directory + "one").size(), 2u);
  report.equal("attempts", pids_in(directory + "other").size(), 2u);
  report.equal("attempts", pids_in(directory + "never").size(), 1u);
  return report.exit_code();
}

// Arguments: a directory. A task's tensor whose process is killed is recomputed, both for a reader
// here and for an argument. So is the tensor of an actor that restarts. If nothing can run again,
// the tensors are lost.
int lost_elements(const Words& arguments) {
  Report report;
  auto user = mobula::actor<Sharer>.remote();
  mobula::get(user.call<&Sharer::pid>(), seconds(30));
  const std::string directory = arguments.at(0) + "/";
  report.equal("read here",
               sum_of(mobula::get(of_a_killed_process(directory + "here", 3), seconds(60))),
               ramp_sum(many_floats));
  report.equal("attempts", pids_in(directory + "here").size(), 2u);
  report.equal(
      "an actor's argument",
      mobula::get(user.call<&Sharer::sum>(of_a_killed_process(directory + "call", 3)), seconds(60)),
      ramp_sum(many_floats));
  report.equal("attempts", pids_in(directory + "call").size(), 2u);
  report.equal(
      "a task's argument",
      mobula::get(mobula::task<sum_by_a_task>.remote(of_a_killed_process(directory + "task", 3)),
                  seconds(60)),
      ramp_sum(many_floats));
  report.equal("attempts", pids_in(directory + "task").size(), 2u);
  const auto lost = of_a_killed_process(directory + "lost", 0);
  throws<mobula::ObjectLostError>(report, "no retries",
                                  [&] { (void)mobula::get(lost, seconds(60)); });
  throws<mobula::ObjectLostError>(report, "as an argument",
                                  [&] { mobula::get(user.call<&Sharer::sum>(lost), seconds(60)); });
  report.equal("attempts", pids_in(directory + "lost").size(), 1u);

  const std::string again = arguments.at(0) + "/actor";
  auto maker = mobula::actor<Sharer>.options({.max_restarts = 2, .max_task_retries = 2}).remote();
  const auto by_actor =
      maker.method<&Sharer::make_logged>().options(stays).remote(again, many_floats);
  report.equal("an actor's", mobula::get(user.call<&Sharer::sum>(by_actor), seconds(30)),
               ramp_sum(many_floats));
  ::kill(pids_in(again).back(), SIGKILL);
  while (::kill(pids_in(again).back(), 0) == 0) std::this_thread::yield();
  auto other = mobula::actor<Sharer>.remote();
  report.equal("the recomputed result of an actor",
               mobula::get(other.call<&Sharer::sum>(by_actor), seconds(60)), ramp_sum(many_floats));
  report.equal("attempts of the actor", pids_in(again).size(), 2u);
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> transfer_scenarios() {
  return {{"report_transfers", &report_transfers},
          {"read_from_a_stopped_process", &read_from_a_stopped_process},
          {"lost_elements", &lost_elements},
          {"calls_behind_lost_elements", &calls_behind_lost_elements}};
}

}  // namespace mobula::e2e
