// Cost of task queries for an owner: the client core in isolation, with many waiting tasks. Prints
// the processor time of a list of tasks in µs (total counts, a sample, the omitted number), and in
// ns the timeline row that each finished call writes. A query blocks the core, which runs under the
// lock of its process.
//
// mobula-bench-queries [TASKS...]      default: 1000 10000 100000
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "bench/measure/thread_time.h"
#include "client/core/client_core.h"
#include "protocol/codec/codec.h"

namespace mobula::internal::client {
namespace {

struct QueryCost {
  double median = 0, worst = 0;
  std::size_t listed = 0;
  std::uint64_t counted = 0, left_out = 0;
};

QueryCost measure_query(int tasks) {
  ClientOptions options;
  options.process = ProcessId::of(1);
  options.job = JobId::of(1);
  ClientCore core(options);
  std::vector<Command> commands;
  Time now = Time::from_ns(1'000'000'000);
  const auto step = [&](Event event) {
    commands.clear();
    now = now + 1us;
    core.step(now, std::move(event), commands);
  };
  StartJob job;
  job.job = options.job;
  step(Attached{NodeId::of(1), ProcessId::of(9), job});
  step(ReceivedFromAgent{FromHead{StartJobReply{options.job, "bench"}}});
  for (int i = 1; i <= tasks; ++i) {
    SubmitTask task;
    task.call.task = TaskId::of(static_cast<std::uint64_t>(i));
    task.call.form.edit().job = options.job;
    task.call.form.edit().name = "wait";
    task.demand_class.id = ClassId::of(5);
    task.demand_class.job = options.job;
    step(std::move(task));
  }
  QueryCost cost;
  std::vector<double> times;
  for (int round = 0; round < 11; ++round) {
    TasksRequest question;
    question.request = static_cast<std::uint64_t>(round) + 1;
    question.limit = 1000;
    const double began = thread_cpu_us();
    step(ReceivedFromAgent{FromHead{question}});
    times.push_back(thread_cpu_us() - began);
  }
  for (const auto& command : commands) {
    const auto* agent = std::get_if<SendToAgent>(&command);
    const auto* head = agent == nullptr ? nullptr : std::get_if<ForHead>(&agent->message);
    const auto* reply = head == nullptr ? nullptr : std::get_if<TasksReply>(&head->message);
    if (reply == nullptr) continue;
    cost.listed = reply->tasks.size();
    cost.left_out = reply->left_out;
    for (const auto& each : reply->counts) cost.counted += each.count;
  }
  std::ranges::sort(times);
  cost.median = times[times.size() / 2];
  cost.worst = times.back();
  return cost;
}

// Cost of the timeline ring buffer only.
double row_ns() {
  constexpr int rows = 1'000'000;
  OwnedCalls calls;
  CopyOnWrite<CallForm> form;
  form.edit().name = "f";
  const double began = thread_cpu_us();
  for (int i = 0; i < rows; ++i) {
    const Time at = Time::from_ns(i);
    calls.add({TaskId::of(static_cast<std::uint64_t>(i)),
               form,
               at,
               at,
               at,
               false,
               {ProcessId::of(1), NodeId::of(1), 1us, 1}});
  }
  const double spent = thread_cpu_us() - began;
  return calls.forgotten() > 0 ? spent * 1000 / rows : 0;
}

}  // namespace
}  // namespace mobula::internal::client

int main(int argc, char** argv) {
  using namespace mobula::internal;
  std::vector<int> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::max(1, std::atoi(argv[i])));
  if (sizes.empty()) sizes = {1000, 10'000, 100'000};
  fmt::print("{:>10}{:>14}{:>14}{:>10}{:>10}{:>10}\n", "tasks", "median us", "worst us", "listed",
             "counted", "left out");
  for (const int tasks : sizes) {
    const auto cost = client::measure_query(tasks);
    fmt::print("{:>10}{:>14.0f}{:>14.0f}{:>10}{:>10}{:>10}\n", tasks, cost.median, cost.worst,
               cost.listed, cost.counted, cost.left_out);
  }
  fmt::print("a row for timelines: {:.0f} ns\n", client::row_ns());
  return 0;
}
