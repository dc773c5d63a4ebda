// The head and its agents.
#include "sim/fleet/fleet_head.h"

#include <algorithm>

#include "protocol/codec/messages.h"

namespace mobula::internal::sim {

FleetHead::FleetHead(FleetHeadShell& shell, Random random, FleetHeadOptions options)
    : shell_(shell), random_(std::move(random)), options_(std::move(options)) {
  start();
  add_agent(home(), internal::Role::driver_agent, {});
}

// ---- the head -----------------------------------------------------------------------------------

void FleetHead::start() {
  ++life_;
  head::HeadOptions options;
  options.settings.heartbeat = options_.heartbeat;
  options.settings.suspect_timeout = 3 * options_.heartbeat;
  options.settings.dead_timeout = 8 * options_.heartbeat;
  core_.emplace(options);
  head::Started started;
  for (const auto& [key, value] : disk_) started.rows.push_back({key.first, key.second, value});
  started.epoch_id = Hash128{0x464c4545, life_};
  step(std::move(started));
  for (auto& [node, agent] : agents_) register_agent(agent);
}

void FleetHead::crash() {
  ++life_;
  core_.reset();
  links_.clear();
  replies_.clear();
  admitted_ = false;
  for (auto& [node, agent] : agents_) {
    agent.link = 0;
    agent.session.reset();
  }
}

void FleetHead::step(head::Event event) {
  if (!core_) return;
  std::vector<head::Command> commands;
  core_->step(shell_.time(), std::move(event), commands);
  for (auto& command : commands) carry_out(command);
  tick_later();
}

void FleetHead::tick_later() {
  const auto next = core_->next_deadline();
  if (!next) return;
  const Time when = std::max(*next, shell_.time());
  if (when == tick_at_) return;
  tick_at_ = when;
  shell_.call_after(when - shell_.time(), [this, life = life_, when] {
    if (life != life_ || tick_at_ != when) return;
    tick_at_ = Time();
    step(head::Tick{});
  });
}

void FleetHead::carry_out(head::Command& command) {
  if (auto* message = std::get_if<head::SendToAgent>(&command)) {
    send_down(message->link, message->message);
  } else if (auto* admit = std::get_if<head::Admit>(&command)) {
    send_down(admit->link, std::move(admit->registered));
  } else if (auto* batch = std::get_if<head::Persist>(&command)) {
    persist(std::move(*batch));
  } else if (auto* probe = std::get_if<head::ProbeNode>(&command)) {
    // The machine of an agent that died refuses connections.
    shell_.call_after(latency(), [this, life = life_, incarnation = probe->incarnation] {
      if (life != life_) return;
      const bool lives = std::ranges::any_of(
          agents_, [&](const auto& each) { return each.second.incarnation == incarnation; });
      step(head::NodeProbed{incarnation, !lives});
    });
  } else if (const auto* reply = std::get_if<head::ReplyToTool>(&command)) {
    const auto at = replies_.find(reply->reply.request);
    if (at == replies_.end()) return;
    shell_.call_after(latency(),
                      [then = std::move(at->second), answer = reply->reply] { then(answer); });
    replies_.erase(at);
  } else if (auto* close = std::get_if<head::CloseLink>(&command)) {
    links_.erase(close->link);
  }
}

void FleetHead::persist(head::Persist batch) {
  persist_at_ = std::max(persist_at_, shell_.time()) + random_.between(Duration(200us), 10ms);
  shell_.call_after(persist_at_ - shell_.time(), [this, life = life_, batch = std::move(batch)] {
    if (life != life_) return;
    for (const auto& change : batch.changes) {
      const std::pair key{change.table, change.key};
      if (change.erase) {
        disk_.erase(key);
      } else {
        disk_[key] = change.value;
      }
    }
    step(head::Persisted{batch.n});
  });
}

void FleetHead::send_down(head::LinkId link, const HeadToAgent& message) {
  const auto at = links_.find(link);
  const auto to = at == links_.end() ? agents_.end() : agents_.find(at->second);
  if (to == agents_.end() || to->second.link != link) return;
  Agent& agent = to->second;
  agent.down_at = std::max(agent.down_at, shell_.time() + latency());
  shell_.call_after(agent.down_at - shell_.time(),
                    [this, link, node = agent.node, bytes = encode(message)] {
                      const auto receiver = agents_.find(node);
                      if (receiver == agents_.end() || receiver->second.link != link) return;
                      auto decoded = decode<HeadToAgent>(bytes);
                      if (!decoded) return shell_.violation("codec", decoded.error().text);
                      receive(receiver->second, std::move(*decoded));
                    });
}

void FleetHead::query(const std::string& verb, const std::string& kind, const std::string& argument,
                      std::function<void(const ToolReply&)> reply) {
  if (!core_) return;
  ToolRequest request;
  request.request = ++last_request_;
  request.verb = verb;
  request.kind = kind;
  request.argument = argument;
  replies_[request.request] = std::move(reply);
  shell_.call_after(latency(), [this, life = life_, request = std::move(request)] {
    if (life != life_) return;
    step(head::ReceivedFromTool{0, Principal{internal::Role::operator_, "tool", {}}, request});
  });
}

// ---- agents -------------------------------------------------------------------------------------

Duration FleetHead::latency() { return random_.between(Duration(200us), Duration(20ms)); }

FleetHead::Agent* FleetHead::agent_of(NodeId node, ProcessId incarnation) {
  const auto at = agents_.find(node);
  return at == agents_.end() || at->second.incarnation != incarnation ? nullptr : &at->second;
}

void FleetHead::agent_starts(NodeId node, NodeShape shape) {
  add_agent(node, internal::Role::agent, std::move(shape));
}

void FleetHead::add_agent(NodeId node, internal::Role role, NodeShape shape) {
  Agent& agent = agents_[node];
  agent.node = node;
  agent.incarnation = ProcessId::of(++last_process_);
  agent.role = role;
  agent.shape = std::move(shape);
  register_agent(agent);
  shell_.call_after(random_.between(Duration(1ms), options_.heartbeat),
                    [this, node, incarnation = agent.incarnation] { beat(node, incarnation); });
}

// Sends a heartbeat, or registers again.
void FleetHead::beat(NodeId node, ProcessId incarnation) {
  Agent* agent = agent_of(node, incarnation);
  if (agent == nullptr) return;
  if (agent->session) {
    send_frames(*agent, {agent->session->acknowledgement()});
  } else {
    register_agent(*agent);
  }
  const bool waits = !agent->session;
  shell_.call_after(waits ? std::min<Duration>(1s, options_.heartbeat) : options_.heartbeat,
                    [this, node, incarnation] { beat(node, incarnation); });
}

void FleetHead::register_agent(Agent& agent) {
  if (!core_) return;
  if (agent.link == 0) {
    agent.link = ++last_link_;
    links_[agent.link] = agent.node;
  }
  if (agent.role == internal::Role::agent) agent.unsent.clear();  // the facts contain them
  RegisterRequest message;
  const auto name = "node" + agent.node.brief();
  message.address = {agent.node, agent.incarnation, name + ":1", name + ":2", "key", true};
  message.host = name;
  message.role = agent.role;
  message.shape = agent.shape;
  message.delegated_key = "delegated";
  message.facts = facts_of(agent);
  message.head_epoch = agent.epoch;
  send_up(agent, std::move(message));
}

Facts FleetHead::facts_of(const Agent& agent) const {
  Facts facts;
  for (const auto& [id, slot] : agent.slots) facts.slots.push_back(slot);
  if (agent.role == internal::Role::driver_agent) {
    facts.processes.push_back({driver(), driver_principal(), 4711});
  }
  return facts;
}

void FleetHead::send_up(Agent& agent, const AgentToHead& message) {
  agent.up_at = std::max(agent.up_at, shell_.time() + latency());
  shell_.call_after(
      agent.up_at - shell_.time(), [this, life = life_, link = agent.link, role = agent.role,
                                    name = agent.node.brief(), bytes = encode(message)] {
        if (life != life_ || !links_.contains(link)) return;
        auto decoded = decode<AgentToHead>(bytes);
        if (!decoded) return shell_.violation("codec", decoded.error().text);
        step(head::ReceivedFromAgent{link, Principal{role, name, {}}, std::move(*decoded), {}});
      });
}

void FleetHead::send(Agent& agent, AgentMessage message) {
  if (!agent.session) return agent.unsent.push_back(std::move(message));
  std::vector<Frame<AgentMessage>> frames;
  agent.session->send(shell_.time(), std::move(message), frames);
  send_frames(agent, std::move(frames));
}

void FleetHead::send_frames(Agent& agent, std::vector<Frame<AgentMessage>> frames) {
  constexpr std::uint64_t never = ~std::uint64_t{0};  // the head compares no digests
  for (auto& frame : frames) {
    send_up(agent, AgentFrame{agent.epoch, agent.incarnation, agent.session->received(), 0,
                              std::move(frame), never});
  }
  tick_agent_later(agent);
}

void FleetHead::tick_agent_later(Agent& agent) {
  const auto next = agent.session ? agent.session->next_deadline() : std::nullopt;
  if (!next || (agent.tick_at && *agent.tick_at <= *next)) return;
  agent.tick_at = *next;
  shell_.call_after(std::max(*next - shell_.time(), Duration(0)),
                    [this, node = agent.node, incarnation = agent.incarnation, when = *next] {
                      Agent* ticked = agent_of(node, incarnation);
                      if (ticked == nullptr || ticked->tick_at != when) return;
                      ticked->tick_at.reset();
                      if (!ticked->session) return;
                      std::vector<Frame<AgentMessage>> frames;
                      ticked->session->tick(shell_.time(), frames);
                      send_frames(*ticked, std::move(frames));
                    });
}

void FleetHead::agent_dies(NodeId node) {
  const auto at = agents_.find(node);
  if (at == agents_.end()) return;
  const auto link = at->second.link;
  end_agent(node);
  shell_.call_after(latency(), [this, life = life_, link] {
    if (life == life_ && links_.erase(link) > 0) step(head::AgentLinkLost{link});
  });
}

void FleetHead::machine_gone(NodeId node) { end_agent(node); }

void FleetHead::end_agent(NodeId node) {
  const auto at = agents_.find(node);
  if (at == agents_.end()) return;
  for (const auto& [slot, fact] : std::exchange(at->second.slots, {})) {
    shell_.executor_ended(slot, node);
  }
  agents_.erase(node);
}

void FleetHead::receive(Agent& agent, HeadToAgent message) {
  std::visit([&](auto& each) { on(agent, std::move(each)); }, message);
}

void FleetHead::on(Agent& agent, RegisterReply message) {
  if (message.incarnation != agent.incarnation) return;
  if (agent.session && agent.epoch == message.head_epoch) return;
  agent.epoch = message.head_epoch;
  agent.session.emplace();
  for (auto& each : std::exchange(agent.unsent, {})) send(agent, std::move(each));
  for (const SlotId slot : message.unknown_slots) stop_slot(agent, slot);
  if (agent.role == internal::Role::driver_agent) start_job();
}

void FleetHead::on(Agent& agent, const RegisterRejected& message) {
  if (message.incarnation != agent.incarnation) return;
  if (message.code == RefusalCode::unknown) {
    agent.session.reset();
    return;  // the next beat registers
  }
  if (message.code != RefusalCode::fenced || agent.role == internal::Role::driver_agent) {
    return shell_.violation("refused", message.why);
  }
  // All work ends, and another incarnation registers.
  const auto node = agent.node;
  auto shape = agent.shape;
  end_agent(node);
  agent_starts(node, std::move(shape));
}

void FleetHead::on(Agent& agent, HeadFrame message) {
  if (!agent.session || message.incarnation != agent.incarnation) return;
  const auto node = agent.node;
  const auto incarnation = agent.incarnation;
  std::vector<Frame<AgentMessage>> frames;
  const auto taken = agent.session->receive(shell_.time(), std::move(message.frame), frames);
  send_frames(agent, std::move(frames));
  if (!taken) return;
  take(agent, *taken);
  if (Agent* still = agent_of(node, incarnation)) tick_agent_later(*still);
}

void FleetHead::take(Agent& agent, const HeadMessage& message) {
  if (const auto* start = std::get_if<StartSlot>(&message)) {
    start_slot(agent, *start);
  } else if (const auto* stop = std::get_if<StopSlot>(&message)) {
    stop_slot(agent, stop->slot);
  } else if (const auto* relayed = std::get_if<ToProcess>(&message)) {
    driver_receives(relayed->message);
  } else if (const auto* changed = std::get_if<PeersChanged>(&message)) {
    if (agent.role != internal::Role::driver_agent) return;
    for (const NodeId node : changed->drained) shell_.drain_changed(node, true);
    for (const NodeId node : changed->undrained) shell_.drain_changed(node, false);
  } else if (std::holds_alternative<FactsRequest>(message)) {
    send(agent, FactsReply{facts_of(agent), agent.session->received()});
  } else if (const auto* objects = std::get_if<ObjectsRequest>(&message)) {
    ObjectsReply reply;
    reply.request = objects->request;
    if (agent.role == internal::Role::agent)
      reply.store.leaving_objects = shell_.leaving_objects(agent.node);
    send(agent, std::move(reply));
  }
}

// ---- slots --------------------------------------------------------------------------------------

void FleetHead::start_slot(Agent& agent, const StartSlot& message) {
  SlotFact& fact = agent.slots[message.slot];
  fact.slot = message.slot;
  fact.demand_class = message.demand_class;
  fact.allocation = message.allocation;
  fact.lessee = message.lessee;
  shell_.call_after(
      random_.between(Duration(20ms), Duration(500ms)),
      [this, node = agent.node, incarnation = agent.incarnation, slot = message.slot] {
        Agent* starter = agent_of(node, incarnation);
        if (starter == nullptr) return;
        const auto at = starter->slots.find(slot);
        if (at == starter->slots.end() || at->second.stopping) return;
        at->second.ready = true;
        at->second.endpoint = {ProcessId::of(++last_process_), node, "ipc", "node:3", "key"};
        send(*starter, SlotStarted{slot, 0, at->second.endpoint, {}});
      });
}

void FleetHead::stop_slot(Agent& agent, SlotId slot) {
  if (const auto at = agent.slots.find(slot); at != agent.slots.end()) at->second.stopping = true;
  shell_.call_after(random_.between(Duration(1ms), Duration(100ms)),
                    [this, node = agent.node, incarnation = agent.incarnation, slot] {
                      if (Agent* stopper = agent_of(node, incarnation)) end_slot(*stopper, slot);
                    });
}

void FleetHead::end_slot(Agent& agent, SlotId slot) {
  if (agent.slots.erase(slot) > 0) shell_.executor_ended(slot, agent.node);
  EndCause cause;
  cause.kind = EndKind::retired;
  send(agent, SlotGone{slot, cause, false});
}

std::int64_t FleetHead::spare_executors() const {
  std::int64_t spare = 0;
  for (const auto& [node, agent] : agents_) {
    for (const auto& [slot, fact] : agent.slots) {
      const auto lease = leases_.find(slot);
      spare += lease == leases_.end() || !lease->second.busy ? 1 : 0;
    }
  }
  return spare;
}

}  // namespace mobula::internal::sim
