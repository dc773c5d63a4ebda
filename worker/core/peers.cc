#include "worker/core/peers.h"

#include <algorithm>

namespace mobula::internal::worker {

bool Peers::replaces(const AgentAddress& address) const {
  if (dead_.contains(address.incarnation)) return false;
  const Row* row = rows_.find(address.node);
  return row != nullptr && !row->address.incarnation.empty() &&
         row->address.incarnation != address.incarnation;
}

void Peers::present(const AgentAddress& address) {
  if (address.node == self_.node || dead_.contains(address.incarnation)) return;
  dead_nodes_.erase(address.node);
  Row& row = rows_[address.node];
  const bool was_unknown = row.address.incarnation.empty();
  row.address = address;
  row.known_by.reset();
  nodes_.insert(address.incarnation, address.node);
  if (!was_unknown) return;
  for (PeerMessage& message : std::exchange(row.waiting, {})) send(row, std::move(message));
  watch(address.node, row);
}

std::optional<NodeId> Peers::dead(ProcessId incarnation) {
  dead_.insert(incarnation);
  const NodeId* node = nodes_.find(incarnation);
  if (node == nullptr) return std::nullopt;
  const NodeId gone = *node;
  nodes_.erase(incarnation);
  rows_.erase(gone);
  dead_nodes_.insert(gone);
  return gone;
}

void Peers::send(NodeId node, PeerMessage message) {
  if (is_dead(node)) return;
  Row& row = rows_[node];
  if (row.address.incarnation.empty()) {
    if (!row.known_by) row.known_by = outbox_.now() + options_.peer_unknown_timeout;
    row.waiting.push_back(std::move(message));
    watch(node, row);
    return;
  }
  send(row, std::move(message));
  watch(node, row);
}

void Peers::send(Row& row, PeerMessage message) {
  std::vector<Frame<PeerMessage>> frames;
  row.session.send(outbox_.now(), std::move(message), frames);
  if (!row.unanswered_since) row.unanswered_since = outbox_.now();
  emit(row, std::move(frames));
}

// The message names no object, so the receiver only acknowledges it.
void Peers::check(NodeId node) {
  const Row* row = rows_.find(node);
  if (row != nullptr && !row->address.incarnation.empty() && row->session.drained())
    send(node, ReplicaLost{});
}

std::vector<NodeId> Peers::silent() const {
  std::vector<NodeId> nodes;
  for (const auto& [node, row] : rows_) {
    if (row.unanswered_since &&
        outbox_.now() - *row.unanswered_since >= options_.peer_silence_timeout)
      nodes.push_back(node);
  }
  return nodes;
}

void Peers::shift_deadlines(Duration gap) {
  for (auto& [node, row] : rows_) {
    if (row.unanswered_since)
      row.unanswered_since = std::min(*row.unanswered_since + gap, outbox_.now());
  }
}

std::optional<std::pair<NodeId, PeerMessage>> Peers::receive(PeerFrame frame) {
  const NodeId* node = nodes_.find(frame.from);
  if (node == nullptr || frame.to != self_.incarnation) return std::nullopt;
  Row& row = rows_.at(*node);
  std::vector<Frame<PeerMessage>> frames;
  auto message = row.session.receive(outbox_.now(), std::move(frame.frame), frames);
  if (row.session.drained()) {
    row.unanswered_since.reset();
  } else {
    row.unanswered_since = outbox_.now();
  }
  emit(row, std::move(frames));
  watch(*node, row);
  if (!message) return std::nullopt;
  return std::pair{*node, std::move(*message)};
}

void Peers::link_up(ProcessId incarnation) {
  const NodeId* node = nodes_.find(incarnation);
  if (node == nullptr) return;
  Row& row = rows_.at(*node);
  if (row.session.drained()) return;
  std::vector<Frame<PeerMessage>> frames;
  row.session.reconnected(outbox_.now(), frames);
  emit(row, std::move(frames));
  watch(*node, row);
}

AgentAddress Peers::address(NodeId node) const {
  const Row* row = rows_.find(node);
  return row == nullptr ? AgentAddress{} : row->address;
}

std::size_t Peers::backlog(NodeId node) const {
  const Row* row = rows_.find(node);
  return row == nullptr ? 0 : row->session.backlog() + row->waiting.size();
}

void Peers::emit(const Row& row, std::vector<Frame<PeerMessage>> frames) {
  for (auto& frame : frames) {
    outbox_.emit(SendToPeer{
        row.address, PeerFrame{self_.incarnation, row.address.incarnation, std::move(frame)}});
  }
}

std::vector<NodeId> Peers::tick() {
  std::vector<NodeId> due, given_up;
  deadlines_.take_due(
      outbox_.now(), [this](NodeId node) { return rows_.find(node); }, due);
  std::sort(due.begin(), due.end());
  for (const NodeId node : due) {
    Row& row = rows_.at(node);
    if (row.known_by && *row.known_by <= outbox_.now()) {
      given_up.push_back(node);
      dead_nodes_.insert(node);
      rows_.erase(node);
      continue;
    }
    std::vector<Frame<PeerMessage>> frames;
    row.session.tick(outbox_.now(), frames);
    emit(row, std::move(frames));
    watch(node, row);
  }
  return given_up;
}

std::size_t Peers::settle() {
  std::size_t visited = 0;
  deadlines_.settle(
      [&](NodeId node) {
        ++visited;
        return rows_.find(node);
      },
      [](const Row& row) { return row.deadline(); });
  return visited;
}

bool Peers::deadlines_are_exact() const {
  std::optional<Time> first;
  for (const auto& [node, row] : rows_) take_earlier(first, row.deadline());
  return first == next_deadline();
}

}  // namespace mobula::internal::worker
