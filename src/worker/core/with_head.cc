// What the head says, and what its coming and going mean to this node.
#include <fmt/format.h>

#include "worker/core/parts.h"

namespace mobula::internal::worker {

void WorkerCore::Parts::on(HeadSaid& event) {
  HeadSession::Heard heard = head.heard(std::move(event.message));
  if (heard.admitted) admitted(*heard.admitted);
  if (heard.refused) refused(*heard.refused);
  if (heard.message) std::visit([this](auto& each) { said(each); }, *heard.message);
}

void WorkerCore::Parts::admitted(Registered& registered) {
  outbox.emit(UseIdentity{registered.ticket, registered.head_signing_key});
  PeersChanged news;
  news.present = std::move(registered.peers);
  said(news);
  slots.end_unknown(registered.unknown_slots);
  slots.restate();
  objects->restate();
  if (told_epoch == registered.head_epoch) {
    // The same head has forgotten the conversation, and with it what processes said.
    for (auto& [link, row] : processes.rows()) row.restates = true;
  }
  tell_head_status();
  for (auto& [link, message] : std::exchange(waiting_drivers, {})) {
    if (ProcessRow* row = processes.by_link(link)) attach(*row, message);
  }
}

void WorkerCore::Parts::refused(const Refused& refused) {
  const std::string why = fmt::format("the head refused this agent: {}", refused.why);
  slots.kill_all(why);
  for (const auto& [link, row] : processes.rows()) outbox.emit(CloseProcess{link});
  if (refused.code == RefusalCode::fenced) {
    outbox.emit(Fence{why});
  } else {
    outbox.emit(Exit{1, why});
  }
  phase = Phase::ended;
}

void WorkerCore::Parts::said(ToProcess& message) {
  processes.send(message.process, FromHead{std::move(message.message)});
}

void WorkerCore::Parts::said(JobEnded& message) {
  std::set<ProcessId> kept;
  for (const SlotId slot : message.kept_slots) {
    const SlotRow* row = slots.find(slot);
    if (row != nullptr && !row->process.empty()) kept.insert(row->process);
  }
  slots.job_ended(message.job, message.kept_slots);
  objects->job_ended(message.job, kept);
}

void WorkerCore::Parts::said(PeersChanged& message) {
  PeersDead dead;
  dead.processes = std::move(message.dead_processes);
  const auto lose = [&](ProcessId incarnation) {
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
  if (!dead.processes.empty() || !dead.nodes.empty()) processes.broadcast(dead);
}

void WorkerCore::Parts::node_died(NodeId node) {
  transfers.node_dead(node);
  objects->node_dead(node, fmt::format("node {}, died", node.brief()));
}

// ---- telling processes -------------------------------------------------------------------------

void WorkerCore::Parts::tell_head_status() {
  const bool connected = head.reachable();
  const std::uint64_t epoch = head.epoch();
  if (connected != told_connected || (connected && epoch != told_epoch)) {
    told_connected = connected;
    if (connected) told_epoch = epoch;
    processes.broadcast(HeadStatus{connected, told_epoch});
  }
  if (!connected || !head.takes_relays()) return;
  for (auto& [link, row] : processes.rows()) {
    if (!row.restates || row.process.empty()) continue;
    row.restates = false;
    // Epoch 0 is never a head's: for the process it is a new one, and so it restates.
    outbox.emit(SendProcess{link, HeadStatus{true, 0}, SlabId{}});
    outbox.emit(SendProcess{link, HeadStatus{true, epoch}, SlabId{}});
  }
}

// Which epoch a process begins with; only a later one makes it restate.
void WorkerCore::Parts::greet(ProcessId process) {
  processes.send(process, HeadStatus{true, told_epoch});
  if (!told_connected) processes.send(process, HeadStatus{false, told_epoch});
}

}  // namespace mobula::internal::worker
