#include "worker/core/agents.h"
#include "protocol/messages/core_records.h"

namespace mobula::internal::worker {

Agent::Agent(Agents& world, NodeId node, std::uint64_t number, WorkerOptions options)
    : world_(world), core_(options) {
  address_.node = node;
  address_.incarnation = ProcessId::of(1000 + number);
  address_.control = "host:" + std::to_string(number);
}

void Agent::step(Event event) {
  if (!alive) return;
  recorded.emplace_back(world_.now, CoreRecords<WorkerCore>::recorded(event, scrubber));
  std::vector<Command> out;
  core_.step(world_.now, std::move(event), out);
  EXPECT_TRUE(core_.deadlines_are_exact());
  for (Command& command : out) {
    all.push_back(command);
    carry_out(std::move(command));
  }
}

ProcessId Agent::driver(LinkId link, JobId job) {
  AttachDriver attach;
  attach.process = ProcessId::of(address_.node.bits().low * 100'000 + link);
  attach.job = job;
  attach.pid = 7;
  step(ProcessConnected{link, "user", 7});
  say(link, attach);
  return attach.process;
}

void Agent::from_head(HeadMessage message) {
  std::vector<Frame<HeadMessage>> frames;
  head_->send(world_.now, std::move(message), frames);
  send_head_frames(std::move(frames));
}

void Agent::send_head_frames(std::vector<Frame<HeadMessage>> frames) {
  for (auto& frame : frames) {
    world_.post(*this,
                ReceivedFromHead{HeadFrame{world_.epoch, address_.incarnation, std::move(frame)}});
  }
}

void Agent::carry_out_head(AgentToHead message) {
  if (auto* registration = std::get_if<RegisterRequest>(&message)) {
    did_.push_back(SendToHead{*registration});
    if (!head_answers) return;
    head_.emplace();
    RegisterReply answer;
    answer.head_epoch = world_.epoch;
    answer.incarnation = address_.incarnation;
    answer.ticket = "ticket";
    answer.settings.cluster_name = "test";
    answer.protocol = world_.head_protocol;
    world_.post(*this, ReceivedFromHead{answer});
  } else if (auto* frame = std::get_if<AgentFrame>(&message)) {
    if (!head_answers || frame->head_epoch != world_.epoch) return;
    if (!frame->frame.message) heartbeat = *frame;
    std::vector<Frame<HeadMessage>> frames;
    auto said = head_->receive(world_.now, std::move(frame->frame), frames);
    if (said) {
      sent_.push_back(std::move(*said));
      frames.push_back(head_->acknowledgement());
    }
    send_head_frames(std::move(frames));
  } else {
    did_.push_back(SendToHead{message});
  }
}

void Agent::carry_out(Command command) {
  if (auto* head = std::get_if<SendToHead>(&command))
    return carry_out_head(std::move(head->message));
  if (auto* peer = std::get_if<SendToPeer>(&command)) {
    Agent* to = world_.by_incarnation(peer->to.incarnation);
    if (to != nullptr && world_.reachable(*this, peer->to.incarnation))
      world_.post(*to, ReceivedFromPeer{std::move(peer->frame)});
    return;
  }
  if (auto* process = std::get_if<SendToProcess>(&command)) {
    said_[process->link].push_back(std::move(process->message));
    return;
  }
  if (auto* offer = std::get_if<OfferObject>(&command)) {
    world_.post(
        *this, BulkOffered{offer->offer, static_cast<std::int64_t>(offer->size_bytes), "token",
                           offer->plain || world_.plain_against_orders ? "" : "key", std::nullopt});
  } else if (auto* file = std::get_if<OfferFile>(&command)) {
    world_.post(*this, BulkOffered{file->offer, 10, "token", "key", std::nullopt});
  } else if (auto* fetch = std::get_if<FetchBulk>(&command)) {
    world_.moving.push_back({this, fetch->chunk, fetch->from.incarnation});
  } else if (auto* whole = std::get_if<FinishFilePull>(&command)) {
    world_.post(*this, PullFinished{whole->pull, std::nullopt});
  } else if (auto* withdraw = std::get_if<WithdrawBulk>(&command)) {
    if (serves_slowly) {
      withdrawn_.push_back(withdraw->offer);
    } else {
      world_.post(*this, BulkServed{withdraw->offer});
    }
  } else if (auto* spans = std::get_if<SpansReply>(&command)) {
    spans->wall_us = wall_us;
    world_.post(*this, *spans);
  } else if (auto* cut = std::get_if<CancelBulk>(&command)) {
    world_.cut_chunk(*this, cut->chunk);
  } else if (auto* spill = std::get_if<StartSpill>(&command)) {
    if (disk_waits) {
      unwritten_.push_back(*spill);
    } else {
      write(*spill);
    }
  } else if (auto* restore = std::get_if<StartRestore>(&command)) {
    EXPECT_TRUE(files.contains(restore->file));
    RestoreFinished finished{restore->restore, std::nullopt};
    if (damaged.contains(restore->object)) {
      finished.failure = failure(ErrorCode::corrupt, "read spilled object: the bytes are damaged");
    }
    world_.post(*this, finished);
  } else if (auto* drop = std::get_if<DropSpillFile>(&command)) {
    EXPECT_EQ(files.erase(drop->file), 1u);
  }
  did_.push_back(std::move(command));
}

void Agent::write(const StartSpill& spill) {
  SpillFinished finished;
  finished.file = spill.file;
  finished.failure = disk_fails;
  std::uint64_t offset = 0;
  for (const SpillItem& item : spill.items) {
    finished.items.push_back({offset, Hash128{item.object.bits().low, offset}});
    offset += item.size_bytes;
  }
  if (disk_fails) {
    finished.items.clear();
  } else {
    files.insert(spill.file);
  }
  world_.post(*this, finished);
}

void Agent::disk_goes_on() {
  disk_waits = false;
  for (const StartSpill& spill : std::exchange(unwritten_, {})) write(spill);
  world_.settle();
}

void Agent::end_serving() {
  serves_slowly = false;
  for (const std::uint64_t offer : std::exchange(withdrawn_, {}))
    world_.post(*this, BulkServed{offer});
  world_.settle();
}

StartExecutor Agent::run_executor(LinkId link, std::int64_t pid) {
  const auto starts = did<StartExecutor>();
  EXPECT_EQ(starts.size(), 1u);
  if (starts.empty()) return {};
  const StartExecutor& start = starts.front();
  step(ExecutorStarted{start.slot, start.generation, pid, link});
  ExecutorReady ready;
  ready.process = start.assign.process;
  ready.endpoint.process = start.assign.process;
  say(link, ready);
  world_.settle();
  return start;
}

void Agent::executor_exits(const StartExecutor& started, EndCause cause) {
  step(ExecutorExited{started.slot, started.generation, std::move(cause)});
  world_.settle();
}

// ---- simulation ---------------------------------------------------------------------------------

WorkerOptions Agents::small() {
  WorkerOptions options;
  options.store_bytes = 1 << 20;
  options.first_slab_bytes = 64 << 10;
  options.max_slab_bytes = 256 << 10;
  options.idle_store_bytes = 64 << 10;
  return options;
}

Agent& Agents::add() { return start(NodeId::of(agents_.size() + 1)); }

Agent& Agents::add_after(const Agent& dead) { return start(dead.node()); }

Agent& Agents::start(NodeId node) {
  agents_.push_back(std::make_unique<Agent>(*this, node, agents_.size() + 1, options_));
  Agent& agent = *agents_.back();
  Started started;
  agent.address_.takes_readers = true;
  started.address = agent.address();
  started.host = "host";
  agent.step(started);
  settle();
  for (const auto& other : agents_) {
    if (other.get() == &agent || !other->alive) continue;
    PeersChanged news;
    news.present = {agent.address()};
    other->from_head(news);
    PeersChanged rest;
    rest.present = {other->address()};
    agent.from_head(rest);
  }
  settle();
  agent.forget();
  return agent;
}

void Agents::settle() {
  for (int rounds = 0; !events_.empty() || (bytes_flow && !moving.empty()); ++rounds) {
    ASSERT_LT(rounds, 100'000) << "the agents talk without end";
    if (events_.empty()) {
      finish_pulls();
      continue;
    }
    auto [agent, event] = std::move(events_.front());
    events_.pop_front();
    agent->step(std::move(event));
  }
}

void Agents::finish_pulls(std::optional<Failure> failure) {
  for (const Moving& each : std::exchange(moving, {})) {
    std::optional<Failure> result = failure;
    if (by_incarnation(each.source) == nullptr || !reachable(*each.reader, each.source)) {
      result = Failure{ErrorCode::unavailable, "connection refused"};
    }
    post(*each.reader, ChunkFetched{each.chunk, result});
  }
}

void Agents::cut_between(const Agent& one, const Agent& two) {
  cut_.insert({one.address().incarnation, two.address().incarnation});
  cut_.insert({two.address().incarnation, one.address().incarnation});
}

bool Agents::reachable(const Agent& from, ProcessId to) const {
  return !cut_.contains({from.address().incarnation, to});
}

void Agents::cut_chunk(Agent& reader, std::uint64_t chunk) {
  std::erase_if(moving, [&](const Moving& each) {
    if (each.reader != &reader || each.chunk != chunk) return false;
    post(reader, ChunkFetched{chunk, failure(ErrorCode::cancelled, "cut")});
    return true;
  });
}

void Agents::advance(Duration span) {
  const Time end = now + span;
  settle();
  for (int rounds = 0;; ++rounds) {
    ASSERT_LT(rounds, 100'000) << "deadlines without end";
    std::optional<Time> first;
    for (const auto& agent : agents_) {
      if (!agent->alive) continue;
      const auto due = agent->core().next_deadline();
      if (due && (!first || *due < *first)) first = due;
    }
    if (!first || *first > end) break;
    now = std::max(now, *first);
    for (const auto& agent : agents_) {
      const auto due = agent->alive ? agent->core().next_deadline() : std::nullopt;
      if (due && *due <= now) agent->step(Tick{});
    }
    settle();
  }
  now = end;
}

void Agents::die(Agent& agent) {
  agent.alive = false;
  std::erase_if(events_, [&](const auto& each) { return each.first == &agent; });
  std::erase_if(moving, [&](const Moving& each) { return each.reader == &agent; });
}

void Agents::announce_death(const Agent& agent) {
  for (const auto& other : agents_) {
    if (!other->alive) continue;
    PeersChanged news;
    news.dead_agents = {agent.address().incarnation};
    other->from_head(news);
  }
  settle();
}

Agent* Agents::by_incarnation(ProcessId incarnation) {
  for (const auto& agent : agents_) {
    if (agent->alive && agent->address().incarnation == incarnation) return agent.get();
  }
  return nullptr;
}

// ---- messages -----------------------------------------------------------------------------------

StartSlot slot_of(std::uint64_t number, JobId job, ProcessId lessee) {
  StartSlot start;
  start.slot = SlotId::of(number);
  start.demand_class.id = ClassId::of(1);
  start.demand_class.job = job;
  start.lessee = lessee;
  start.program.id = ProgramId::of(1);
  return start;
}

StartSlot actor_slot(std::uint64_t number, JobId job) {
  StartSlot start = slot_of(number, job, ProcessId{});
  start.actor.actor = ActorId::of(number);
  start.actor.job = job;
  start.actor.class_name = "Counter";
  return start;
}

RefRecord ref_of(ObjectId object, const Agent& home, ProcessId owner) {
  RefRecord ref;
  ref.object = object;
  ref.home = home.node();
  ref.owner = owner;
  return ref;
}

void store(Agents& world, Agent& agent, LinkId link, ObjectId object, std::int64_t size,
           ProcessId owner, NodeId home, RefRecords contained) {
  agent.say(link, ReserveObjectRequest{object, size});
  const auto reserved = agent.received<ReserveObjectReply>(link);
  ASSERT_EQ(reserved.size(), 1u);
  ASSERT_FALSE(reserved[0].failure) << reserved[0].failure->text;
  agent.say(link, SealObjectRequest{object, owner, home, false, std::move(contained)});
  world.settle();
  ASSERT_EQ(agent.received<SealObjectReply>(link).size(), 1u);
}

void expect_empty(Agents& world, std::size_t agents, std::size_t kept) {
  for (std::size_t i = 0; i < agents; ++i) {
    Agent& agent = world.at(i);
    if (!agent.alive) continue;
    Census census = agent.core().census();
    for (const auto& [object, row] : agent.core().objects().objects()) {
      std::string holders;
      for (const ProcessId process : row.processes) holders += " process " + process.brief();
      for (const NodeId node : row.nodes) holders += " node " + node.brief();
      ADD_FAILURE() << "object " << object.brief() << " is " << to_string(row.state) << ", held by"
                    << holders;
    }
    EXPECT_EQ(census.objects, 0u) << "node " << i;
    EXPECT_EQ(census.entries, 0u) << "node " << i;
    EXPECT_EQ(census.pins, 0u) << "node " << i;
    EXPECT_EQ(census.pulls, 0u) << "node " << i;
    EXPECT_EQ(census.offers, 0u) << "node " << i;
    EXPECT_EQ(census.slots, 0u) << "node " << i;
    EXPECT_EQ(census.programs, 0u) << "node " << i;
    EXPECT_LE(census.links, kept) << "node " << i;
    EXPECT_LE(census.processes, kept) << "node " << i;
    EXPECT_EQ(agent.core().objects().space().used_bytes(), 0u) << "node " << i;
    EXPECT_EQ(agent.core().objects().spilled_bytes(), 0u) << "node " << i;
    EXPECT_EQ(census.spill_files, 0u) << "node " << i;
    EXPECT_EQ(census.moving, 0u) << "node " << i;
    EXPECT_TRUE(agent.files.empty()) << "node " << i;
  }
}

}  // namespace mobula::internal::worker
