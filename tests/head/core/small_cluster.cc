#include "head/core/small_cluster.h"

namespace mobula::internal::head {

SmallCluster::SmallCluster(HeadOptions options) : options_(std::move(options)) { start_head(); }

// ---- the head -----------------------------------------------------------------------------------

void SmallCluster::start_head() {
  core_.emplace(options_);
  Started started;
  started.epoch_id = Hash128{7, ++starts_};
  if (wall_clock_runs) started.wall_ms = now.ns() / 1'000'000;
  for (const auto& [key, value] : journal_) started.rows.push_back({key.first, key.second, value});
  step(std::move(started));
}

void SmallCluster::restart_head() {
  replay();
  unpersisted_.clear();
  inbox_.clear();
  for (auto& [number, agent] : agents_) {
    agent.session.reset();
    agent.registered.reset();
    agent.got.clear();
  }
  start_head();
}

void SmallCluster::replay() {
  HeadCore other(options_);
  std::vector<Command> answers;
  for (const auto& [at, bytes] : sent_) {
    auto event = decode<Event>(bytes);
    ASSERT_TRUE(event.ok()) << event.error().text;
    other.step(at, std::move(*event), answers);
  }
  EXPECT_EQ(encode(answers), encode(answered_)) << "the same inputs gave other commands";
  sent_.clear();
  answered_.clear();
}

void SmallCluster::step(Event event) {
  inbox_.push_back(std::move(event));
  if (stepping_) return;
  stepping_ = true;
  while (!inbox_.empty()) {
    Event next = std::move(inbox_.front());
    inbox_.pop_front();
    std::vector<Command> commands;
    sent_.emplace_back(now, encode(next));
    const std::uint64_t walked = core_->rows_walked();
    core_->step(now, std::move(next), commands);
    (void)core_->next_deadline();
    rows_walked += core_->rows_walked() - walked;
    answered_.insert(answered_.end(), commands.begin(), commands.end());
    const auto books = core_->verify();
    ASSERT_TRUE(books.ok()) << books.error().text;
    for (auto& command : commands) carry_out(std::move(command));
  }
  stepping_ = false;
}

void SmallCluster::pass(Duration time) {
  const Time end = now + time;
  int ticks = 0;
  while (now < end) {
    now = std::min(end, now + 100ms);
    for (auto& [number, agent] : agents_) {
      if (!agent.session || agent.silent) continue;
      std::vector<Frame<AgentMessage>> frames;
      agent.session->tick(now, frames);
      if (ticks % 5 == 0) frames.push_back(agent.session->acknowledgement());
      send(agent, std::move(frames));
    }
    ++ticks;
    step(Tick{});
    for (int again = 0; again < 100; ++again) {
      const auto due = core_->next_deadline();
      if (!due || *due > now) break;
      step(Tick{});
      ASSERT_LT(again, 99) << "a deadline stays in the past";
    }
  }
}

void SmallCluster::persist() {
  while (!unpersisted_.empty()) {
    const Persist batch = std::move(unpersisted_.front());
    unpersisted_.pop_front();
    for (const auto& change : batch.changes) {
      if (change.erase) {
        journal_.erase({change.table, change.key});
      } else {
        journal_[{change.table, change.key}] = change.value;
      }
    }
    step(Persisted{batch.n});
  }
}

void SmallCluster::fail_to_persist(const std::string& why) {
  ASSERT_FALSE(unpersisted_.empty());
  const auto upto = unpersisted_.back().n;
  unpersisted_.clear();
  step(PersistFailed{upto, why});
}

void SmallCluster::carry_out(Command command) {
  if (auto* sent = std::get_if<SendToAgent>(&command)) {
    if (auto* agent = on_link(sent->link)) deliver(*agent, std::move(sent->message));
  } else if (auto* admit = std::get_if<Admit>(&command)) {
    admitted.push_back(*admit);
    if (auto* agent = on_link(admit->link)) deliver(*agent, std::move(admit->registered));
  } else if (auto* renewal = std::get_if<RenewTicket>(&command)) {
    renewed.push_back(std::move(*renewal));
  } else if (auto* reply = std::get_if<ReplyToTool>(&command)) {
    replies.push_back(std::move(reply->reply));
  } else if (auto* batch = std::get_if<Persist>(&command)) {
    unpersisted_.push_back(std::move(*batch));
    if (persist_at_once) persist();
  } else if (auto* line = std::get_if<WriteLog>(&command)) {
    log.push_back(std::move(line->text));
  } else if (auto* probe = std::get_if<ProbeNode>(&command)) {
    probes.push_back(std::move(*probe));
  }
}

// ---- nodes -------------------------------------------------------------------------------------

NodeShape SmallCluster::shape(int cpus, int gpus) {
  NodeShape shape;
  shape.resources.push_back({"CPU", {InstanceShape{Quantity::whole(cpus), "", {}, 0}}});
  if (gpus > 0) {
    ResourceShape devices{"GPU", {}};
    for (int i = 0; i < gpus; ++i) {
      devices.instances.push_back({Quantity::whole(1), std::to_string(i), {"H100"}, 80LL << 30});
    }
    shape.resources.push_back(std::move(devices));
  }
  shape.task_executors = 4 * cpus;
  shape.actor_executors = 100;
  return shape;
}

TestAgent* SmallCluster::on_link(LinkId link) {
  for (auto& [number, agent] : agents_) {
    if (agent.link == link) return &agent;
  }
  return nullptr;
}

TestAgent& SmallCluster::node_joins(int number, NodeShape shape, Role role,
                                    const std::string& user_id) {
  TestAgent& agent = agents_[number];
  agent.user_id = user_id;
  agent.node = NodeId::of(static_cast<unsigned>(number));
  agent.incarnation = ProcessId::of(100 + static_cast<unsigned>(number));
  agent.role = role;
  agent.shape = std::move(shape);
  agent.address = "node" + std::to_string(number) + ":7000";
  agent.link = ++links_;
  register_agent(agent);
  return agent;
}

void SmallCluster::register_agent(TestAgent& agent) {
  RegisterRequest message;
  message.address = {agent.node, agent.incarnation, agent.address, "", ""};
  message.host = "host";
  message.role = agent.role;
  message.shape = agent.shape;
  message.facts = agent.facts;
  message.version = agent.protocol;
  raw(agent, std::move(message));
}

void SmallCluster::comes_back_as(TestAgent& agent, int incarnation) {
  agent.incarnation = ProcessId::of(static_cast<unsigned>(incarnation));
  agent.session.reset();
  agent.registered.reset();
  agent.refused.reset();
  agent.silent = false;
  agent.facts = {};
  agent.got.clear();
  agent.link = ++links_;
  register_agent(agent);
}

void SmallCluster::raw(TestAgent& agent, AgentToHead message) {
  step(ReceivedFromAgent{agent.link, Principal{agent.role, "key", {}}, std::move(message),
                         agent.user_id});
}

AgentFrame SmallCluster::frame_of(TestAgent& agent, Frame<AgentMessage> frame) const {
  constexpr std::uint64_t never = ~std::uint64_t{0};  // disables the comparison of digests
  return {agent.registered->head_epoch,
          agent.incarnation,
          agent.session->received(),
          agent.digest.value_or(0),
          std::move(frame),
          agent.digest ? agent.sent : never,
          {},
          agent.silent_peers};
}

void SmallCluster::from_agent(TestAgent& agent, AgentMessage message) {
  ASSERT_TRUE(agent.session) << "not registered";
  std::vector<Frame<AgentMessage>> frames;
  ++agent.sent;
  agent.session->send(now, std::move(message), frames);
  send(agent, std::move(frames));
}

void SmallCluster::send(TestAgent& agent, std::vector<Frame<AgentMessage>> frames) {
  if (agent.silent) return;
  for (auto& frame : frames) {
    ++agent.frames;
    if (agent.lossy && agent.frames % 2 == 0) continue;
    if (agent.lossy && agent.frames % 3 == 0) raw(agent, frame_of(agent, frame));
    raw(agent, frame_of(agent, std::move(frame)));
  }
}

void SmallCluster::deliver(TestAgent& agent, HeadToAgent message) {
  if (agent.silent) return;
  if (auto* registered = std::get_if<RegisterReply>(&message)) {
    const bool repeated =
        agent.registered && agent.registered->head_epoch == registered->head_epoch;
    if (registered->incarnation != agent.incarnation || repeated) return;
    agent.registered = std::move(*registered);
    agent.session.emplace();
    agent.sent = 0;
  } else if (auto* refused = std::get_if<RegisterRejected>(&message)) {
    agent.refused = std::move(*refused);
  } else {
    auto& frame = std::get<HeadFrame>(message);
    if (!agent.session || frame.incarnation != agent.incarnation) return;
    std::vector<Frame<AgentMessage>> frames;
    if (auto taken = agent.session->receive(now, std::move(frame.frame), frames)) {
      agent.got.push_back(std::move(*taken));
    }
    send(agent, std::move(frames));
    if (agent.tells_of_objects) tell_of_objects(agent);
  }
}

void SmallCluster::tell_of_objects(TestAgent& agent) {
  for (const auto& query : take<TransfersRequest>(agent))
    from_agent(agent, TransfersReply{query.request, agent.stored, 0, agent.knows_under_way});
  for (const auto& query : take<SpansRequest>(agent)) {
    SpansReply sent;
    sent.request = query.request;
    sent.transfers = agent.stored;
    from_agent(agent, sent);
  }
}

// ---- processes ---------------------------------------------------------------------------------

void SmallCluster::from_process(TestAgent& agent, ProcessId process, Role role, int job,
                                ProcessToHead message) {
  from_agent(agent,
             FromProcess{process, Principal{role, "user", JobId::of(static_cast<unsigned>(job))},
                         std::move(message)});
}

void SmallCluster::from_driver(TestAgent& agent, int job, ProcessToHead message) {
  from_process(agent, driver(job), Role::driver, job, std::move(message));
}

StartJob SmallCluster::job_of(int job) const {
  StartJob start;
  start.job = JobId::of(static_cast<unsigned>(job));
  start.driver = driver(job);
  start.name = "job " + std::to_string(job);
  start.program.id = ProgramId::of(static_cast<unsigned>(job));
  start.env = {{"FROM_JOB", std::to_string(job)}};
  return start;
}

void SmallCluster::driver_starts_job(TestAgent& agent, int job) {
  const Principal principal{Role::driver, "user", JobId::of(static_cast<unsigned>(job))};
  from_agent(agent, ProcessAttached{{driver(job), principal, 4711}});
  from_driver(agent, job, job_of(job));
}

void SmallCluster::driver_dies(TestAgent& agent, int job) {
  EndCause cause;
  cause.kind = EndKind::signalled;
  cause.signal = 9;
  from_agent(agent, ProcessEnded{driver(job), cause});
}

DemandClass SmallCluster::demand_class(int job, int number, ResourceSet resources) const {
  DemandClass demand;
  demand.id = ClassId::of(static_cast<unsigned>(number));
  demand.job = JobId::of(static_cast<unsigned>(job));
  demand.program = ProgramId::of(static_cast<unsigned>(job));
  demand.request.resources = std::move(resources);
  return demand;
}

void SmallCluster::wants(TestAgent& agent, const DemandClass& demand, int slots,
                         std::vector<SlotId> received) {
  Demand message;
  message.demand_class = demand;
  message.version = ++demand_version_;
  message.wanted_slots = slots;
  message.waiting_tasks = slots;
  message.example_name = "square";
  message.received = std::move(received);
  from_driver(agent, static_cast<int>(demand.job.bits().low), std::move(message));
}

// ---- slots -------------------------------------------------------------------------------------

StartSlot SmallCluster::expect_start_slot(TestAgent& agent) {
  auto starts = take<StartSlot>(agent);
  EXPECT_EQ(starts.size(), 1u);
  return starts.empty() ? StartSlot{} : starts.front();
}

void SmallCluster::expect_no_start_slot(TestAgent& agent) {
  EXPECT_TRUE(take<StartSlot>(agent).empty());
}

Endpoint SmallCluster::executor_ready(TestAgent& agent, const StartSlot& slot,
                                      std::uint32_t generation) {
  const Endpoint endpoint{ProcessId::of(5000 + ++executors_), agent.node, "ipc", "node:1", "key"};
  from_agent(agent, SlotStarted{slot.slot, generation, endpoint, {}});
  return endpoint;
}

void SmallCluster::executor_crashes(TestAgent& agent, SlotId slot, std::uint32_t generation) {
  EndCause cause;
  cause.kind = EndKind::signalled;
  cause.signal = 11;
  from_agent(agent, SlotGenerationEnded{slot, generation, ProcessId::of(5000 + executors_), cause});
}

void SmallCluster::slot_gone(TestAgent& agent, SlotId slot, EndCause cause) {
  from_agent(agent, SlotGone{slot, std::move(cause), false});
}

// ---- actors ------------------------------------------------------------------------------------

ActorSpec SmallCluster::actor(int job, int number) const {
  ActorSpec spec;
  spec.actor = ActorId::of(static_cast<unsigned>(number));
  spec.job = JobId::of(static_cast<unsigned>(job));
  spec.owner = driver(job);
  spec.class_name = "Counter";
  spec.demand = demand_class(job, 900 + number, {{"CPU", Quantity::whole(1)}});
  return spec;
}

void SmallCluster::creates(TestAgent& agent, ActorSpec spec) {
  const int job = static_cast<int>(spec.job.bits().low);
  from_driver(agent, job, CreateActor{std::move(spec), false});
}

StartSlot SmallCluster::actor_comes_alive(TestAgent& agent) {
  const StartSlot start = expect_start_slot(agent);
  executor_ready(agent, start, start.first_generation);
  from_agent(agent, ActorConstructed{start.actor.actor, start.slot, start.first_generation, {}});
  return start;
}

void SmallCluster::actor_executor_dies(TestAgent& agent, const StartSlot& slot, EndCause cause) {
  from_agent(agent, SlotGenerationEnded{slot.slot, slot.first_generation,
                                        ProcessId::of(5000 + executors_), cause});
  from_agent(agent, SlotGone{slot.slot, cause, false});
}

const ActorView& SmallCluster::state_of(ActorId id) {
  last_view_ = view();
  for (const auto& each : last_view_.actors) {
    if (each.actor == id) return each;
  }
  ADD_FAILURE() << "no actor " << id.hex();
  static const ActorView none;
  return none;
}

// ---- tools -------------------------------------------------------------------------------------

ToolReply SmallCluster::tool(const std::string& verb, const std::string& kind,
                             const std::string& argument, Role role) {
  ToolRequest request;
  request.request = 1;
  request.verb = verb;
  request.kind = kind;
  request.argument = argument;
  replies.clear();
  step(ReceivedFromTool{99, Principal{role, "tool", {}}, request});
  return replies.empty() ? ToolReply{} : replies.front();
}

}  // namespace mobula::internal::head
