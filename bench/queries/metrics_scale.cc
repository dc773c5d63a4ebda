// Cost of one scrape of /metrics for the loop of the head: nodes with 8 GPUs each, and 200 function
// names with histograms. Prints the processor time of a scrape, the size of its text, and the
// limits for 1,000 nodes; the exit code is 1 if their median or size exceeds one. Runs in one
// process without sockets or a disk.
//
// mobula-bench-metrics [NODES...]      default: 10 100 1000
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "bench/gpu_node.h"
#include "bench/measure/thread_time.h"
#include "head/core/head_core.h"
#include "protocol/codec/messages.h"
#include "protocol/session/session.h"

namespace mobula::internal::head {
namespace {

constexpr int gpus = 8;
constexpr int names = 200;
constexpr int scrapes = 20;
constexpr double bound_ms = 100;
constexpr double bound_mb = 4;

class Cluster {
 public:
  explicit Cluster(int nodes) {
    Started started;
    started.epoch_id = Hash128{7, 1};
    step(std::move(started));
    step(Persisted{1});
    for (int i = 0; i < nodes; ++i) join(i);
    call_functions();
    (void)scrape();  // begins the sampling of the nodes
    for (int i = 0; i < nodes; ++i) report_usage(i);
  }

  std::string scrape() {
    ReceivedFromTool query;
    query.link = 1'000'000;
    query.principal = Principal{Role::operator_, "tool", {}};
    query.request.request = 1;
    query.request.verb = "metrics";
    return step(std::move(query));
  }

 private:
  // Returns the text of the reply to a tool, if one is sent.
  std::string step(Event event) {
    std::vector<Command> commands;
    now_ = now_ + 20us;
    core_.step(now_, std::move(event), commands);
    for (auto& each : commands) {
      if (auto* admitted = std::get_if<Admit>(&each)) epoch_ = admitted->registered.head_epoch;
      if (auto* replied = std::get_if<ReplyToTool>(&each)) return std::move(replied->reply.json);
    }
    return {};
  }

  static LinkId link_of(int number) { return static_cast<LinkId>(number) + 1; }
  static ProcessId agent_of(int number) {
    return ProcessId::of(10'000 + static_cast<unsigned>(number));
  }

  void join(int number) {
    RegisterRequest message;
    // Random, as the ids of real nodes.
    const auto node = NodeId::derived(JobId::of(1), "node", static_cast<std::uint64_t>(number));
    message.address = {node, agent_of(number), fmt::format("node{}:7000", number), "", ""};
    message.host = fmt::format("node{}.cluster.example", number);
    message.role = Role::agent;
    message.shape = gpu_node_shape(gpus, fmt::format("10.0.{}.{}", number / 256, number % 256));
    step(ReceivedFromAgent{link_of(number), Principal{Role::agent, "key", {}}, std::move(message)});
  }

  void from_agent(int number, AgentMessage message) {
    std::vector<Frame<AgentMessage>> frames;
    sessions_[number].send(now_, std::move(message), frames);
    for (auto& frame : frames) {
      constexpr std::uint64_t never = ~std::uint64_t{0};
      AgentFrame whole{epoch_, agent_of(number), 0, 0, std::move(frame), never};
      step(ReceivedFromAgent{link_of(number), Principal{Role::agent, "key", {}}, std::move(whole)});
    }
  }

  void report_usage(int number) {
    UsageReply usage;
    usage.cpu = 123'456'789ms;
    usage.memory_bytes = 2LL << 40;
    usage.memory_used_bytes = 123'456'789'012;
    usage.store.capacity_bytes = 1LL << 40;
    for (std::uint32_t i = 0; i < gpus; ++i) usage.devices.push_back({i, 71'234'567'890 + i, 97});
    from_agent(number, std::move(usage));
  }

  void call_functions() {
    const Principal driver{Role::driver, "user", JobId::of(1)};
    const auto process = ProcessId::of(500'000);
    from_agent(0, ProcessAttached{{process, driver, 4711}});
    ClassUse use;
    for (int i = 0; i < names; ++i) {
      ClassUseRow row;
      row.name = fmt::format("project::module::function_{}", i);
      row.submitted = row.finished = 1'234'567;
      row.run_us = 123'456'789'012;
      for (std::uint8_t bucket = 0; bucket < use_buckets; ++bucket)
        row.runs.push_back({bucket, 51'440});
      row.waits = row.runs;
      use.rows.push_back(std::move(row));
    }
    from_agent(0, FromProcess{process, driver, std::move(use)});
  }

  HeadCore core_{HeadOptions{}};
  Time now_ = Time::from_ns(1'000'000'000);
  std::uint64_t epoch_ = 0;
  std::map<int, Session<AgentMessage, HeadMessage>> sessions_;
};

// Prints the row, and returns whether it is within the limits.
bool print_row(int nodes) {
  Cluster cluster(nodes);
  std::vector<double> times;
  std::string text;
  for (int i = 0; i < scrapes; ++i) {
    const double begin = thread_cpu_ms();
    text = cluster.scrape();
    times.push_back(thread_cpu_ms() - begin);
  }
  std::ranges::sort(times);
  const auto lines = std::ranges::count(text, '\n');
  MOBULA_CHECK(text.find("mobula_gpu_utilization_ratio{") != std::string::npos, "GPUs are sampled");
  fmt::print("{:>6} {:>10.2f} {:>10.2f} {:>10} {:>10.2f}\n", nodes, times[times.size() / 2],
             times.back(), lines, static_cast<double>(text.size()) / 1e6);
  return nodes > 1000 || (times[times.size() / 2] <= bound_ms &&
                          static_cast<double>(text.size()) <= bound_mb * 1e6);
}

}  // namespace
}  // namespace mobula::internal::head

int main(int argc, char** argv) {
  using namespace mobula::internal::head;
  std::vector<int> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atoi(argv[i]));
  if (sizes.empty()) sizes = {10, 100, 1000};
  fmt::print("bounds for 1,000 nodes: {:.0f} ms, {:.0f} MB\n", bound_ms, bound_mb);
  fmt::print("{:>6} {:>10} {:>10} {:>10} {:>10}\n", "nodes", "median ms", "worst ms", "lines",
             "MB");
  bool within = true;
  for (const int nodes : sizes) within = print_row(nodes) && within;
  return within ? 0 : 1;
}
