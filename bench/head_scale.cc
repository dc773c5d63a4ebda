// The whole core of a head, alone: 1,000 nodes, 100 drivers, 100,000 tasks that wait, and slots that are
// granted, start, come back and are granted again. Prints what one event costs, by kind, in µs of processor
// time, and the memory of it all. No process but this one, no socket, no disk: what is persisted is durable
// at once.
//
// mobula-bench-head [NODES] [DRIVERS] [TASKS] [ROUNDS]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "head/core/head_core.h"
#include "protocol/messages.h"
#include "session/session.h"

namespace mobula::internal::head {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int classes_per_driver = 10;

struct Agent {
  NodeId node;
  ProcessId incarnation;
  LinkId link = 0;
  std::uint64_t epoch = 0;
  Session<AgentMessage, HeadMessage> session{};
};

class Measured {
 public:
  void add(const std::string& kind, double us) { of_[kind].push_back(us); }
  void print() {
    fmt::print("{:<28}{:>9}{:>10}{:>10}{:>10}\n", "event", "count", "median", "99th", "worst");
    for (auto& [kind, times] : of_) {
      std::ranges::sort(times);
      fmt::print("{:<28}{:>9}{:>10.1f}{:>10.1f}{:>10.1f}\n", kind, times.size(),
                 times[times.size() / 2], times[times.size() * 99 / 100], times.back());
    }
  }

 private:
  std::map<std::string, std::vector<double>> of_;
};

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  double pages = 0, resident = 0;
  file >> pages >> resident;
  return resident * 4096 / (1 << 20);
}

class Bench {
 public:
  Bench(int nodes, int drivers, int tasks, int rounds)
      : nodes_(nodes), drivers_(drivers), tasks_(tasks), rounds_(rounds) {}

  void run() {
    Started started;
    started.epoch_id = Hash128{7, 1};
    step("start", std::move(started));
    const double before = resident_mib();
    for (int i = 0; i < nodes_; ++i) join(i);
    MOBULA_CHECK(!core_.recovering(), "a fresh head waits for nobody");
    for (int i = 0; i < drivers_; ++i) start_job(i);
    for (int i = 0; i < drivers_ * classes_per_driver; ++i) demand(i);
    fmt::print("{} nodes, {} drivers, {} classes, {} tasks wait, {} slots are out; {:.0f} MiB\n", nodes_,
               drivers_, drivers_ * classes_per_driver, tasks_, started_.size(), resident_mib() - before);
    for (int round = 0; round < rounds_ && !started_.empty(); ++round) one_slot_again();
    leave();
    const auto books = core_.verify();
    MOBULA_CHECK(books.ok(), "the books are right");
    measured_.print();
    fmt::print("memory at the end: {:.0f} MiB\n", resident_mib() - before);
  }

 private:
  struct Out {
    std::size_t agent;
    StartSlot start;
  };

  // One event, timed, with all that follows of it: answers of the session, what is durable.
  void step(const std::string& kind, Event event) {
    std::vector<Command> commands;
    const auto began = Clock::now();
    core_.step(now_, std::move(event), commands);
    measured_.add(kind, std::chrono::duration<double, std::micro>(Clock::now() - began).count());
    now_ = now_ + 20us;
    for (auto& command : commands) carry_out(command);
    while (!unpersisted_.empty()) {
      const auto upto = unpersisted_.back();
      unpersisted_.clear();
      step("what was persisted", Persisted{upto});
    }
  }

  void carry_out(Command& command) {
    if (auto* persist = std::get_if<Persist>(&command)) {
      unpersisted_.push_back(persist->n);
    } else if (auto* admit = std::get_if<Admit>(&command)) {
      by_link_.at(admit->link)->epoch = admit->registered.head_epoch;
    } else if (auto* sent = std::get_if<SendAgent>(&command)) {
      deliver(sent->link, std::move(sent->message));
    }
  }

  void deliver(LinkId link, HeadToAgent message) {
    Agent& agent = *by_link_.at(link);
    if (auto* registered = std::get_if<Registered>(&message)) {
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

  void says(const std::string& kind, Agent& agent, AgentMessage message) {
    std::vector<Frame<AgentMessage>> frames;
    agent.session.send(now_, std::move(message), frames);
    for (auto& frame : frames) {
      constexpr std::uint64_t never = ~std::uint64_t{0};
      AgentFrame whole{agent.epoch, agent.incarnation, agent.session.received(), 0, std::move(frame), never};
      step(kind, AgentSaid{agent.link, Principal{Role::agent, "key", {}}, std::move(whole)});
    }
    start_what_was_granted();
    acknowledge();
  }

  // As agents do within 20 ms of the last message.
  void acknowledge() {
    const auto links = std::exchange(unacknowledged_, {});
    for (const LinkId link : links) {
      Agent& agent = *by_link_.at(link);
      constexpr std::uint64_t never = ~std::uint64_t{0};
      AgentFrame frame{agent.epoch, agent.incarnation, agent.session.received(), 0, agent.session.acknowledgement(), never};
      step("an acknowledgement", AgentSaid{link, Principal{Role::agent, "key", {}}, std::move(frame)});
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
      started_.push_back(out);
      says("a slot has started", agent, std::move(message));
    }
  }

  void join(int number) {
    agents_.push_back(std::make_unique<Agent>());
    Agent& agent = *agents_.back();
    agent.node = NodeId::of(static_cast<unsigned>(number + 1));
    agent.incarnation = ProcessId::of(10'000 + static_cast<unsigned>(number));
    agent.link = static_cast<LinkId>(number + 1);
    by_link_[agent.link] = &agent;
    Register message;
    message.address = {agent.node, agent.incarnation, fmt::format("node{}:7000", number), "", ""};
    message.host = "host";
    message.role = Role::agent;
    message.shape.resources.push_back({"CPU", {InstanceShape{Quantity::whole(64), "", {}, 0}}});
    ResourceShape devices{"GPU", {}};
    for (int i = 0; i < 8; ++i) {
      devices.instances.push_back({Quantity::whole(1), std::to_string(i), {"H200"}, 80LL << 30});
    }
    message.shape.resources.push_back(std::move(devices));
    message.shape.task_executors = 256;
    message.shape.actor_executors = 100;
    step("a node joins", AgentSaid{agent.link, Principal{Role::agent, "key", {}}, std::move(message)});
    acknowledge();
  }

  static JobId job(int driver) { return JobId::of(static_cast<unsigned>(driver + 1)); }
  static ProcessId process(int driver) { return ProcessId::of(500'000 + static_cast<unsigned>(driver)); }
  Agent& home(int driver) { return *agents_[static_cast<std::size_t>(driver) % agents_.size()]; }

  void driver_says(const std::string& kind, int driver, ProcessToHead message) {
    says(kind, home(driver), FromProcess{process(driver), Principal{Role::driver, "user", job(driver)}, std::move(message)});
  }

  void start_job(int driver) {
    says("a driver attaches", home(driver), ProcessAttached{{process(driver), Principal{Role::driver, "user", job(driver)}, 4711}});
    StartJob start;
    start.job = job(driver);
    start.driver = process(driver);
    start.name = fmt::format("job {}", driver);
    start.program.id = ProgramId::of(1);
    driver_says("a job starts", driver, std::move(start));
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

  void demand(int number) {
    Demand message;
    message.demand_class = class_of(number);
    message.version = ++versions_;
    message.wanted_slots = tasks_ / (drivers_ * classes_per_driver);
    message.waiting_tasks = message.wanted_slots;
    message.example_name = "step";
    driver_says("a demand", number / classes_per_driver, std::move(message));
  }

  // The oldest slot comes back, and what is freed is granted.
  void one_slot_again() {
    const Out out = started_.front();
    started_.pop_front();
    const int driver = static_cast<int>(out.start.demand_class.job.bits().low) - 1;
    driver_says("a slot is returned", driver, ReturnSlot{out.start.slot});
    while (!to_stop_.empty()) {
      const auto [agent, slot] = to_stop_.front();
      to_stop_.pop_front();
      SlotGone gone;
      gone.slot = slot;
      says("a slot is gone, and grants", *agents_.at(agent), std::move(gone));
    }
  }

  void leave() {
    for (std::size_t i = 0; i < agents_.size(); i += agents_.size() / 20 + 1) {
      const LinkId link = agents_[i]->link;
      step("a link is lost", AgentLinkLost{link});
      step("a node is dead", NodeProbed{agents_[i]->incarnation, true});
      to_start_.clear();
    }
  }

  const int nodes_, drivers_, tasks_, rounds_;
  HeadCore core_;
  Time now_ = Time::from_ns(1'000'000'000);
  Measured measured_;
  std::vector<std::unique_ptr<Agent>> agents_;
  std::map<LinkId, Agent*> by_link_;
  std::vector<std::uint64_t> unpersisted_;
  std::set<LinkId> unacknowledged_;
  std::deque<Out> to_start_;
  std::deque<Out> started_;
  std::deque<std::pair<std::size_t, SlotId>> to_stop_;
  std::uint64_t executors_ = 0;
  std::uint64_t versions_ = 0;
};

}  // namespace
}  // namespace mobula::internal::head

int main(int argc, char** argv) {
  const auto number = [&](int at, int otherwise) { return argc > at ? std::atoi(argv[at]) : otherwise; };
  mobula::internal::head::Bench(number(1, 1'000), number(2, 100), number(3, 100'000), number(4, 20'000)).run();
}
