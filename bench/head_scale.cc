// Cost of the complete head core in isolation: 1,000 nodes, 100 drivers, 100,000 waiting tasks, and
// slots that are granted, started, returned, and granted again. Prints the processor time per event
// in µs, by kind of event and number of nodes, next to its limit, and the memory of the core. The
// memory of the benchmark (simulated agents with their sessions, figures) is listed separately.
// Runs in one process without sockets or a disk: persisted state is durable at once.
//
// mobula-bench-head [--json] [--rounds N] [NODES...]      default: 10 100 1000
// mobula-bench-head --actors N [IDLE...]      cost of events of one actor with idle actors, jobs,
// and watchers (default: 100 1000 10000 100000), and memory after N actors were created and killed
#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "bench/gpu_node.h"
#include "bench/measure/thread_time.h"
#include "head/core/head_core.h"
#include "protocol/codec/messages.h"
#include "protocol/session/session.h"

namespace mobula::internal::head {
namespace {

constexpr int drivers = 100;
constexpr int classes_per_driver = 10;
constexpr int classes = drivers * classes_per_driver;
constexpr int tasks = 100'000;

// Limits in µs, for events that have one.
struct Bound {
  const char* event;
  double median, p99, worst;  // 0: no limit
};
constexpr Bound bounds[] = {
    {"a slot is gone, and grants", 10, 100, 0},
    {"a slot has started", 10, 100, 0},
    {"a slot is returned", 10, 100, 0},
    {"a demand", 10, 100, 0},
    {"a demand that is refused", 10, 100, 0},
    {"a demand, for each slot it gets", 10, 100, 0},
    {"status is requested", 0, 0, 100'000},
    {"nodes are listed", 0, 0, 100'000},
    {"leases are listed", 0, 0, 100'000},
    {"events are listed", 0, 0, 100'000},
    {"a node joins", 0, 0, 5'000},
    {"a node is dead", 0, 0, 5'000},
};
constexpr double memory_bound_mib = 64;

struct Agent {
  NodeId node;
  ProcessId incarnation;
  LinkId link = 0;
  std::uint64_t epoch = 0;
  Session<AgentMessage, HeadMessage> session{};
};

struct Figures {
  std::size_t count = 0;
  double median = 0, p99 = 0, worst = 0;
};

class Measured {
 public:
  void add(const std::string& kind, double us) { of_[kind].push_back(us); }
  std::map<std::string, Figures> figures() const {
    std::map<std::string, Figures> all;
    for (auto [kind, times] : of_) {
      std::ranges::sort(times);
      all[kind] = {times.size(), times[times.size() / 2], times[times.size() * 99 / 100],
                   times.back()};
    }
    return all;
  }

 private:
  std::map<std::string, std::vector<double>> of_;
};

// Results for one number of nodes.
struct Outcome {
  int nodes = 0;
  std::size_t slots = 0;  // granted when all demands are stated
  std::map<std::string, Figures> events;
  double core_mib = 0;      // memory that the core frees at its end
  double bench_mib = 0;     // memory of the benchmark itself
  double resident_mib = 0;  // growth of the process
};

double mib(double bytes) { return bytes / (1 << 20); }

double heap_mib() {
  const auto heap = mallinfo2();
  return mib(static_cast<double>(heap.uordblks + heap.hblkhd));
}

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  double pages = 0, resident = 0;
  file >> pages >> resident;
  return mib(resident * 4096);
}

class Bench {
 public:
  Bench(int nodes, int rounds) : nodes_(nodes), rounds_(rounds), core_(std::in_place) {}

  // Processor time in µs per created and killed actor, with `idle` other actors that wait.
  struct ActorCost {
    double create_us = 0, kill_us = 0, process_end_us = 0, deadline_us = 0;
  };
  ActorCost beside_idle(int idle) {
    begin_actors();
    for (int i = 0; i < idle; ++i) {
      create(i);
      from_driver("watch", 0, WatchActor{ActorId::of(2'000'000u + static_cast<unsigned>(i)), true});
    }
    measured_ = {};
    for (int i = 0; i < rounds_; ++i) {
      create(idle + i);
      from_agent("a process ends", home(0), ProcessEnded{ProcessId::of(3'000'000), {}});
      kill(idle + i);
      request_deadline();
    }
    const auto figures = measured_.figures();
    return {figures.at("create").median, figures.at("kill").median,
            figures.at("a process ends").median, figures.at("the next deadline").median};
  }

  // Prints the memory of the process after `count` actors. At most `alive` of them exist at once.
  // They run if `resource` is on the node.
  void print_memory(const char* verb, int count, int alive, const char* resource) {
    malloc_trim(0);
    begin_actors();
    std::vector<double> mib_seen{resident_mib()};
    for (int i = 0; i < count; ++i) {
      if (i >= alive) kill(i - alive);
      create(i, resource);
      construct();
      if (core_->next_deadline() <= now_) step("a deadline", Tick{});
      acknowledge();
    }
    mib_seen.push_back(resident_mib());
    for (int i = std::max(0, count - alive); i < count; ++i) kill(i);
    malloc_trim(0);
    mib_seen.push_back(resident_mib());
    const double heap = heap_mib();
    core_.reset();
    fmt::print(
        "{} actors {}, at most {} at once: resident MiB {:.1f} at first, {:.1f} before the last "
        "kills, {:.1f} after malloc_trim; heap of the core {:.1f} MiB\n",
        count, verb, alive, mib_seen[0], mib_seen[1], mib_seen[2], heap - heap_mib());
  }

  Outcome run() {
    Outcome outcome;
    outcome.nodes = nodes_;
    Started started;
    started.epoch_id = Hash128{7, 1};
    const double heap_before = heap_mib(), resident_before = resident_mib();
    step("start", std::move(started));
    for (int i = 0; i < nodes_; ++i) join(i);
    MOBULA_CHECK(!core_->recovering(), "a fresh head is not in recovery");
    for (int i = 0; i < drivers; ++i) start_job(i);
    for (int i = 0; i < classes; ++i) demand("a demand", i, tasks / classes);
    outcome.slots = started_.size();
    for (int round = 0; round < rounds_ && !started_.empty(); ++round) {
      one_slot_again();
      request_deadline();
      demand("a demand that is refused", static_cast<int>(random_.below(classes)),
             tasks / classes + 1);
    }
    for (int i = 0; i < 10; ++i) send_tool_queries();
    leave();
    outcome.resident_mib = resident_mib() - resident_before;
    const double heap = heap_mib();
    MOBULA_CHECK(core_->verify().ok(), "the books are right");
    core_.reset();
    outcome.bench_mib = heap_mib() - heap_before;
    outcome.core_mib = heap - heap_before - outcome.bench_mib;
    outcome.events = measured_.figures();
    return outcome;
  }

 private:
  void begin_actors() {
    Started started;
    started.epoch_id = Hash128{7, 1};
    step("start", std::move(started));
    join(0);
    start_job(0);
  }
  void create(int number, const char* resource = "absent") {
    CreateActor message;
    ActorSpec& spec = message.spec;
    spec.actor = ActorId::of(1'000u + static_cast<unsigned>(number));
    spec.job = job(0);
    spec.owner = process(0);
    spec.class_name = "Counter";
    spec.demand.id = ClassId::of(77);
    spec.demand.job = spec.job;
    spec.demand.program = ProgramId::of(1);
    spec.demand.request.resources.set(resource, Quantity::whole(1));
    from_driver("create", 0, std::move(message));
  }
  void kill(int number) {
    const ActorId actor = ActorId::of(1'000u + static_cast<unsigned>(number));
    from_driver("kill", 0, EndActor{actor, true, true, "killed by kill()"});
    stop_slots("a slot of an actor is gone");
  }
  // The executors of actors that were placed attach, and their constructors end.
  void construct() {
    for (const Out& out : std::exchange(started_, {})) {
      Agent& agent = *agents_.at(out.agent);
      from_agent("an executor attaches", agent,
                 ProcessAttached{{executor_of_.at(out.start.slot),
                                  Principal{Role::executor, "user", job(0)}, 4711}});
      from_agent(
          "an actor is constructed", agent,
          ActorConstructed{out.start.actor.actor, out.start.slot, out.start.first_generation, {}});
    }
  }
  void stop_slots(const std::string& kind) {
    while (!to_stop_.empty()) {
      const auto [agent, slot] = to_stop_.front();
      to_stop_.pop_front();
      from_agent(kind, *agents_.at(agent), SlotGone{slot, {}, false});
      const auto executor = executor_of_.extract(slot);
      if (!executor.empty())
        from_agent("an executor ends", *agents_.at(agent), ProcessEnded{executor.mapped(), {}});
    }
  }

  struct Out {
    std::size_t agent;
    StartSlot start;
  };

  // Times one event with all its consequences: replies in the session, and durable state.
  void step(const std::string& kind, Event event) {
    std::vector<Command> commands;
    const double began = thread_cpu_us();
    core_->step(now_, std::move(event), commands);
    const double spent = thread_cpu_us() - began;
    measured_.add(kind, spent);
    now_ = now_ + 20us;
    const auto waited = to_start_.size();
    for (auto& command : commands) carry_out(command);
    if (kind == "a demand" && to_start_.size() > waited) {
      measured_.add("a demand, for each slot it gets",
                    spent / static_cast<double>(to_start_.size() - waited));
    }
    while (!unpersisted_.empty()) {
      const auto upto = unpersisted_.back();
      unpersisted_.clear();
      step("events are persisted", Persisted{upto});
    }
  }

  void carry_out(Command& command) {
    if (auto* persist = std::get_if<Persist>(&command)) {
      unpersisted_.push_back(persist->n);
    } else if (auto* admit = std::get_if<Admit>(&command)) {
      by_link_.at(admit->link)->epoch = admit->registered.head_epoch;
    } else if (auto* sent = std::get_if<SendToAgent>(&command)) {
      deliver(sent->link, std::move(sent->message));
    }
  }

  void deliver(LinkId link, HeadToAgent message) {
    Agent& agent = *by_link_.at(link);
    if (auto* registered = std::get_if<RegisterReply>(&message)) {
      agent.epoch = registered->head_epoch;
      return;
    }
    auto* frame = std::get_if<HeadFrame>(&message);
    if (frame == nullptr) return;
    std::vector<Frame<AgentMessage>> frames;
    auto taken = agent.session.receive(now_, std::move(frame->frame), frames);
    unacknowledged_.insert(link);
    if (!taken) return;
    if (auto* start = std::get_if<StartSlot>(&*taken)) {
      to_start_.push_back({static_cast<std::size_t>(agent.link - 1), std::move(*start)});
    } else if (auto* stop = std::get_if<StopSlot>(&*taken)) {
      to_stop_.push_back({static_cast<std::size_t>(agent.link - 1), stop->slot});
    }
  }

  void from_agent(const std::string& kind, Agent& agent, AgentMessage message) {
    std::vector<Frame<AgentMessage>> frames;
    agent.session.send(now_, std::move(message), frames);
    for (auto& frame : frames) {
      constexpr std::uint64_t never = ~std::uint64_t{0};
      AgentFrame whole{agent.epoch, agent.incarnation, agent.session.received(),
                       0,           std::move(frame),  never};
      step(kind,
           ReceivedFromAgent{agent.link, Principal{Role::agent, "key", {}}, std::move(whole)});
    }
    start_what_was_granted();
    acknowledge();
  }

  // Agents acknowledge within 20 ms of the last message.
  void acknowledge() {
    const auto links = std::exchange(unacknowledged_, {});
    for (const LinkId link : links) {
      Agent& agent = *by_link_.at(link);
      constexpr std::uint64_t never = ~std::uint64_t{0};
      AgentFrame frame{agent.epoch,
                       agent.incarnation,
                       agent.session.received(),
                       0,
                       agent.session.acknowledgement(),
                       never};
      step("an acknowledgement",
           ReceivedFromAgent{link, Principal{Role::agent, "key", {}}, std::move(frame)});
    }
  }

  void start_what_was_granted() {
    while (!to_start_.empty()) {
      const Out out = std::move(to_start_.front());
      to_start_.pop_front();
      Agent& agent = *agents_.at(out.agent);
      SlotStarted message;
      message.slot = out.start.slot;
      message.endpoint.process = ProcessId::of(1'000'000 + ++executors_);
      message.endpoint.node = agent.node;
      executor_of_[out.start.slot] = message.endpoint.process;
      started_.push_back(out);
      from_agent("a slot has started", agent, std::move(message));
    }
  }

  void join(int number) {
    agents_.push_back(std::make_unique<Agent>());
    Agent& agent = *agents_.back();
    agent.node = NodeId::of(static_cast<unsigned>(number + 1));
    agent.incarnation = ProcessId::of(10'000 + static_cast<unsigned>(number));
    agent.link = static_cast<LinkId>(number + 1);
    by_link_[agent.link] = &agent;
    RegisterRequest message;
    message.address = {agent.node, agent.incarnation, fmt::format("node{}:7000", number), "", ""};
    message.host = "host";
    message.role = Role::agent;
    message.shape = gpu_node_shape(8);
    message.shape.task_executors = 256;
    message.shape.actor_executors = 100;
    step("a node joins",
         ReceivedFromAgent{agent.link, Principal{Role::agent, "key", {}}, std::move(message)});
    acknowledge();
  }

  static JobId job(int driver) { return JobId::of(static_cast<unsigned>(driver + 1)); }
  static ProcessId process(int driver) {
    return ProcessId::of(500'000 + static_cast<unsigned>(driver));
  }
  Agent& home(int driver) { return *agents_[static_cast<std::size_t>(driver) % agents_.size()]; }

  void from_driver(const std::string& kind, int driver, ProcessToHead message) {
    from_agent(kind, home(driver),
               FromProcess{process(driver), Principal{Role::driver, "user", job(driver)},
                           std::move(message)});
  }

  void start_job(int driver) {
    from_agent(
        "a driver attaches", home(driver),
        ProcessAttached{{process(driver), Principal{Role::driver, "user", job(driver)}, 4711}});
    StartJob start;
    start.job = job(driver);
    start.driver = process(driver);
    start.name = fmt::format("job {}", driver);
    start.program.id = ProgramId::of(1);
    from_driver("a job starts", driver, std::move(start));
  }

  DemandClass class_of(int number) const {
    DemandClass demand;
    demand.id = ClassId::of(static_cast<unsigned>(number + 1));
    demand.job = job(number / classes_per_driver);
    demand.program = ProgramId::of(1);
    const auto gpus = Quantity::from_units(2'500 * (1 + number % 8));
    demand.request.resources.set("CPU", Quantity::whole(1 + number % 4));
    demand.request.resources.set("GPU", number % 8 < 4 ? gpus : Quantity::whole(1 + number % 3));
    return demand;
  }

  void demand(const std::string& kind, int number, int wanted) {
    Demand message;
    message.demand_class = class_of(number);
    message.version = ++versions_;
    message.wanted_slots = wanted;
    message.waiting_tasks = message.wanted_slots;
    message.example_name = "step";
    from_driver(kind, number / classes_per_driver, std::move(message));
  }

  // The oldest slot is returned, and its resources are granted again.
  void one_slot_again() {
    const Out out = started_.front();
    started_.pop_front();
    const int driver = static_cast<int>(out.start.demand_class.job.bits().low) - 1;
    from_driver("a slot is returned", driver, ReturnSlot{out.start.slot});
    executor_of_.clear();  // task executors stay attached here
    stop_slots("a slot is gone, and grants");
  }

  void request_deadline() {
    const double began = thread_cpu_us();
    MOBULA_CHECK(core_->next_deadline().has_value(), "nodes may fall silent");
    measured_.add("the next deadline", thread_cpu_us() - began);
  }

  void send_tool_queries() {
    const auto measure_query = [this](const char* what, const char* verb, const char* kind) {
      ReceivedFromTool said;
      said.link = 1'000'000;
      said.principal = Principal{Role::observer, "tool", {}};
      said.request.request = 1;
      said.request.verb = verb;
      said.request.kind = kind;
      step(what, std::move(said));
    };
    measure_query("status is requested", "status", "");
    measure_query("nodes are listed", "list", "nodes");
    measure_query("leases are listed", "list", "leases");
    measure_query("events are listed", "list", "events");
  }

  void leave() {
    for (std::size_t i = 0; i < agents_.size(); i += agents_.size() / 20 + 1) {
      const LinkId link = agents_[i]->link;
      step("a link is lost", AgentLinkLost{link});
      step("a node is dead", NodeProbed{agents_[i]->incarnation, true});
      to_start_.clear();
    }
  }

  const int nodes_, rounds_;
  std::optional<HeadCore> core_;
  Random random_{7};
  Time now_ = Time::from_ns(1'000'000'000);
  Measured measured_;
  std::vector<std::unique_ptr<Agent>> agents_;
  std::map<LinkId, Agent*> by_link_;
  std::vector<std::uint64_t> unpersisted_;
  std::set<LinkId> unacknowledged_;
  std::deque<Out> to_start_;
  std::deque<Out> started_;
  std::deque<std::pair<std::size_t, SlotId>> to_stop_;
  std::map<SlotId, ProcessId> executor_of_;
  std::uint64_t executors_ = 0;
  std::uint64_t versions_ = 0;
};

const Bound* bound_of(const std::string& event) {
  const auto at =
      std::ranges::find_if(bounds, [&](const Bound& each) { return event == each.event; });
  return at == std::end(bounds) ? nullptr : &*at;
}

void print_table(const std::vector<Outcome>& outcomes) {
  fmt::print("{} drivers, {} classes, {} tasks wait; µs, median / 99th percentile / worst\n",
             drivers, classes, tasks);
  fmt::print("{:<32}{:>18}", "event", "bound");
  for (const auto& each : outcomes) fmt::print("{:>26}", fmt::format("{} nodes", each.nodes));
  fmt::print("\n");
  const auto bounded = [](double bound) {
    return bound > 0 ? fmt::format("{:.0f}", bound) : std::string("-");
  };
  for (const auto& [event, unused] : outcomes.back().events) {
    const Bound* bound = bound_of(event);
    fmt::print("{:<32}{:>18}", event,
               bound == nullptr ? ""
                                : fmt::format("{} / {} / {}", bounded(bound->median),
                                              bounded(bound->p99), bounded(bound->worst)));
    for (const auto& each : outcomes) {
      const auto at = each.events.find(event);
      fmt::print("{:>26}", at == each.events.end()
                               ? "-"
                               : fmt::format("{:.1f} / {:.1f} / {:.0f}", at->second.median,
                                             at->second.p99, at->second.worst));
    }
    fmt::print("\n");
  }
  const auto row = [&](const char* name, const std::string& bound, auto of) {
    fmt::print("{:<32}{:>18}", name, bound);
    for (const auto& each : outcomes) fmt::print("{:>26}", of(each));
    fmt::print("\n");
  };
  row("slots out", "", [](const Outcome& each) { return fmt::format("{}", each.slots); });
  row("memory of the core, MiB", fmt::format("{:.0f}", memory_bound_mib),
      [](const Outcome& each) { return fmt::format("{:.1f}", each.core_mib); });
  row("memory of the bench, MiB", "",
      [](const Outcome& each) { return fmt::format("{:.1f}", each.bench_mib); });
  row("resident, MiB", "",
      [](const Outcome& each) { return fmt::format("{:.1f}", each.resident_mib); });
}

void print_json(const std::vector<Outcome>& outcomes) {
  std::string items;
  for (const auto& each : outcomes) {
    std::string events;
    for (const auto& [event, figures] : each.events) {
      const Bound* bound = bound_of(event);
      events += fmt::format(
          "{}{{\"event\": \"{}\", \"count\": {}, \"median_us\": {:.2f}, \"p99_us\": {:.2f}, "
          "\"worst_us\": {:.1f}{}}}",
          events.empty() ? "" : ", ", event, figures.count, figures.median, figures.p99,
          figures.worst,
          bound == nullptr ? ""
          : bound->worst > 0
              ? fmt::format(", \"bound_worst_us\": {:.0f}", bound->worst)
              : fmt::format(", \"bound_median_us\": {:.0f}, \"bound_p99_us\": {:.0f}",
                            bound->median, bound->p99));
    }
    items += fmt::format(
        "{}{{\"nodes\": {}, \"slots\": {}, \"core_mib\": {:.1f}, \"bound_core_mib\": {:.0f}, "
        "\"bench_mib\": {:.1f}, "
        "\"resident_mib\": {:.1f}, \"events\": [{}]}}",
        items.empty() ? "" : ", ", each.nodes, each.slots, each.core_mib, memory_bound_mib,
        each.bench_mib, each.resident_mib, events);
  }
  fmt::print(
      "{{\"benchmark\": \"head\", \"drivers\": {}, \"classes\": {}, \"tasks\": {}, \"items\": "
      "[{}]}}\n",
      drivers, classes, tasks, items);
}

void print_actors(int rounds, int count, std::vector<int> sizes) {
  if (sizes.empty()) sizes = {100, 1'000, 10'000, 100'000};
  fmt::print("{:<10}{:>12}{:>12}{:>16}{:>16}   µs, medians\n", "idle", "create", "kill",
             "process ends", "next deadline");
  for (const int idle : sizes) {
    const auto cost = Bench(1, rounds).beside_idle(idle);
    fmt::print("{:<10}{:>12.2f}{:>12.2f}{:>16.2f}{:>16.2f}\n", idle, cost.create_us, cost.kill_us,
               cost.process_end_us, cost.deadline_us);
  }
  Bench(1, rounds).print_memory("run", count, std::min(count, 50), "CPU");
  Bench(1, rounds).print_memory("wait", count, std::min(count, 100), "absent");
  Bench(1, rounds).print_memory("wait", count, count, "absent");
}

}  // namespace
}  // namespace mobula::internal::head

int main(int argc, char** argv) {
  using namespace mobula::internal::head;
  bool json = false;
  int rounds = 20'000;
  int actors = 0;
  std::vector<int> sizes;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) {
      json = true;
    } else if (std::strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
      rounds = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--actors") == 0 && i + 1 < argc) {
      actors = std::atoi(argv[++i]);
    } else {
      sizes.push_back(std::atoi(argv[i]));
    }
  }
  if (actors > 0) {
    print_actors(std::min(rounds, 2'000), actors, std::move(sizes));
    return 0;
  }
  if (sizes.empty()) sizes = {10, 100, 1000};
  std::vector<Outcome> outcomes;
  for (const int nodes : sizes) {
    outcomes.push_back(Bench(nodes, rounds).run());
    malloc_trim(0);
  }
  (json ? print_json : print_table)(outcomes);
  return 0;
}
