// Members of the cluster: agents by node id and incarnation, their links and sessions, silence,
// death, and fencing. Notifies the other tables when a node joins, dies, or becomes silent.
// Thread: owner (one HeadCore). Not: decisions about the work on a node.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/containers/deadline_heap.h"
#include "base/containers/table.h"
#include "head/core/head_events.h"
#include "head/core/head_options.h"
#include "head/core/records/rows.h"
#include "head/core/slots/device_claims.h"
#include "head/core/view/head_view.h"
#include "protocol/session/session.h"

namespace mobula::internal::head {

struct HeadTables;

using AgentSession = Session<HeadMessage, AgentMessage>;

enum class DeathKind : std::uint8_t {
  silent,    // may still run behind a broken network
  refused,   // no process listens on its port, so its processes have ended too
  left,      // its agent sent a farewell
  replaced,  // a newer incarnation of the node has registered
  revoked,   // its key was revoked
};

// A newer incarnation that waits until the fate of the earlier one is known.
struct Rival {
  LinkId link = 0;
  Principal principal;
  std::string user_id;
  RegisterRequest message;
};

struct Node {
  NodeId id;
  NodeState state = NodeState::expected;
  bool draining = false;
  Duration drain_timeout{};           // requested deadline; 0: none
  std::optional<Time> entries_due{};  // time at which the next command is terminated
  std::optional<Time> drained_by;     // deadline, after which remaining work is terminated
  std::string drain_why;
  std::size_t drain_ended = 0;  // leases that the deadline terminated
  bool leaving = false;         // its agent stops and requested the drain itself
  Role role = Role::agent;
  AgentAddress address;  // includes the incarnation
  Principal principal;
  std::string admitted_as;  // user id of the key that owns the node; empty: unknown
  std::string host;
  std::string delegated_key;
  std::string release;             // release of Mobula on the node
  std::uint32_t protocol = 0;      // version agreed with its agent
  std::optional<Time> ticket_due;  // time of the next ticket renewal
  NodeShape shape;                 // shape for allocation, in which refused devices are empty
  std::vector<RefusedDevice> refused_devices;
  std::vector<ProcessId> fenced;
  std::string death;        // reason of death
  MemoryPressure pressure;  // last report of its agent

  LinkId link = 0;
  Time last_received;  // time of the last sign of life
  Time last_sent;      // time of the last frame to it
  std::optional<AgentSession> session;
  std::uint64_t queued = 0;   // number of the last message sent to it
  std::uint64_t applied = 0;  // number of the last message that it has executed
  bool refused = false;       // its port refused a connection while the head declared no deaths
  // Time of the last query for full facts, sent after its slots differed from those of the head.
  std::optional<Time> facts_requested;
  std::uint64_t facts_requested_by = 0;  // number of that query
  std::uint64_t output_dropped = 0;      // dropped output lines of executors on other nodes
  std::optional<Rival> rival;
  std::vector<SlotId> unknown_slots;  // reply to its registration, kept in case the reply is lost
  std::optional<Time> armed;          // time of its entry in the deadlines of NodeTable
  bool due_changed = false;

  bool registered() const { return session.has_value(); }
  bool slots_allowed() const { return role == Role::agent; }
};

// A node is *expected* (in the journal, not registered yet), *alive*, *suspect* after
// `suspect_timeout` of silence, or *dead* after `dead_timeout` or when its port refuses a
// connection. A dead incarnation never returns: all its messages are answered with Refused{fenced}.
class NodeTable {
 public:
  explicit NodeTable(HeadTables& tables) : tables_(tables) {}

  void restore(const NodeRow& row);
  // The epoch is durable: registrations are answered from now on.
  void serve();

  void on(ReceivedFromAgent event);
  // Renews the tickets of all agents after a jump of the wall clock.
  void renew_tickets();
  // Adopts the raised epoch, which is durable now.
  void take_raised_epoch();
  void link_lost(LinkId link);
  void probed(const NodeProbed& event);
  void shift(Duration gap);
  // Reconciles the head with a full report of the agent.
  void stated(NodeId node, const FactsReply& message);
  // Judges silence, and resends messages that are due.
  void tick();
  std::optional<Time> next_deadline();

  // Queues a message for the agent of the node. Returns its number, or 0 if the node has no agent
  // now.
  std::uint64_t send(NodeId node, QueuedMessage<HeadMessage> message);
  void broadcast(const QueuedMessage<HeadMessage>& message, NodeId except = {});
  // Forwards output of executors to the drivers of the node. Drops and counts it if the backlog of
  // the node is too large.
  void pass_output(NodeId node, const JobOutputLines& output);
  void pressed(NodeId node, const MemoryPressure& message);
  // Drains the node: it gets no more work, slots are recalled, and actors move. If `timeout` is
  // positive, remaining work is terminated after it. The drain lasts as long as this incarnation of
  // the node and is in the journal. After a restart of the head the deadline counts from the end of
  // recovery. Errors: not_found.
  Result<void> drain(NodeId node, Duration timeout, const std::string& why);
  // The agent announced that it stops: a drain that cannot be cancelled.
  void leaves(NodeId node, Duration timeout);
  // Ends a drain, before or after its deadline, also in the journal. Work that was moved or
  // terminated stays so. Returns whether the node was draining. Errors: not_found without an agent;
  // unavailable before it has registered; invalid_argument if the agent is stopping.
  Result<bool> undrain(NodeId node);

  // A key was revoked (RevocationList): its nodes are dead immediately, and all agents are
  // notified.
  void key_revoked(const std::string& user_id, const std::string& why);

  bool recovering() const { return recovering_until_.has_value(); }
  const Node* find(NodeId node) const { return nodes_.find(node); }
  // Node of the incarnation; empty: none.
  NodeId of_incarnation(ProcessId incarnation) const {
    const NodeId* node = incarnations_.find(incarnation);
    return node == nullptr ? NodeId{} : *node;
  }
  const Table<NodeId, Node>& rows() const { return nodes_; }
  std::int64_t expected() const;

 private:
  void register_node(Rival who);
  std::optional<RegisterRejected> why_not(const Rival& who) const;
  std::optional<std::string> why_another_key(const Node* node, const Rival& who) const;
  void admit(const Rival& who);
  void attach_processes(const Node& node, const Facts& facts);
  static bool hears_of_trust(const Node& node);
  std::int64_t ticket_end(const Node& node) const;
  void renew_ticket(Node& node);
  bool served_by_later_head(const Rival& who) const;
  void raise_epoch(const Rival& who);
  void answer_registered(Node& node, std::vector<SlotId> unknown_slots);
  void report_deaths(const Node& node);
  void report_drains(const Node& node);
  void meet_rival(Node& node, Rival rival);
  void take_frame(LinkId link, const Principal& principal, AgentFrame frame);
  void farewell(LinkId link, const Principal& principal, const AgentStopped& message);
  void sign_of_life(Node& node, LinkId link);
  void compare_slots(Node& node, std::uint64_t applied_through, std::uint64_t digest);
  std::uint64_t send(Node& node, QueuedMessage<HeadMessage> message);
  // Time of the next action for the node if it stays silent.
  std::optional<Time> due_of(const Node& node) const;
  // Marks the deadline of one node, or of all nodes, for recomputation.
  void due_changed(Node& node);
  void all_due_changed();
  void watch_changed();
  void act(Node& node);
  void send_frames(Node& node, std::vector<Frame<HeadMessage>> frames);
  void refuse(LinkId link, RegisterRejected refused);
  RegisterRejected stranger(ProcessId incarnation) const;
  void declare_dead(Node& node, DeathKind kind, const std::string& why);
  void note_death(const Node& node, DeathKind kind);
  void fence(Node& node, ProcessId incarnation);
  void judge(Node& node);
  void move_away(Node& node);
  void stop_draining(Node& node);
  void end_drain(Node& node);
  void hasten(Node& node);
  void end_recovery_if_due();
  // Allocates devices that became free to other nodes that offer them.
  void offer_free_devices();
  void write_row(const Node& node);
  void forget_oldest_dead();
  std::vector<AgentAddress> peers_of(NodeId node) const;

  HeadTables& tables_;
  Table<NodeId, Node> nodes_;
  Table<ProcessId, NodeId> incarnations_;  // live incarnations
  Table<ProcessId, NodeId> fenced_;
  std::map<LinkId, NodeId> links_;
  std::map<LinkId, NodeId> rivals_;  // links of rivals until they are lost, with the node
  DeviceClaims claims_;
  std::deque<NodeId> dead_;  // oldest first
  std::optional<Time> recovering_until_;
  DeadlineHeap<NodeId> due_;
  std::vector<NodeId> due_changed_;
};

}  // namespace mobula::internal::head
