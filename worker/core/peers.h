// The other agents: their addresses, and one sequenced session per pair of incarnations. Messages
// to a node that the head has not named yet are queued; after `peer_unknown_timeout` that node
// counts as dead. The latest 4096 dead nodes and incarnations are remembered: messages to and from
// them are dropped. Thread: owner (WorkerCore). Not: the meaning of messages.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "base/containers/deadline_heap.h"
#include "base/containers/table.h"
#include "protocol/session/session.h"
#include "worker/core/outbox.h"
#include "worker/core/worker_options.h"

namespace mobula::internal::worker {

class Peers {
 public:
  Peers(Outbox& outbox, const WorkerOptions& options) : outbox_(outbox), options_(options) {}

  void start(const AgentAddress& self) { self_ = self; }
  NodeId self() const { return self_.node; }

  // True if the address replaces another incarnation of its node. Call `dead` for that incarnation
  // first.
  bool replaces(const AgentAddress& address) const;
  void present(const AgentAddress& address);
  // Returns the node of this incarnation, if it was the known one.
  std::optional<NodeId> dead(ProcessId incarnation);
  bool is_dead(NodeId node) const { return dead_nodes_.contains(node); }

  void send(NodeId node, PeerMessage message);
  // Empty for repeated messages and unknown senders.
  std::optional<std::pair<NodeId, PeerMessage>> receive(PeerFrame frame);
  void link_up(ProcessId incarnation);
  // An empty incarnation: unknown.
  AgentAddress address(NodeId node) const;
  std::size_t backlog(NodeId node) const;
  // Sends a message that only requests an acknowledgement, unless one is due.
  void check(NodeId node);
  // Present nodes that have acknowledged nothing for `peer_silence_timeout` although messages are
  // due.
  std::vector<NodeId> silent() const;
  // The agent did not run for `gap`.
  void shift_deadlines(Duration gap);

  // Returns nodes whose `peer_unknown_timeout` has expired; the caller treats them as dead.
  std::vector<NodeId> tick();
  std::optional<Time> next_deadline() const { return deadlines_.earliest(); }
  // At the end of a step: next_deadline() is exact then. Returns the number of rows that it
  // visited.
  std::size_t settle();
  bool deadlines_are_exact() const;  // by a walk over all rows: for tests
  std::size_t size() const { return rows_.size(); }

 private:
  using PeerSession = Session<PeerMessage, PeerMessage>;
  static constexpr std::size_t remembered = 4096;

  struct Row {
    AgentAddress address{};
    PeerSession session{};
    std::deque<PeerMessage> waiting{};  // queued until the address is known
    std::optional<Time> known_by{};
    std::optional<Time> unanswered_since{};  // start of silence while messages are due
    std::optional<Time> armed{};             // see DeadlineHeap

    std::optional<Time> deadline() const {
      std::optional<Time> first = session.next_deadline();
      take_earlier(first, known_by);
      return first;
    }
  };
  template <class Key>
  struct Memory {
    std::set<Key> keys{};
    std::deque<Key> order{};
    bool contains(Key key) const { return keys.contains(key); }
    void insert(Key key) {
      if (!keys.insert(key).second) return;
      order.push_back(key);
      if (order.size() <= remembered) return;
      keys.erase(order.front());
      order.pop_front();
    }
    void erase(Key key) {
      if (keys.erase(key) != 0) std::erase(order, key);
    }
  };

  void send(Row& row, PeerMessage message);
  void emit(const Row& row, std::vector<Frame<PeerMessage>> frames);
  void watch(NodeId node, Row& row) { deadlines_.watch(node, row.deadline(), row.armed); }

  Outbox& outbox_;
  const WorkerOptions& options_;
  AgentAddress self_;
  Table<NodeId, Row> rows_;
  DeadlineHeap<NodeId> deadlines_;
  Table<ProcessId, NodeId> nodes_;  // by known incarnation
  Memory<ProcessId> dead_;
  Memory<NodeId> dead_nodes_;
};

}  // namespace mobula::internal::worker
