// Joining of nodes: registration, rivals, and the end of recovery. Part of NodeTable.
#include <fmt/format.h>

#include "base/coverage_mark.h"
#include "base/model/request_rules.h"
#include "head/core/head_tables.h"
#include "head/core/nodes/node_table.h"
#include "protocol/version.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_register_again("head.register_repeated");
const CoverageMark mark_rival("head.second_incarnation_while_first_is_linked");
const CoverageMark mark_device_refused("head.device_of_another_node_refused");
const CoverageMark mark_device_regained("head.refused_device_freed");
const CoverageMark mark_other_key("head.node_of_another_key_refused");
const CoverageMark mark_other_voice("head.incarnation_of_another_node_refused");
const CoverageMark mark_renewed("head.ticket_renewed");
const CoverageMark mark_raised("head.epoch_raised");

constexpr std::uint64_t max_epoch = std::uint64_t{1} << 62;
constexpr std::uint64_t epoch_margin = 1000;  // agents may have seen different epochs
const CoverageMark mark_recovery_late("head.recovery_ended_without_all_nodes");

bool is_agent(Role role) { return role == Role::agent || role == Role::driver_agent; }

void copy_registration(const Rival& who, Node& node) {
  const auto& [link, principal, user_id, message] = who;
  node.role = principal.role == Role::driver_agent ? Role::driver_agent : message.role;
  node.address = message.address;
  node.principal = principal;
  node.admitted_as = user_id;
  node.host = message.host;
  node.delegated_key = message.delegated_key;
  node.shape = message.shape;
  node.release = message.release;
  node.protocol =
      agreed_version(own_protocol, range_of(message.version, message.oldest)).value_or(0);
}

}  // namespace

void NodeTable::restore(const NodeRow& row) {
  Node node;
  node.id = row.address.node;
  node.address = row.address;
  node.host = row.host;
  node.role = row.role;
  node.fenced = row.fenced;
  node.state = row.dead ? NodeState::dead : NodeState::expected;
  node.draining = row.draining && !row.dead;
  node.drain_timeout = row.drain_timeout;
  node.drain_why = row.drain_why;
  node.admitted_as = row.admitted_as;
  node.death = row.dead ? "it died before the head was started" : "";
  for (const auto incarnation : row.fenced) fenced_.insert(incarnation, node.id);
  if (row.dead) dead_.push_back(node.id);
  nodes_.insert(row.address.node, std::move(node));
}

void NodeTable::serve() {
  all_due_changed();
  if (expected() > 0) {
    recovering_until_ = tables_.now + tables_.options.recovery;
    tables_.scheduler.set_all_known(false);
  } else {
    tables_.slots.recovery_ended();
  }
}

std::int64_t NodeTable::expected() const {
  std::int64_t count = 0;
  for (const auto& [id, node] : nodes_) count += node.state == NodeState::expected ? 1 : 0;
  return count;
}

// A node belongs to the key that registered it first, so that no other machine takes over its id. A
// revoked key owns no node. No peer may use the incarnation of another node.
std::optional<std::string> NodeTable::why_another_key(const Node* node, const Rival& who) const {
  const ProcessId incarnation = who.message.address.incarnation;
  if (const NodeId* other = incarnations_.find(incarnation);
      other != nullptr && *other != who.message.address.node) {
    mark_other_voice.hit();
    return fmt::format("this incarnation is that of node {}", other->hex());
  }
  if (node == nullptr || node->admitted_as.empty() || node->admitted_as == who.user_id)
    return std::nullopt;
  if (node->state == NodeState::dead && !tables_.tokens.in_force(node->admitted_as))
    return std::nullopt;
  mark_other_key.hit();
  return fmt::format(
      "node {} ({}) belongs to the key '{}', which registered it first, and this agent has '{}'; "
      "give this agent a state directory of its own, so that it joins as another node, or revoke "
      "that key if it is this machine's earlier one",
      node->id.hex(), node->host, node->admitted_as, who.user_id);
}

std::optional<RegisterRejected> NodeTable::why_not(const Rival& who) const {
  const Principal& principal = who.principal;
  const RegisterRequest& message = who.message;
  const ProcessId incarnation = message.address.incarnation;
  const auto refused = [&](RefusalCode code, std::string why) {
    return RegisterRejected{tables_.epoch, incarnation, code, std::move(why)};
  };
  const auto spoken = range_of(message.version, message.oldest);
  if (!agreed_version(own_protocol, spoken)) {
    return refused(RefusalCode::version, protocol_mismatch("the agent", spoken, "the head"));
  }
  if (!is_agent(principal.role) || !is_agent(message.role) ||
      (principal.role == Role::driver_agent && message.role != Role::driver_agent)) {
    return refused(RefusalCode::permission,
                   fmt::format("the key '{}' has the role {} and may not register as {}",
                               principal.name, to_string(principal.role), to_string(message.role)));
  }
  if (message.address.node.empty() || incarnation.empty()) {
    return refused(RefusalCode::permission, "a registration names its node and its incarnation");
  }
  if (const auto broken = check_shape(message.shape)) {
    return refused(RefusalCode::permission, to_string(*broken));
  }
  if (fenced_.contains(incarnation)) return stranger(incarnation);
  const Node* node = find(message.address.node);
  if (auto why = why_another_key(node, who))
    return refused(RefusalCode::permission, std::move(*why));
  if (node != nullptr && node->slots_allowed() && principal.role == Role::driver_agent &&
      node->state != NodeState::dead) {
    return refused(RefusalCode::permission, "a driver's key may not speak for a node with slots");
  }
  if (node != nullptr && node->state != NodeState::dead) return std::nullopt;
  if (nodes_.size() - dead_.size() >= tables_.options.max_nodes) {
    return refused(RefusalCode::permission, fmt::format("the cluster is at its limit of {} nodes",
                                                        tables_.options.max_nodes));
  }
  return std::nullopt;
}

// The agent was admitted in an epoch that is unknown to this journal. The journal is therefore
// older than the cluster, as after the restoration of a backup. Agents ignore replies of epochs
// below the latest known one.
bool NodeTable::served_by_later_head(const Rival& who) const {
  const std::uint64_t seen = who.message.head_epoch;
  return who.principal.role == Role::agent && seen > tables_.epoch && seen < max_epoch;
}

// Raises the epoch once in the life of a head. The agent registers again until it gets a reply.
void NodeTable::raise_epoch(const Rival& who) {
  const RegisterRequest& message = who.message;
  if (tables_.raised_epoch != 0) {
    if (tables_.raised_epoch > tables_.epoch) return;  // the raised epoch is being written
    return refuse(who.link,
                  {message.head_epoch, message.address.incarnation, RefusalCode::permission,
                   fmt::format("the agent was admitted in epoch {}, and this head is at {}; "
                               "restart the agent",
                               message.head_epoch, tables_.epoch)});
  }
  mark_raised.hit();
  tables_.raised_epoch = message.head_epoch + epoch_margin;
  tables_.events.note(
      Severity::warning, "HEAD_JOURNAL_OUTDATED", {.node = message.address.node},
      fmt::format("node {} was admitted in epoch {} and this head's journal ended before "
                  "epoch {}: the journal is older than the cluster, as a restored backup "
                  "is; jobs, actors, groups and tokens made after it are forgotten, and "
                  "those removed after it exist again; the head continues as epoch {}",
                  message.address.node.brief(), message.head_epoch, tables_.epoch,
                  tables_.raised_epoch));
  tables_.journal.put("meta", "epoch", encode(EpochRow{tables_.raised_epoch}));
  tables_.journal.wait(EpochGate{});
}

// Nodes that registered in the lower epoch register as new incarnations. They have run only for
// seconds.
void NodeTable::take_raised_epoch() {
  if (tables_.raised_epoch <= tables_.epoch) return;
  tables_.epoch = tables_.raised_epoch;
  std::vector<NodeId> registered;
  for (const auto& [id, node] : nodes_) {
    if (node.registered()) registered.push_back(id);
  }
  for (const NodeId id : registered) {
    declare_dead(nodes_.at(id), DeathKind::silent, "the head has taken a later epoch");
  }
}

void NodeTable::renew_tickets() {
  for (auto& [id, node] : nodes_) {
    if (node.registered() && node.ticket_due) renew_ticket(node);
  }
}

void NodeTable::register_node(Rival who) {
  const auto& [link, principal, user_id, message] = who;
  if (auto refused = why_not(who)) return refuse(link, std::move(*refused));
  if (served_by_later_head(who)) return raise_epoch(who);
  Node* node = nodes_.find(message.address.node);
  if (node == nullptr || !node->registered()) return admit(who);
  if (node->address.incarnation != message.address.incarnation)
    return meet_rival(*node, std::move(who));
  if (node->principal != principal) {
    return refuse(link, {tables_.epoch, message.address.incarnation, RefusalCode::permission,
                         "this incarnation was registered with another key"});
  }
  mark_register_again.hit();
  sign_of_life(*node, link);
  answer_registered(*node, node->unknown_slots);
}

// Two incarnations of one node must not run at once. If the later one has the port of the earlier
// one, the earlier one has ended. If the link of the earlier one is lost, the later one is also
// accepted. Otherwise the port of the earlier one is probed.
void NodeTable::meet_rival(Node& node, Rival rival) {
  if (node.link == 0 || node.address.control == rival.message.address.control) {
    declare_dead(node, DeathKind::replaced, "its agent has restarted");
    return admit(rival);
  }
  mark_rival.hit();
  const bool is_probed = node.rival.has_value();
  rivals_[rival.link] = node.id;
  node.rival = std::move(rival);
  if (!is_probed) {
    tables_.commands.push_back(ProbeNode{node.address.incarnation, node.address.control});
  }
}

// A node reports no process of another node, unless that node has lost it. The node of a driver
// reports only drivers.
void NodeTable::attach_processes(const Node& node, const Facts& facts) {
  for (const auto& fact : facts.processes) {
    const Process* known = tables_.processes.find(fact.process);
    const bool strange = known != nullptr && known->node != node.id && !known->node.empty() &&
                         !tables_.processes.lost(fact.process);
    if (strange || (!node.slots_allowed() && fact.principal.role != Role::driver)) continue;
    tables_.processes.attached(node.id, fact);
  }
}

void NodeTable::admit(const Rival& who) {
  const auto& message = who.message;
  Node& node = nodes_[message.address.node];
  node.id = message.address.node;
  const ProcessId before = node.address.incarnation;
  const bool came_anew =
      node.state == NodeState::expected && !before.empty() && before != message.address.incarnation;
  const bool was_known = node.state == NodeState::expected && !before.empty();
  if (came_anew) fence(node, before);

  std::erase(dead_, message.address.node);
  node.state = NodeState::alive;
  // The drain applied only to the earlier incarnation.
  if (before != message.address.incarnation) stop_draining(node);
  node.output_dropped = 0;
  node.refused = false;
  node.death.clear();
  copy_registration(who, node);
  const bool had_devices = claims_.release(node.id);
  node.pressure = {};  // the agent reports it again
  node.refused_devices = claims_.claim(node.id, node.shape);
  if (!node.refused_devices.empty()) mark_device_refused.hit();
  sign_of_life(node, who.link);
  node.session.emplace();
  node.queued = 0;
  node.applied = 0;
  node.facts_requested.reset();
  incarnations_.insert(message.address.incarnation, node.id);
  write_row(node);
  tables_.events.note(node.slots_allowed() ? Severity::info : Severity::debug, "NODE_JOINED",
                      {.node = node.id},
                      fmt::format("{} at {} {}", node.host, node.address.control,
                                  was_known && !came_anew ? "is there again" : "has joined"));

  attach_processes(node, message.facts);
  if (node.slots_allowed()) tables_.actors.entrusted(message.facts.entrusted);
  node.unknown_slots = tables_.slots.node_joined(node, message.facts);
  answer_registered(node, node.unknown_slots);
  if (recovering()) report_deaths(node);
  report_drains(node);
  if (had_devices) offer_free_devices();
  tables_.jobs.node_joined(node.id, message.facts);

  PeersChanged news;
  news.present = {node.address};
  if (came_anew) news.dead_agents = {before};
  broadcast(news, node.id);
  tables_.slots.announce();
  end_recovery_if_due();
}

// An earlier head may have died before it had notified all agents of the last deaths.
void NodeTable::report_deaths(const Node& node) {
  PeersChanged news;
  for (const auto& [incarnation, of] : fenced_) {
    if (of != node.id) news.dead_agents.push_back(incarnation);
  }
  if (!news.dead_agents.empty()) send(node.id, std::move(news));
}

// Includes the node itself if its drain continues.
void NodeTable::report_drains(const Node& node) {
  PeersChanged news;
  for (const auto& [id, other] : nodes_) {
    if (other.draining && other.state != NodeState::dead) news.drained.push_back(id);
  }
  if (!news.drained.empty()) send(node.id, std::move(news));
}

void NodeTable::offer_free_devices() {
  for (auto& [id, node] : nodes_) {
    if (!node.registered() || node.refused_devices.empty()) continue;
    if (!claims_.claim_again(id, node.shape, node.refused_devices)) continue;
    mark_device_regained.hit();
    tables_.slots.node_reshaped(node);
  }
}

std::vector<AgentAddress> NodeTable::peers_of(NodeId id) const {
  std::vector<AgentAddress> peers;
  for (const auto& [other, node] : nodes_) {
    if (other != id && node.registered()) peers.push_back(node.address);
  }
  return peers;
}

void NodeTable::answer_registered(Node& node, std::vector<SlotId> unknown_slots) {
  RegisterReply answer;
  answer.head_epoch = tables_.epoch;
  answer.incarnation = node.address.incarnation;
  answer.settings = tables_.options.settings;
  answer.peers = peers_of(node.id);
  answer.unknown_slots = std::move(unknown_slots);
  answer.protocol = node.protocol;
  for (const auto& device : node.refused_devices) answer.warnings.push_back(describe(device));
  answer.revoked_keys = tables_.tokens.revoked_keys();
  node.last_sent = tables_.now;
  if (hears_of_trust(node)) node.ticket_due = tables_.now + tables_.options.ticket_life / 3;
  due_changed(node);
  tables_.commands.push_back(Admit{node.link, std::move(answer), node.principal, node.address,
                                   node.delegated_key, node.admitted_as, ticket_end(node)});
}

bool NodeTable::hears_of_trust(const Node& node) {
  return node.protocol >= version_with_trust_news;
}

// A ticket expires no later than the token that admitted the agent.
std::int64_t NodeTable::ticket_end(const Node& node) const {
  const Duration life =
      hears_of_trust(node) ? tables_.options.ticket_life : tables_.options.lasting_ticket_life;
  const std::int64_t end = wall_ms(tables_, tables_.now) + life / std::chrono::milliseconds(1);
  const std::int64_t of_token = tables_.tokens.end_of(node.admitted_as);
  return of_token == 0 ? end : std::min(end, of_token);
}

// A lost renewal is followed by another one before the ticket expires.
void NodeTable::renew_ticket(Node& node) {
  due_changed(node);
  node.ticket_due = tables_.now + tables_.options.ticket_life / 3;
  if (node.link == 0) return;
  mark_renewed.hit();
  tables_.commands.push_back(RenewTicket{node.link, tables_.epoch, node.principal, node.address,
                                         node.delegated_key, node.admitted_as, ticket_end(node)});
}

void NodeTable::key_revoked(const std::string& user_id, const std::string& why) {
  std::vector<NodeId> its;
  for (const auto& [id, node] : nodes_) {
    if (node.admitted_as == user_id && node.state != NodeState::dead) its.push_back(id);
  }
  for (const NodeId id : its) {
    Node& node = nodes_.at(id);
    if (node.link != 0) {
      tables_.commands.push_back(SendToAgent{
          node.link,
          RegisterRejected{tables_.epoch, node.address.incarnation, RefusalCode::permission, why}});
    }
    declare_dead(node, DeathKind::revoked, why);
  }
  const QueuedMessage<HeadMessage> news = KeysRevoked{{user_id}};
  for (auto& [id, node] : nodes_) {
    if (hears_of_trust(node)) send(node, news);
  }
}

void NodeTable::end_recovery_if_due() {
  if (!recovering()) return;
  const bool waited = *recovering_until_ <= tables_.now;
  if (expected() > 0 && !waited) return;
  recovering_until_.reset();
  tables_.events.note(Severity::info, "HEAD_RECOVERED", {},
                      "the head knows again what runs in the cluster");
  all_due_changed();
  std::vector<NodeId> missing;
  for (const auto& [id, node] : nodes_) {
    if (node.state == NodeState::expected) missing.push_back(id);
  }
  if (!missing.empty()) mark_recovery_late.hit();
  for (const auto id : missing) {
    declare_dead(nodes_.at(id), DeathKind::silent,
                 "it did not register again after the head was restarted");
  }
  tables_.scheduler.set_all_known(true);
  tables_.slots.recovery_ended();
  // Drains continue only now, because lessees of the slots can be reached.
  for (auto& [id, node] : nodes_) {
    if (node.draining && !node.drained_by) move_away(node);
  }
}

}  // namespace mobula::internal::head
