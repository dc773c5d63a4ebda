// Who belongs to the cluster: agents by node id and incarnation, their links and sequenced
// conversations, silence, death and fencing. Tells the other tables when a node comes, goes or
// falls silent; decides nothing about what runs there. Owned by one HeadCore; not thread-safe.
//
// A node is *expected* (the journal names it, it has not registered yet), *alive*, *suspect* after
// `suspect_after` of silence, and *dead* after `dead_after`, or at once when its port refuses. A
// dead incarnation never comes back: whatever it says is answered Refused{fenced}.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/table.h"
#include "head/core/device_claims.h"
#include "head/core/inputs.h"
#include "head/core/options.h"
#include "head/core/rows.h"
#include "head/core/view.h"
#include "session/session.h"

namespace mobula::internal::head {

struct Parts;

using AgentSession = Session<HeadMessage, AgentMessage>;

enum class DeathKind : std::uint8_t {
  silent,   // it may still run behind a broken network
  refused,  // nobody listens on its port: its processes are gone, too
  left,     // said farewell
  replaced, // a newer incarnation of the node has registered
  revoked,  // its key lets it in no more
};

// A newer incarnation that waits until it is known whether the one before it still lives.
struct Rival {
  LinkId link = 0;
  Principal principal;
  std::string user_id;
  Register message;
};

struct Node {
  NodeId id;
  NodeState state = NodeState::expected;
  bool draining = false;
  Duration drain_within{};         // as it was asked for; 0: without a deadline
  std::optional<Time> entries_due{};  // when the next of its commands is told to end
  std::optional<Time> drained_by;  // what is left there then is ended
  std::string drain_why;
  std::size_t drain_ended = 0;     // leases that its deadline has ended
  bool leaving = false;            // its agent ends and has asked for the drain itself
  Role role = Role::agent;
  AgentAddress address;  // with the incarnation
  Principal principal;
  std::string admitted_as;  // the key that it belongs to, as the table of keys calls it; empty: none is known
  std::string host;
  std::string delegated_key;
  std::string release;         // of Mobula there
  std::uint32_t protocol = 0;  // that was agreed with its agent
  std::optional<Time> ticket_due;  // when it is renewed
  NodeShape shape;  // what is booked on; refused devices are empty in it
  std::vector<RefusedDevice> refused_devices;
  std::vector<ProcessId> fenced;
  std::string death;  // why it is dead
  MemoryPressure pressure;  // as its agent has said last

  LinkId link = 0;
  Time heard;          // last sign of life
  Time told;           // last frame to it
  std::optional<AgentSession> session;
  std::uint64_t queued = 0;   // number of the last message for it
  std::uint64_t applied = 0;  // number of the last it has carried out
  bool refused = false;       // its port refused while no deaths were declared
  std::optional<Time> facts_asked;    // when; its slots differed from what the head believes
  std::uint64_t facts_asked_by = 0;   // number of that question
  std::uint64_t output_dropped = 0;   // lines of executors elsewhere
  std::optional<Rival> rival;
  std::vector<SlotId> unknown_slots;  // of its registration, in case the answer is lost
  std::size_t due_at = 0;             // where NodeTable keeps its deadline
  bool due_changed = false;

  bool registered() const { return session.has_value(); }
  bool slots_allowed() const { return role == Role::agent; }
};

class NodeTable {
 public:
  explicit NodeTable(Parts& parts) : parts_(parts) {}

  void restore(const NodeRow& row);
  // The epoch is durable: registrations are answered from now on.
  void serve();

  void said(AgentSaid event);
  // All agents get their tickets again, because the wall clock has jumped.
  void renew_tickets();
  // The raised epoch is durable: from now on this head has it.
  void take_raised_epoch();
  void link_lost(LinkId link);
  void probed(const NodeProbed& event);
  void shift(Duration gap);
  // The agent states all it knows; what it and the head do not agree on is mended.
  void stated(NodeId node, const FullFacts& message);
  // Judges silence and repeats what is due.
  void tick();
  std::optional<Time> next_deadline();

  // Queues a message for the node's agent and returns its number; 0 if the node has no agent now.
  std::uint64_t send(NodeId node, Kept<HeadMessage> message);
  void broadcast(const Kept<HeadMessage>& message, NodeId except = {});
  // Output of executors for the node's drivers; dropped, and counted, where it does not take it.
  void pass_output(NodeId node, const JobPrinted& output);
  void pressed(NodeId node, const MemoryPressure& message);
  // Gives the node nothing more, recalls its tasks and moves its actors; `within` so long, if that is
  // positive, what is left is ended. Lasts as long as this incarnation of the node, and is written: a
  // head that is started anew goes on with it, its deadline counted from the end of recovery. Why not,
  // if there is no such node.
  Result<void> drain(NodeId node, Duration within, const std::string& why);
  // Its agent has said that it ends: a drain that nobody takes back.
  void leaves(NodeId node, Duration within);
  // The node gets work again, before its deadline or after it; written as a drain is. What was moved or told to
  // end stays so. Whether it was draining; not_found where no agent is there for it, invalid_argument where the
  // agent ends.
  Result<bool> undrain(NodeId node);

  // This key lets nobody in any more (VoidKeys): its nodes are dead at once, and all agents hear of it.
  void key_voided(const std::string& user_id, const std::string& why);

  bool recovering() const { return recovering_until_.has_value(); }
  const Node* find(NodeId node) const { return nodes_.find(node); }
  // Whose agent it is now; empty: nobody's.
  NodeId of_incarnation(ProcessId incarnation) const {
    const NodeId* node = incarnations_.find(incarnation);
    return node == nullptr ? NodeId{} : *node;
  }
  const Table<NodeId, Node>& rows() const { return nodes_; }
  std::int64_t expected() const;

 private:
  void register_node(Rival who);
  std::optional<Refused> why_not(const Rival& who) const;
  std::optional<std::string> why_another_key(const Node* node, const Rival& who) const;
  void admit(const Rival& who);
  static bool hears_of_trust(const Node& node);
  std::int64_t ticket_end(const Node& node) const;
  void renew_ticket(Node& node);
  bool served_by_later_head(const Rival& who) const;
  void raise_epoch(const Rival& who);
  void answer_registered(Node& node, std::vector<SlotId> unknown_slots);
  void tell_deaths(const Node& node);
  void tell_drains(const Node& node);
  void meet_rival(Node& node, Rival rival);
  void take_frame(LinkId link, const Principal& principal, AgentFrame frame);
  void farewell(LinkId link, const Principal& principal, const Farewell& message);
  void sign_of_life(Node& node, LinkId link);
  void compare_slots(Node& node, std::uint64_t applied_through, std::uint64_t digest);
  std::uint64_t send(Node& node, Kept<HeadMessage> message);
  // When something is to be done for the node if it says nothing.
  Time due_of(const Node& node) const;
  // What its deadline depends on has changed, or that of all nodes.
  void due_changed(Node& node);
  void all_due_changed();
  std::size_t place_for_due();
  void send_frames(Node& node, std::vector<Frame<HeadMessage>> frames);
  void refuse(LinkId link, Refused refused);
  Refused stranger(ProcessId incarnation) const;
  void declare_dead(Node& node, DeathKind kind, const std::string& why);
  void note_death(const Node& node, DeathKind kind);
  void fence(Node& node, ProcessId incarnation);
  void judge(Node& node);
  void move_away(Node& node);
  void stop_draining(Node& node);
  void end_drain(Node& node);
  void hasten(Node& node);
  void end_recovery_if_due();
  // Devices that no node has any more go to one that offers them, too.
  void offer_free_devices();
  void write_row(const Node& node);
  void forget_oldest_dead();
  std::vector<AgentAddress> peers_of(NodeId node) const;

  Parts& parts_;
  Table<NodeId, Node> nodes_;
  Table<ProcessId, NodeId> incarnations_;  // live ones
  Table<ProcessId, NodeId> fenced_;
  std::map<LinkId, NodeId> links_;
  DeviceClaims claims_;
  std::deque<NodeId> dead_;  // oldest first
  std::optional<Time> recovering_until_;
  // Deadlines side by side: to find the first, not all that is known of a thousand nodes is gone over.
  std::vector<Time> due_;
  std::vector<std::size_t> due_free_;  // places of forgotten nodes
  std::vector<NodeId> due_changed_;
};

}  // namespace mobula::internal::head
