// Serves the web page of a head with many nodes of 8 GPUs and many actors, without real processes:
// bench/queries/page_cost.py --link LINK --pid PID measures it in a browser. Simulated agents
// answer queries within the same process, so its processor time is above that of a head.
//
// mobula-bench-page [NODES] [ACTORS] [SECONDS]     default: 1000 10000 600. Prints link and pid.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/time.h"
#include "bench/gpu_node.h"
#include "head/core/head_core.h"
#include "head/http/http_service.h"
#include "protocol/codec/messages.h"
#include "protocol/session/session.h"
#include "protocol/tickets/token.h"
#include "transport/bus/curve.h"

namespace mobula::internal::head {
namespace {

constexpr int gpus = 8;
constexpr unsigned logs = 16;  // logs per node
constexpr std::uint64_t never = ~std::uint64_t{0};

class Cluster {
 public:
  using ReplyCallback = HttpCallbacks::ReplyCallback;

  Cluster(int nodes, int actors) {
    Started started;
    started.epoch_id = Hash128{7, 1};
    step(std::move(started));
    for (int i = 0; i < nodes; ++i) join(i);
    start_job();
    for (int i = 0; i < actors; ++i) create(i);
    MOBULA_CHECK(running_ == actors, "every actor runs");
  }

  void send_query(const std::string& user, ToolRequest request, const ReplyCallback& callback) {
    ReceivedFromTool event;
    event.link = ++last_link_;
    event.principal = Principal{Role::observer, "page", {}};
    event.user_id = user;
    event.request = std::move(request);
    replies_.emplace(event.link, callback);
    step(std::move(event));
  }

  // Acknowledges messages, which also shows that the agents are alive.
  void tick() {
    for (const auto& [link, agent] : agents_) acknowledge(*agent);
    step(Tick{});
  }

 private:
  struct Agent {
    NodeId node;
    ProcessId incarnation;
    LinkId link = 0;
    std::uint64_t epoch = 0;
    Session<AgentMessage, HeadMessage> session{};
  };

  static JobId job() { return JobId::of(1); }
  static ProcessId driver() { return ProcessId::of(500'000); }
  static Principal agent_key() { return Principal{Role::agent, "key", {}}; }

  void step(Event event) {
    std::vector<Command> commands;
    core_.step(monotonic_now(), std::move(event), commands);
    for (auto& command : commands) carry_out(command);
  }

  void carry_out(Command& command) {
    if (auto* persist = std::get_if<Persist>(&command)) {
      step(Persisted{persist->n});
    } else if (auto* admit = std::get_if<Admit>(&command)) {
      agents_.at(admit->link)->epoch = admit->registered.head_epoch;
    } else if (auto* sent = std::get_if<SendToAgent>(&command)) {
      deliver(sent->link, std::move(sent->message));
    } else if (auto* replied = std::get_if<ReplyToTool>(&command)) {
      const auto callback = replies_.extract(replied->link);
      if (!callback.empty()) callback.mapped()(replied->reply);
    }
  }

  void deliver(LinkId link, HeadToAgent message) {
    Agent& agent = *agents_.at(link);
    if (auto* registered = std::get_if<RegisterReply>(&message)) {
      agent.epoch = registered->head_epoch;
      return;
    }
    auto* frame = std::get_if<HeadFrame>(&message);
    if (frame == nullptr) return;
    std::vector<Frame<AgentMessage>> frames;
    auto taken = agent.session.receive(monotonic_now(), std::move(frame->frame), frames);
    if (!taken) return;
    if (auto* start = std::get_if<StartSlot>(&*taken)) {
      begin_actor(agent, *start);
    } else if (auto* usage = std::get_if<UsageRequest>(&*taken)) {
      from_agent(agent, usage_of(agent, usage->request));
    } else if (auto* listed = std::get_if<LogsRequest>(&*taken)) {
      from_agent(agent, logs_of(agent, *listed));
    } else if (auto* read = std::get_if<ReadLogRequest>(&*taken)) {
      ReadLogReply reply;
      reply.request = read->request;
      reply.open = true;
      from_agent(agent, std::move(reply));
    } else if (auto* query = std::get_if<ToProcess>(&*taken)) {
      answer_query(agent, *query);
    }
  }

  void begin_actor(Agent& agent, const StartSlot& start) {
    SlotStarted started;
    started.slot = start.slot;
    started.endpoint.process = ProcessId::of(1'000'000 + static_cast<unsigned>(++running_));
    started.endpoint.node = agent.node;
    const ProcessId executor = started.endpoint.process;
    from_agent(agent, std::move(started));
    from_agent(agent, ProcessAttached{{executor, Principal{Role::executor, "user", job()}, 4711}});
    from_agent(agent, ActorConstructed{start.actor.actor, start.slot, start.first_generation, {}});
  }

  static UsageReply usage_of(const Agent& agent, std::uint64_t request) {
    UsageReply usage;
    usage.request = request;
    usage.at = monotonic_now() - Time{};
    usage.cpu = usage.at * 13;
    usage.cpus = 64;
    usage.memory_bytes = 2LL << 40;
    usage.memory_used_bytes = 123'456'789'012;
    usage.store.capacity_bytes = 1LL << 40;
    const auto offset = static_cast<std::int64_t>(agent.link % 60) << 30;
    for (std::uint32_t i = 0; i < gpus; ++i) usage.devices.push_back({i, (1LL << 30) + offset});
    return usage;
  }

  // The log of the agent, and those of ended slots.
  static LogsReply logs_of(const Agent& agent, const LogsRequest& query) {
    LogsReply reply;
    reply.request = query.request;
    constexpr std::int64_t changed_ms = 1'795'000'000'000;
    reply.logs.push_back({log_of_agent, {}, 1000, changed_ms, true});
    for (unsigned i = 1; i < logs; ++i)
      reply.logs.push_back({fmt::format("slot-{:08x}", agent.link * logs + i), job(), 10,
                            changed_ms - 1000 * i, false});
    const auto listed = std::min<std::size_t>(logs, query.limit);
    reply.left_out = logs - listed;
    reply.logs.resize(listed);
    return reply;
  }

  // The only process that answers is the driver.
  void answer_query(Agent& agent, const ToProcess& query) {
    const auto* tasks_request = std::get_if<TasksRequest>(&query.message);
    if (tasks_request == nullptr) return;
    TasksReply reply;
    reply.request = tasks_request->request;
    from_agent(agent, FromProcess{query.process, Principal{Role::driver, "user", job()},
                                  std::move(reply)});
  }

  void from_agent(Agent& agent, AgentMessage message) {
    std::vector<Frame<AgentMessage>> frames;
    agent.session.send(monotonic_now(), std::move(message), frames);
    for (auto& frame : frames) {
      AgentFrame whole{agent.epoch, agent.incarnation, agent.session.received(),
                       0,           std::move(frame),  never};
      step(ReceivedFromAgent{agent.link, agent_key(), std::move(whole)});
    }
  }

  void acknowledge(Agent& agent) {
    AgentFrame frame{agent.epoch,
                     agent.incarnation,
                     agent.session.received(),
                     0,
                     agent.session.acknowledgement(),
                     never};
    step(ReceivedFromAgent{agent.link, agent_key(), std::move(frame)});
  }

  void join(int number) {
    auto added = std::make_unique<Agent>();
    Agent& agent = *added;
    agent.node = NodeId::derived(job(), "node", static_cast<std::uint64_t>(number));
    agent.incarnation = ProcessId::of(10'000 + static_cast<unsigned>(number));
    agent.link = static_cast<LinkId>(number) + 1;
    agents_.emplace(agent.link, std::move(added));
    RegisterRequest message;
    message.address = {agent.node, agent.incarnation, fmt::format("node{}:7000", number), "", ""};
    message.host = fmt::format("node{}.cluster.example", number);
    message.role = Role::agent;
    message.shape = gpu_node_shape(gpus, fmt::format("10.0.{}.{}", number / 256, number % 256));
    message.shape.task_executors = 256;
    message.shape.actor_executors = 100;
    step(ReceivedFromAgent{agent.link, agent_key(), std::move(message)});
  }

  void start_job() {
    Agent& home = *agents_.at(1);
    const Principal user{Role::driver, "user", job()};
    from_agent(home, ProcessAttached{{driver(), user, 4711}});
    StartJob start;
    start.job = job();
    start.driver = driver();
    start.name = "training";
    start.program.id = ProgramId::of(1);
    from_agent(home, FromProcess{driver(), user, std::move(start)});
  }

  void create(int number) {
    CreateActor message;
    ActorSpec& spec = message.spec;
    spec.actor = ActorId::derived(job(), "actor", static_cast<std::uint64_t>(number));
    spec.job = job();
    spec.owner = driver();
    spec.class_name = fmt::format("Worker{}", number % 20);
    spec.demand.id = ClassId::of(77);
    spec.demand.job = spec.job;
    spec.demand.program = ProgramId::of(1);
    spec.demand.request.resources.set("GPU", Quantity::from_units(5000));
    from_agent(*agents_.at(1),
               FromProcess{driver(), Principal{Role::driver, "user", job()}, std::move(message)});
  }

  // A head that serves pages samples its nodes.
  static HeadOptions with_pages() {
    HeadOptions options;
    options.http_url = "http://127.0.0.1:1";
    return options;
  }

  HeadCore core_{with_pages()};
  std::map<LinkId, std::unique_ptr<Agent>> agents_;
  std::map<LinkId, ReplyCallback> replies_;
  LinkId last_link_ = 1'000'000;
  int running_ = 0;
};

Token observer_token(AllowTable& keys) {
  const auto pair = CurveKeys::generate().value();
  MOBULA_CHECK(keys.allow(pair.public_key, "observer:page").ok(), "the key is valid");
  return {.cluster = "bench",
          .address = "127.0.0.1:1",
          .head_curve_key = pair.public_key,
          .head_signing_key = std::string(64, 'a'),
          .role = "observer",
          .public_key = pair.public_key,
          .secret_key = pair.secret_key};
}

void serve(int nodes, int actors, int seconds) {
  const auto loop = EventLoop::create().value();
  Cluster cluster(nodes, actors);
  AllowTable keys;
  const Token token = observer_token(keys);
  HttpOptions options;
  options.address = "127.0.0.1:0";
  options.keys = &keys;
  HttpCallbacks callbacks;
  callbacks.serving = [] { return true; };
  callbacks.state = [&](const std::string& user, const std::string&, ToolRequest request,
                        const HttpCallbacks::ReplyCallback& callback) {
    cluster.send_query(user, std::move(request), callback);
  };
  const auto http = HttpService::start(*loop, std::move(options), std::move(callbacks)).value();
  fmt::print("http://{}/#{} {}\n", http->address(), to_text(token), ::getpid());
  std::fflush(stdout);
  const Time end = monotonic_now() + std::chrono::seconds(seconds);
  Timer timer(*loop, [&] {
    cluster.tick();
    if (monotonic_now() > end) loop->stop();
    timer.arm(monotonic_now() + 1s);
  });
  timer.arm(monotonic_now() + 1s);
  loop->run();
}

}  // namespace
}  // namespace mobula::internal::head

int main(int argc, char** argv) {
  const auto number = [&](int at, int other) { return argc > at ? std::atoi(argv[at]) : other; };
  mobula::internal::head::serve(number(1, 1000), number(2, 10'000), number(3, 600));
  return 0;
}
