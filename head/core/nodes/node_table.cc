#include "head/core/nodes/node_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"
#include "head/core/head_tables.h"
#include "head/core/message_dispatch.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_suspect_back("head.suspect_node_speaks_again");
const CoverageMark mark_fenced_speaks("head.fenced_incarnation_speaks");
const CoverageMark mark_digest("head.slots_digest_differs");
const CoverageMark mark_output_dropped("head.output_dropped");
const CoverageMark mark_old_epoch("head.frame_of_an_earlier_epoch");

constexpr std::size_t max_fenced_per_node = 16;
// Output is never queued for long: a node with this backlog gets no output for now.
constexpr std::size_t max_backlog_for_output = 256;

}  // namespace

std::string_view to_string(NodeState state) {
  switch (state) {
    case NodeState::expected: return "EXPECTED";
    case NodeState::alive: return "ALIVE";
    case NodeState::suspect: return "SUSPECT";
    case NodeState::draining: return "DRAINING";
    case NodeState::dead: return "DEAD";
  }
  return "UNKNOWN";
}

// ---- messages of agents -------------------------------------------------------------------------

void NodeTable::on(ReceivedFromAgent event) {
  if (!tables_.serving) return;  // the agent resends
  const Speaker speaker(tables_, event.principal);
  if (const auto* message = std::get_if<RegisterRequest>(&event.message)) {
    register_node({event.link, event.principal, event.user_id, *message});
  } else if (auto* frame = std::get_if<AgentFrame>(&event.message)) {
    take_frame(event.link, event.principal, std::move(*frame));
  } else {
    farewell(event.link, event.principal, std::get<AgentStopped>(event.message));
  }
}

RegisterRejected NodeTable::stranger(ProcessId incarnation) const {
  if (fenced_.contains(incarnation)) {
    mark_fenced_speaks.hit();
    return {tables_.epoch, incarnation, RefusalCode::fenced,
            "this incarnation of the node was declared dead; end everything and register again"};
  }
  return {tables_.epoch, incarnation, RefusalCode::unknown,
          "the head does not know this conversation; register"};
}

void NodeTable::take_frame(LinkId link, const Principal& principal, AgentFrame frame) {
  const NodeId* id = incarnations_.find(frame.incarnation);
  if (id == nullptr) return refuse(link, stranger(frame.incarnation));
  Node& node = nodes_.at(*id);
  if (frame.head_epoch != tables_.epoch) return mark_old_epoch.hit();
  if (principal != node.principal) {
    return refuse(link, {tables_.epoch, frame.incarnation, RefusalCode::permission,
                         "this key did not register the node it speaks for"});
  }
  due_changed(node);
  sign_of_life(node, link);
  node.applied = std::max(node.applied, std::min(frame.applied_through, node.queued));
  std::vector<Frame<HeadMessage>> frames;
  const bool only_acknowledges = !frame.frame.message;
  auto message = node.session->receive(tables_.now, std::move(frame.frame), frames);
  send_frames(node, std::move(frames));
  if (message) take_agent_message(tables_, node.id, std::move(*message));
  const bool received_all = node.registered() && frame.sent_through == node.session->received();
  const bool counts = only_acknowledges && node.registered();
  if (counts && tables_.transfer_counts.update(frame.incarnation, node.id, frame.stored))
    ++tables_.changes;
  if (counts) tables_.links.stated(node.id, frame.silent_peers);
  if (only_acknowledges && received_all)
    compare_slots(node, frame.applied_through, frame.slots_digest);
  // The head sends to an agent as often as it receives from it.
  if (node.registered() && node.last_sent + tables_.options.settings.heartbeat <= tables_.now) {
    send_frames(node, {node.session->acknowledgement()});
  }
}

// Frames without a message carry a digest of the agent's slots. The digest is compared only if the
// head has received all messages that the agent has sent, and only through the last command that
// the agent has executed. A difference is therefore never a mere delay, and the agent is queried
// for its full facts. One query is open at a time, and the next one follows only after
// `suspect_timeout`, because an answer that fixes nothing will not fix it later.
void NodeTable::compare_slots(Node& node, std::uint64_t applied_through, std::uint64_t digest) {
  const auto expected = tables_.slots.digest(node.id, applied_through);
  if (!expected || digest == *expected) return;
  if (node.facts_requested &&
      (node.applied < node.facts_requested_by ||
       tables_.now - *node.facts_requested < tables_.options.settings.suspect_timeout)) {
    return;
  }
  mark_digest.hit();
  node.facts_requested = tables_.now;
  node.facts_requested_by = send(node.id, FactsRequest{});
}

void NodeTable::stated(NodeId id, const FactsReply& message) {
  if (nodes_.at(id).slots_allowed()) tables_.actors.entrusted(message.facts.entrusted);
  tables_.processes.reconcile(id, message.facts);
  tables_.slots.reconcile(id, message.facts, message.applied_through);
  tables_.jobs.node_joined(id, message.facts);
}

void NodeTable::farewell(LinkId link, const Principal& principal, const AgentStopped& message) {
  const NodeId* id = incarnations_.find(message.incarnation);
  if (id == nullptr || nodes_.at(*id).principal != principal) return;
  tables_.transfer_counts.update(message.incarnation, *id, message.stored);
  declare_dead(nodes_.at(*id), DeathKind::left, "its agent left in good order");
  tables_.commands.push_back(CloseLink{link});
}

void NodeTable::sign_of_life(Node& node, LinkId link) {
  if (node.link != link) {
    links_.erase(node.link);
    links_[link] = node.id;
    node.link = link;
    if (node.registered()) {
      std::vector<Frame<HeadMessage>> frames;
      node.session->reconnected(tables_.now, frames);
      send_frames(node, std::move(frames));
    }
  }
  due_changed(node);
  node.last_received = tables_.now;
  node.refused = false;
  if (node.state != NodeState::suspect) return;
  mark_suspect_back.hit();
  tables_.events.note(Severity::info, "NODE_RECOVERED", {.node = node.id},
                      "messages from it arrive again");
  node.state = NodeState::alive;
  tables_.slots.node_changed(node);
}

// ---- links and silence -------------------------------------------------------------------------

void NodeTable::link_lost(LinkId link) {
  if (const auto rival = rivals_.find(link); rival != rivals_.end()) {
    Node* node = nodes_.find(rival->second);
    if (node != nullptr && node->rival && node->rival->link == link) node->rival.reset();
    rivals_.erase(rival);
  }
  const auto at = links_.find(link);
  if (at == links_.end()) return;
  Node& node = nodes_.at(at->second);
  links_.erase(at);
  node.link = 0;
  tables_.commands.push_back(ProbeNode{node.address.incarnation, node.address.control});
}

void NodeTable::probed(const NodeProbed& event) {
  const NodeId* id = incarnations_.find(event.incarnation);
  if (id == nullptr) return;
  Node& node = nodes_.at(*id);
  if (node.rival) {
    const Rival rival = *std::exchange(node.rival, std::nullopt);
    if (event.refused) {
      declare_dead(node, DeathKind::replaced, "its agent has restarted");
      return admit(rival);
    }
    return refuse(rival.link,
                  {tables_.epoch, rival.message.address.incarnation, RefusalCode::duplicate,
                   fmt::format("node {} is in the cluster with another live agent at {}; give this "
                               "agent a state directory of its own",
                               node.id.hex(), node.address.control)});
  }
  if (!event.refused || node.link != 0) return;
  node.refused = true;
  judge(node);
}

void NodeTable::shift(Duration gap) {
  for (auto& [id, node] : nodes_) {
    if (node.registered()) node.last_received = std::min(tables_.now, node.last_received + gap);
  }
  all_due_changed();
  if (recovering_until_) recovering_until_ = *recovering_until_ + gap;
}

void NodeTable::judge(Node& node) {
  if (!node.registered()) return;
  const auto& settings = tables_.options.settings;
  const Duration silence = tables_.now - node.last_received;
  if (!recovering()) {
    if (node.refused) {
      return declare_dead(
          node, DeathKind::refused,
          fmt::format("its agent has exited: {} refuses connections", node.address.control));
    }
    if (silence >= settings.dead_timeout) {
      return declare_dead(
          node, DeathKind::silent,
          fmt::format("no message from it arrived for {} ms",
                      std::chrono::duration_cast<std::chrono::milliseconds>(silence).count()));
    }
    if (node.session->backlog() > tables_.options.max_backlog) {
      return declare_dead(node, DeathKind::silent,
                          fmt::format("it has not taken {} messages", node.session->backlog()));
    }
  }
  if (silence >= settings.suspect_timeout && node.state == NodeState::alive) {
    node.state = NodeState::suspect;
    tables_.events.note(Severity::warning, "NODE_SUSPECT", {.node = node.id},
                        fmt::format("no message from it arrived for {} ms; it gets no more work",
                                    silence / std::chrono::milliseconds(1)));
    due_changed(node);
    tables_.slots.node_changed(node);
  }
}

void NodeTable::tick() {
  watch_changed();
  std::vector<NodeId> due;
  due_.take_due(
      tables_.now, [this](NodeId id) { return nodes_.find(id); }, due);
  // The order of the entries depends on when `next_deadline` was read, which recordings omit.
  std::ranges::sort(due);
  for (const NodeId id : due) {
    if (Node* node = nodes_.find(id)) act(*node);
  }
  end_recovery_if_due();
  forget_oldest_dead();
}

void NodeTable::act(Node& node) {
  due_changed(node);
  judge(node);
  if (!node.registered()) return;
  if (node.drained_by && *node.drained_by <= tables_.now) end_drain(node);
  if (node.entries_due && *node.entries_due <= tables_.now) hasten(node);
  if (node.ticket_due && *node.ticket_due <= tables_.now) renew_ticket(node);
  std::vector<Frame<HeadMessage>> frames;
  node.session->tick(tables_.now, frames);
  send_frames(node, std::move(frames));
}

std::optional<Time> NodeTable::due_of(const Node& node) const {
  if (!node.registered()) return std::nullopt;
  const auto& settings = tables_.options.settings;
  auto due = earlier(earlier(node.session->next_deadline(), node.drained_by), node.entries_due);
  due = earlier(due, node.ticket_due);
  if (node.state == NodeState::alive)
    due = earlier(due, node.last_received + settings.suspect_timeout);
  if (recovering()) return due;
  return earlier(due, node.last_received + (node.refused ? Duration(0) : settings.dead_timeout));
}

void NodeTable::due_changed(Node& node) {
  if (std::exchange(node.due_changed, true)) return;
  due_changed_.push_back(node.id);
}

void NodeTable::all_due_changed() {
  for (auto& [id, node] : nodes_) due_changed(node);
}

void NodeTable::watch_changed() {
  for (const NodeId id : due_changed_) {
    Node* node = nodes_.find(id);
    if (node == nullptr) continue;
    node->due_changed = false;
    due_.watch(id, due_of(*node), node->armed);
  }
  due_changed_.clear();
}

std::optional<Time> NodeTable::next_deadline() {
  watch_changed();
  due_.settle([this](NodeId id) { return nodes_.find(id); },
              [this](const Node& node) { return due_of(node); });
  return earlier(recovering_until_, due_.earliest());
}

// ---- messages to agents -------------------------------------------------------------------------

std::uint64_t NodeTable::send(NodeId id, QueuedMessage<HeadMessage> message) {
  Node* node = nodes_.find(id);
  return node == nullptr ? 0 : send(*node, std::move(message));
}

std::uint64_t NodeTable::send(Node& node, QueuedMessage<HeadMessage> message) {
  if (!node.registered()) return 0;
  due_changed(node);
  std::vector<Frame<HeadMessage>> frames;
  node.session->send(tables_.now, std::move(message), frames);
  send_frames(node, std::move(frames));
  return ++node.queued;
}

void NodeTable::broadcast(const QueuedMessage<HeadMessage>& message, NodeId except) {
  tables_.commands.reserve(tables_.commands.size() + nodes_.size());
  for (auto& [id, node] : nodes_) {
    if (id != except) send(node, message);
  }
}

void NodeTable::pressed(NodeId id, const MemoryPressure& message) {
  Node* node = nodes_.find(id);
  if (node == nullptr) return;
  if (message.on != node->pressure.on) {
    tables_.events.note(message.on ? Severity::warning : Severity::info,
                        message.on ? "NODE_MEMORY_PRESSURE" : "NODE_MEMORY_PRESSURE_CLEARED",
                        {.node = id},
                        message.on ? message.text : "it is no longer short of memory");
  }
  node->pressure = message;
}

void NodeTable::pass_output(NodeId id, const JobOutputLines& output) {
  Node* node = nodes_.find(id);
  if (node == nullptr || !node->registered()) return;
  if (node->session->backlog() >= max_backlog_for_output) {
    mark_output_dropped.hit();
    node->output_dropped += output.lines.size();
    return;
  }
  JobOutputLines passed = output;
  if (node->output_dropped > 0) {
    passed.lines.insert(passed.lines.begin(),
                        fmt::format("... {} lines of executors on other nodes were left out here",
                                    std::exchange(node->output_dropped, 0)));
  }
  send(id, std::move(passed));
}

void NodeTable::send_frames(Node& node, std::vector<Frame<HeadMessage>> frames) {
  if (node.link == 0 || frames.empty()) return;  // the session resends
  node.last_sent = tables_.now;
  for (auto& frame : frames) {
    tables_.commands.push_back(SendToAgent{
        node.link, HeadFrame{tables_.epoch, node.address.incarnation, std::move(frame)}});
  }
}

void NodeTable::refuse(LinkId link, RegisterRejected refused) {
  // `unknown` is the normal reply after a restart of the head, by which agents detect it.
  if (refused.code != RefusalCode::unknown) {
    tables_.events.note(Severity::warning, "NODE_REFUSED", {.process = refused.incarnation},
                        refused.why);
  }
  tables_.commands.push_back(SendToAgent{link, std::move(refused)});
}

// ---- death -------------------------------------------------------------------------------------

void NodeTable::fence(Node& node, ProcessId incarnation) {
  incarnations_.erase(incarnation);
  tables_.transfers.process_ended(incarnation);
  tables_.spans.process_ended(incarnation);
  tables_.transfer_counts.ended(incarnation);
  tables_.samples.node_died(node.id);
  fenced_.insert(incarnation, node.id);
  node.fenced.push_back(incarnation);
  if (node.fenced.size() > max_fenced_per_node) {
    fenced_.erase(node.fenced.front());
    node.fenced.erase(node.fenced.begin());
  }
}

void NodeTable::declare_dead(Node& node, DeathKind kind, const std::string& why) {
  due_changed(node);
  const ProcessId incarnation = node.address.incarnation;
  links_.erase(node.link);
  node.link = 0;
  node.session.reset();
  node.state = NodeState::dead;
  stop_draining(node);
  node.death = why;
  fence(node, incarnation);
  dead_.push_back(node.id);
  write_row(node);

  EndCause cause;
  cause.kind = EndKind::node_died;
  cause.text = fmt::format("node {}: {}", node.id.brief(), why);
  note_death(node, kind);
  tables_.copies.node_died(node.id);
  tables_.objects.node_died(node.id);
  tables_.job_logs.node_died(node.id);
  tables_.node_questions.node_died(node.id);
  tables_.links.node_died(node.id);
  tables_.slots.node_died(node.id, kind == DeathKind::silent, cause);
  PeersChanged news;
  news.dead_agents = {incarnation};
  news.dead_processes = tables_.processes.node_died(node.id, cause, kind != DeathKind::revoked);
  broadcast(news);
  node.refused_devices.clear();
  node.pressure = {};
  // The devices of a replaced incarnation go to the one that registers now.
  if (kind != DeathKind::replaced && claims_.release(node.id)) offer_free_devices();
}

void NodeTable::note_death(const Node& node, DeathKind kind) {
  const bool planned = kind == DeathKind::left;
  const bool lost =
      kind == DeathKind::silent || kind == DeathKind::refused || kind == DeathKind::revoked;
  // Nodes of drivers join and leave with them.
  const Severity ordinary = node.slots_allowed() ? Severity::info : Severity::debug;
  tables_.events.note(lost      ? Severity::error
                      : planned ? ordinary
                                : Severity::warning,
                      lost      ? "NODE_DIED"
                      : planned ? "NODE_LEFT"
                                : "NODE_REPLACED",
                      {.node = node.id}, fmt::format("{} ({})", node.death, node.host));
}

void NodeTable::forget_oldest_dead() {
  while (dead_.size() > tables_.options.max_ended_kept) {
    const NodeId oldest = dead_.front();
    dead_.pop_front();
    const Node* node = nodes_.find(oldest);
    // The node may have returned and died again. Only its later entry counts.
    if (node == nullptr || node->state != NodeState::dead) continue;
    if (std::find(dead_.begin(), dead_.end(), oldest) != dead_.end()) continue;
    for (const auto incarnation : node->fenced) fenced_.erase(incarnation);
    tables_.journal.erase("nodes", oldest.hex());
    nodes_.erase(oldest);
  }
}

void NodeTable::write_row(const Node& node) {
  const NodeRow row{
      node.address,    node.host,     node.role,          node.state == NodeState::dead,
      node.fenced,     node.draining, node.drain_timeout, node.drain_why,
      node.admitted_as};
  tables_.journal.put("nodes", node.id.hex(), encode(row));
}

Result<void> NodeTable::drain(NodeId id, Duration timeout, const std::string& why) {
  Node* node = nodes_.find(id);
  if (node == nullptr || !node->registered() || !node->slots_allowed()) {
    return failure(ErrorCode::not_found,
                   fmt::format("drain {}: no such node is in the cluster", id.hex()));
  }
  node->draining = true;
  node->drain_why = why;
  node->drain_timeout = std::max(timeout, Duration(0));
  tables_.events.note(
      Severity::info, "NODE_DRAINING", {.node = id},
      timeout > Duration(0)
          ? fmt::format("{}; the work left after {} s is ended", why,
                        static_cast<double>(timeout / std::chrono::milliseconds(1)) / 1000)
          : why);
  write_row(*node);
  tables_.slots.node_changed(*node);
  move_away(*node);
  PeersChanged news;
  news.drained = {id};
  broadcast(news);
  return {};
}

void NodeTable::leaves(NodeId id, Duration timeout) {
  if (drain(id, timeout, "its agent is being stopped")) nodes_.at(id).leaving = true;
}

Result<bool> NodeTable::undrain(NodeId id) {
  Node* node = nodes_.find(id);
  if (node != nullptr && node->state == NodeState::expected) {
    return failure(ErrorCode::unavailable,
                   fmt::format("undrain {}: the head has restarted and has not heard from the node "
                               "yet; try again in a moment",
                               id.hex()));
  }
  if (node == nullptr || !node->registered() || !node->slots_allowed()) {
    return failure(
        ErrorCode::not_found,
        fmt::format("undrain {}: no agent of such a node is in the cluster; start it there with "
                    "`mobula start --address`, and it gets work again",
                    id.hex()));
  }
  if (node->leaving) {
    return failure(
        ErrorCode::invalid_argument,
        fmt::format(
            "undrain {}: its agent is being stopped and takes nothing more; start it again when "
            "it has ended",
            id.hex()));
  }
  if (!node->draining) return false;
  tables_.events.note(Severity::info, "NODE_UNDRAINED", {.node = id},
                      "it gets work again: requested by a tool");
  stop_draining(*node);
  write_row(*node);
  tables_.slots.node_changed(*node);
  PeersChanged news;
  news.undrained = {id};
  broadcast(news);
  return true;
}

void NodeTable::move_away(Node& node) {
  due_changed(node);
  if (node.drain_timeout > Duration(0)) node.drained_by = tables_.now + node.drain_timeout;
  tables_.slots.recall_all(node.id, "the node is draining");
  tables_.actors.leave_node(node.id, "its node is drained: " + node.drain_why);
  hasten(node);
}

// Commands that cannot move get their grace before the deadline of the drain.
void NodeTable::hasten(Node& node) {
  due_changed(node);
  node.entries_due.reset();
  if (!node.drained_by) return;
  node.entries_due =
      tables_.actors.hasten_entries(node.id, *node.drained_by,
                                    fmt::format("node {} is drained ({}), and its deadline comes",
                                                node.id.brief(), node.drain_why));
}

void NodeTable::stop_draining(Node& node) {
  due_changed(node);
  node.draining = false;
  node.drain_timeout = Duration(0);
  node.drained_by.reset();
  node.entries_due.reset();
  node.drain_why.clear();
  node.drain_ended = 0;
  node.leaving = false;
}

void NodeTable::end_drain(Node& node) {
  due_changed(node);
  node.drained_by.reset();
  node.entries_due.reset();
  const std::string why = fmt::format("node {} was drained ({}) and its deadline has passed",
                                      node.id.brief(), node.drain_why);
  node.drain_ended = tables_.actors.end_on_node(node.id, why);
  node.drain_ended += tables_.slots.stop_all(node.id, why);
  tables_.events.note(Severity::warning, "NODE_DRAIN_DEADLINE", {.node = node.id},
                      fmt::format("{}; {} leases were ended by it", why, node.drain_ended));
}

}  // namespace mobula::internal::head
