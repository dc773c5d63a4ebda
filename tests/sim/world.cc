#include "sim/world.h"

#include <algorithm>

#include "base/check.h"
#include "sim/agent_role.h"
#include "sim/process_role.h"

namespace mobula::internal::sim {
namespace {

constexpr Duration liveness_timeout = 240s;  // from the last fault until all work is done
constexpr Duration hanging_end_timeout =
    worker::WorkerOptions{}.drain_timeout;  // added for each executor that must be killed
constexpr Duration teardown_timeout =
    120s;  // from the end of the last driver until no state is left
constexpr std::uint64_t max_steps = 3'000'000;

Duration work_bound(const Plans& plans) {
  const auto hanging =
      std::count_if(plans.begin(), plans.end(), [](const Plan& plan) { return plan.hangs; });
  return liveness_timeout + hanging * hanging_end_timeout;
}

}  // namespace

World::World(HistoryOptions options)
    : options_(std::move(options)),
      random_(options_.seed ^ fnv1a(options_.scenario)),
      network_(random_.fork("network")),
      timers_(random_.fork("timers")),
      forks_(random_.fork("forks")),
      disk_(random_.fork("disk")),
      bulk_(random_.fork("bulk")),
      user_(random_.fork("user")),
      spill_(random_.fork("spill")),
      trace_(options_.trace),
      checkers_(*this),
      reports_(*this),
      use_(*this),
      completions_(*this),
      streams_(*this) {
  const Scenario* scenario = find_scenario(options_.scenario);
  MOBULA_CHECK(scenario != nullptr, "no such scenario: " + options_.scenario);
  plan_ = draw(*scenario, random_.fork("plan"));
}

World::~World() = default;

void World::violation(std::string checker, std::string text) {
  if (failure_) return;
  trace_.line(now(), "CHECKER", [&] { return checker + ": " + text; });
  failure_ = Outcome{false, std::move(checker), std::move(text), 0, 0, now()};
}

// ---- the course of a history -------------------------------------------------------------------

Outcome World::run() {
  start();
  const bool done =
      run_until(plan_.heal + work_bound(plan_.plans), [this] { return drivers_done(); });
  if (!done && !over()) violation("waiting", "work is not done: " + unfinished_work());
  std::string left;
  if (!over()) {
    const Time began = now();
    Time next_poll = began;
    const bool clean = run_until(began + teardown_timeout, [&] {
      if (now() < next_poll) return false;
      next_poll = now() + 200ms;
      left = leftovers();
      return left.empty();
    });
    if (!clean && !over()) violation("leftovers", left);
  }
  Outcome outcome = failure_ ? *failure_ : Outcome{};
  outcome.hash = trace_.hash();
  outcome.steps = kernel_.steps();
  outcome.end = now();
  return outcome;
}

bool World::run_until(Time limit, const std::function<bool()>& done) {
  while (!over() && now() <= limit) {
    if (done()) return true;
    if (!kernel_.step()) return done();
    if (kernel_.steps() > max_steps) {
      violation("waiting", "more than " + std::to_string(max_steps) +
                               " steps: something goes round and round");
    }
  }
  return false;
}

void World::start() {
  for (std::size_t i = 0; i < plan_.nodes.size(); ++i) {
    Node node;
    node.index = static_cast<int>(i) + 1;
    node.id = NodeId::of(i + 1);
    node.plan = plan_.nodes[i];
    if (node.plan.has_program) {
      for (std::size_t driver = 0; driver < plan_.driver_nodes.size(); ++driver) {
        node.files.insert(Hash128{0x50524f47, driver + 1});
      }
    }
    nodes_.push_back(std::move(node));
  }
  start_head();
  for (auto& node : nodes_) start_agent(node);
  for (std::size_t i = 0; i < plan_.driver_nodes.size(); ++i) start_driver(static_cast<int>(i));
  schedule_faults();
}

void World::start_head() {
  auto head = std::make_unique<Head>(*this, ++heads_made_);
  head_ = head.get();
  roles_.push_back(std::move(head));
  head_->start();
}

void World::head_ended() {
  head_ = nullptr;
  kernel_.after(disk_.between(Duration(50ms), Duration(3s)), [this] {
    if (!over() && head_ == nullptr) start_head();
  });
}

void World::start_agent(Node& node) {
  ++node.incarnations;
  node.spilled.clear();
  auto agent = std::make_unique<Agent>(*this, node);
  node.agent = agent.get();
  agents_[agent->address().incarnation] = agent.get();
  roles_.push_back(std::move(agent));
  node.agent->start();
}

void World::agent_ended(Agent& agent) {
  Node& node = agent.node();
  node.agent = nullptr;
  for (const auto& [incarnation, other] : agents_) {
    if (!other->alive()) continue;
    kernel_.after(
        latency(agent.host(), other->host()),
        [other = other, dead = agent.address().incarnation] { other->peer_link(dead, false); });
  }
  const Duration pause = forks_.between(Duration(50ms), Duration(3s));
  kernel_.at(std::max(now() + pause, node.away_until), [this, &node] {
    if (!over() && node.agent == nullptr) start_agent(node);
  });
}

void World::start_driver(int index) {
  Node& node =
      nodes_.at(static_cast<std::size_t>(plan_.driver_nodes.at(static_cast<std::size_t>(index))));
  auto driver = std::make_unique<Process>(*this, node, index);
  drivers_.push_back(driver.get());
  all_processes_.push_back(driver.get());
  processes_[driver->id()] = driver.get();
  Process* started = driver.get();
  roles_.push_back(std::move(driver));
  kernel_.after(user_.between(Duration(1ms), Duration(200ms)),
                [started] { started->start_driver(); });
}

Process& World::add_executor(Node& node, const worker::StartExecutor& start) {
  auto process = std::make_unique<Process>(*this, node, start);
  Process& added = *process;
  node.executors.push_back(&added);
  all_processes_.push_back(&added);
  processes_[added.id()] = &added;
  roles_.push_back(std::move(process));
  return added;
}

Node* World::node_of(NodeId id) {
  for (auto& node : nodes_) {
    if (node.id == id) return &node;
  }
  return nullptr;
}

Agent* World::agent_of(ProcessId incarnation) {
  const auto at = agents_.find(incarnation);
  return at == agents_.end() ? nullptr : at->second;
}

Process* World::process_of(ProcessId process) {
  const auto at = processes_.find(process);
  return at == processes_.end() ? nullptr : at->second;
}

// ---- network -----------------------------------------------------------------------------------

PipePointer World::open_pipe(int from, int to, bool lossy) const {
  auto pipe = std::make_shared<Pipe>();
  pipe->from = from;
  pipe->to = to;
  pipe->lossy = lossy;
  return pipe;
}

Duration World::latency(int from, int to) {
  if (from == to) return network_.between(Duration(5us), Duration(120us));
  if (weather_.slow > 0) return network_.between(Duration(5ms), Duration(150ms));
  return network_.between(Duration(50us), Duration(1500us));
}

void World::transmit(const PipePointer& pipe, const Kernel::Action& deliver) {
  if (pipe->lossy && blocked(pipe->from, pipe->to)) return;
  const auto send = [&] {
    pipe->last = std::max(pipe->last, now() + latency(pipe->from, pipe->to));
    kernel_.at(pipe->last, [pipe, deliver, breaks = pipe->breaks] {
      if (pipe->breaks == breaks) deliver();
    });
  };
  send();
  if (pipe->lossy && weather_.repeats > 0 && network_.chance(200)) send();
}

// ---- the end -----------------------------------------------------------------------------------

bool World::drivers_done() const {
  if (now() < plan_.heal) return false;
  for (const Process* driver : drivers_) {
    if (!driver->finished()) return false;
  }
  return true;
}

std::string World::unfinished_work() const {
  std::string text;
  for (const Process* process : all_processes_) {
    if (process->alive()) text += process->work_left();
  }
  if (text.empty()) text = "a driver has not ended";
  return text;
}

// Describes the state that is left after every driver has ended. Empty if no state is left.
std::string World::leftovers() {
  // A detached actor whose job has died lives until it is killed.
  if (head_ != nullptr && checkers_.lossy()) {
    for (const auto& actor : head_->core().view().actors) {
      if (actor.detached && actor.state != ActorState::dead) return {};
    }
  }
  for (auto& node : nodes_) {
    const std::string where = "node" + std::to_string(node.index);
    if (!node.executors.empty()) return where + " still runs " + node.executors.front()->name();
    if (node.agent == nullptr || !node.agent->core().registered())
      return where + " is not registered";
    const auto census = node.agent->core().census();
    const auto count = [&](const char* what, std::size_t number) {
      return number == 0 ? std::string() : where + " keeps " + std::to_string(number) + " " + what;
    };
    for (const auto& text :
         {count("slots", census.slots), count("links", census.links),
          count("processes", census.processes), count("programs", census.programs),
          count("objects", census.objects), count("entries", census.entries),
          count("pins", census.pins), count("pulls", census.pulls), count("offers", census.offers),
          count("slabs", census.slabs), count("slabs of the machine", node.agent->slabs()),
          count("files of spilled objects", census.spill_files),
          count("files on its disk", node.spilled.size()),
          count("objects on their way to or from disk", census.moving),
          count("prepared programs", node.agent->programs())}) {
      if (!text.empty()) return text;
    }
  }
  if (head_ == nullptr) return "no head";
  const auto view = head_->core().view();
  if (!view.slots.empty()) return "the head keeps slot " + view.slots.front().slot.brief();
  for (const auto& job : view.jobs) {
    if (!job.ended) return "the head keeps job " + job.job.brief();
  }
  if (view.groups > 0) return "the head keeps " + std::to_string(view.groups) + " placement groups";
  for (const auto& actor : view.actors) {
    if (actor.state != ActorState::dead)
      return "the head keeps actor " + actor.actor.brief() + " " + actor.name;
  }
  return {};
}

}  // namespace mobula::internal::sim
