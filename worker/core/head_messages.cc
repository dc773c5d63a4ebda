// Messages of the head, and reactions to the start and the end of its sessions.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "worker/core/parts.h"

namespace mobula::internal::worker {

void WorkerCore::Parts::on(ReceivedFromHead& event) {
  HeadSession::Received received = head.on(std::move(event.message));
  if (received.facts_due) head.tell(FactsReply{facts(), head.applied()});
  if (received.admitted) {
    admitted(*received.admitted);
  } else if (received.facts_due) {
    restate();
  }
  if (received.refused) return refused(*received.refused);
  if (received.renewed) {
    outbox.emit(UseIdentity{received.renewed->ticket, head.signing_key(), {}});
    return trust(received.renewed->ticket, {});
  }
  if (received.message) std::visit([this](auto& each) { on(each); }, *received.message);
  head.carried_out();
}

void WorkerCore::Parts::state_facts() {
  head.tell(FactsReply{facts(), head.applied()});
  restate();
}

// State that the facts do not contain.
void WorkerCore::Parts::restate() {
  slots.restate();
  objects->restate();
}

void WorkerCore::Parts::admitted(RegisterReply& registered) {
  outbox.emit(UseIdentity{registered.ticket, registered.head_signing_key, registered.warnings});
  trust(registered.ticket, registered.revoked_keys);
  transfers.trust_fabric(registered.settings.trusted_fabric);
  objects->forget_drains();
  if (drain_until && head.node().role == Role::agent)
    objects->drains(head.node().address.node, true);
  PeersChanged news;
  news.present = std::move(registered.peers);
  on(news);
  slots.end_unknown(registered.unknown_slots);
  restate();
  // An earlier head may not have reported these ends to all nodes.
  for (const ProcessEnded& ended : processes.ended_lately()) head.tell(ended);
  if (drain_until) head.tell(AgentDraining{std::max(*drain_until - outbox.now(), Duration(1))});
  if (reported_epoch == registered.head_epoch) {
    // The same head lost the session, and with it messages of processes.
    for (auto& [link, row] : processes.rows()) row.restates = true;
  }
  report_head_status();
  for (auto& [link, message] : std::exchange(waiting_drivers, {})) {
    if (ProcessRow* row = processes.by_link(link)) attach(*row, message);
  }
}

void WorkerCore::Parts::trust(const std::string& own_ticket, const std::vector<std::string>& keys) {
  std::vector<std::string> further;
  std::ranges::copy_if(keys, std::back_inserter(further),
                       [&](const std::string& each) { return !revoked_keys.contains(each); });
  revoked_keys.add(further);
  if (!further.empty()) outbox.emit(CutKeys{further});
  if (!own_ticket.empty() || !further.empty())
    processes.broadcast(TrustChanged{own_ticket, std::move(further)});
}

void WorkerCore::Parts::refused(const RegisterRejected& refused) {
  const std::string why = fmt::format("the head refused this agent: {}", refused.why);
  slots.kill_all(why);
  for (const auto& [link, row] : processes.rows()) outbox.emit(CloseProcess{link});
  if (refused.code == RefusalCode::fenced) {
    outbox.emit(Fence{why});
  } else {
    outbox.emit(Exit{refused.code == RefusalCode::permission ? 4 : 1, why});
  }
  phase = Phase::ended;
}

void WorkerCore::Parts::on(ToProcess& message) {
  processes.send(message.process, FromHead{std::move(message.message)});
}

void WorkerCore::Parts::on(JobEnded& message) {
  std::set<ProcessId> kept;
  for (const SlotId slot : message.kept_slots) {
    const SlotRow* row = slots.find(slot);
    if (row != nullptr && !row->process.empty()) kept.insert(row->process);
  }
  slots.job_ended(message.job, message.kept_slots);
  objects->job_ended(message.job, kept, message.lingers);
  programs.job_ended(message.job, message.lingers);
  if (!message.lingers) outbox.emit(ForgetJob{message.job});
}

// ---- output of executors ------------------------------------------------------------------------

void WorkerCore::Parts::notify_drivers(JobId job, const AgentToProcess& message) {
  for (const auto& [link, row] : processes.rows()) {
    const bool driver = row.principal.role == Role::driver && !row.process.empty();
    if (driver && row.principal.job == job) outbox.emit(SendToProcess{link, message, SlabId{}});
  }
}

void WorkerCore::Parts::on(JobOutputLines& message) {
  notify_drivers(message.job, LogLines{std::move(message.source), std::move(message.lines)});
}

void WorkerCore::Parts::on(JobFinished& message) { notify_drivers(message.job, message); }

// Output never blocks: lines that a slow head does not take are dropped and counted.
void WorkerCore::Parts::on(ExecutorPrinted& event) {
  const SlotRow* slot = slots.find(event.slot);
  if (slot == nullptr || !slot->start.show_output) return;
  const JobId job = slot->start.demand_class.job;
  const std::string& actor = slot->start.actor.class_name;
  // Programs of the previous release write no labels; they report the calls that they run.
  const std::string& running = slot->running.empty() || !actor.empty() ? actor : slot->running;
  const std::string& label = event.label.empty() ? running : event.label;
  std::string source = fmt::format("{} pid={}", label.empty() ? "executor" : label, slot->pid);
  if (processes.has_driver(job)) {
    return notify_drivers(job, LogLines{std::move(source), std::move(event.lines)});
  }
  if (!head.takes_output()) {
    output_dropped += event.lines.size();
    return;
  }
  source += fmt::format(" node={}", head.node().address.node.brief());
  if (output_dropped > 0) {
    event.lines.insert(event.lines.begin(),
                       fmt::format("... {} lines of executors of this node were left out here",
                                   std::exchange(output_dropped, 0)));
  }
  head.tell(JobOutputLines{job, std::move(source), std::move(event.lines)});
}

void WorkerCore::Parts::on(PeersChanged& message) {
  PeersDead dead;
  dead.processes = std::move(message.dead_processes);
  // Executors end with their agent. A head that has restarted since then names only the agent.
  const auto lose = [&](ProcessId incarnation) {
    dead.processes.push_back(incarnation);
    const auto node = peers.dead(incarnation);
    if (!node) return;
    node_died(*node);
    dead.nodes.push_back(*node);
  };
  for (const ProcessId incarnation : message.dead_agents) lose(incarnation);
  for (const AgentAddress& address : message.present) {
    if (peers.replaces(address)) lose(peers.address(address.node).incarnation);
    peers.present(address);
  }
  for (const NodeId node : message.drained) {
    if (node == head.node().address.node) others_notified_by.reset();
    objects->drains(node, true);
  }
  for (const NodeId node : message.undrained) objects->drains(node, false);
  if (!dead.processes.empty() || !dead.nodes.empty()) processes.broadcast(dead);
}

void WorkerCore::Parts::node_died(NodeId node) {
  transfers.node_dead(node);
  objects->node_dead(node, fmt::format("node {}, died", node.brief()));
}

void WorkerCore::Parts::on(ObjectsRequest& message) {
  ObjectsReply listed = message.only.empty() ? objects->list(message.limit, message.largest_first)
                                             : objects->list_these(message.only);
  listed.request = message.request;
  for (ObjectFact& fact : listed.objects) {
    for (HolderFact& holder : fact.holders) {
      const ProcessRow* row = processes.find(holder.process);
      const SlotRow* slot = row == nullptr ? nullptr : slots.find(row->slot);
      if (slot == nullptr) continue;
      holder.actor_class = slot->start.actor.class_name;
      holder.task = slot->running;
    }
  }
  head.tell(std::move(listed));
}

void WorkerCore::Parts::on(UsageReply& event) {
  if (objects) event.store = objects->store();
  head.tell(std::move(event));
}

// ---- messages to processes ----------------------------------------------------------------------

void WorkerCore::Parts::report_head_status() {
  const bool connected = head.reachable();
  const std::uint64_t epoch = head.epoch();
  if (connected != reported_connected || (connected && epoch != reported_epoch)) {
    reported_connected = connected;
    if (connected) reported_epoch = epoch;
    processes.broadcast(HeadStatus{connected, reported_epoch, head.protocol(), true});
  }
  if (!connected || !head.takes_relays()) return;
  for (auto& [link, row] : processes.rows()) {
    if (!row.restates || row.process.empty()) continue;
    row.restates = false;
    // No head has epoch 0: the process takes it for a new head and restates.
    outbox.emit(SendToProcess{link, HeadStatus{true, 0, head.protocol(), true}, SlabId{}});
    outbox.emit(SendToProcess{link, HeadStatus{true, epoch, head.protocol(), true}, SlabId{}});
  }
}

// Sends the first epoch to a process; only a later epoch makes it restate.
void WorkerCore::Parts::greet(ProcessId process) {
  processes.send(process, HeadStatus{true, reported_epoch, head.protocol(), true});
  if (!reported_connected)
    processes.send(process, HeadStatus{false, reported_epoch, head.protocol(), true});
  if (!revoked_keys.empty()) processes.send(process, TrustChanged{{}, revoked_keys.list()});
}

}  // namespace mobula::internal::worker
