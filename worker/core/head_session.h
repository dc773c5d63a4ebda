// The agent's connection to the head: registers with a growing backoff until the head replies, then
// keeps one sequenced session per head epoch, with heartbeats. Messages between the first
// registration and the reply are queued and sent in the new session, because the head may have read
// the facts of any attempt. A message may therefore repeat a fact.
// Without a session, messages of processes are not stored: processes restate when a session begins.
// Thread: owner (WorkerCore). Not: the meaning of messages.
// Errors: beyond `max_head_backlog` messages, relays are rejected, and the process must restate.
// Beyond twice that number, facts are dropped, and all facts are stated later.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "protocol/session/session.h"
#include "worker/core/outbox.h"
#include "worker/core/worker_options.h"

namespace mobula::internal::worker {

class HeadSession {
 public:
  using HeadConversation = Session<AgentMessage, HeadMessage>;

  // Queries of the node's state, evaluated when a message is sent.
  struct NodeState {
    std::function<Facts()> facts;
    std::function<std::uint64_t()> slots_digest;
    std::function<std::vector<TransferCount>()> stored;  // transfer counters, as in AgentFrame
    std::function<std::vector<NodeId>()> silent_peers;
  };

  // Results of a received message that the rest of the core must apply.
  struct Received {
    std::optional<RegisterReply> admitted{};    // a session has begun
    std::optional<RegisterRejected> refused{};  // fenced, or rejected permanently
    std::optional<HeadMessage> message{};
    std::optional<TicketRenewed> renewed{};
    bool facts_due = false;  // facts were dropped: state all facts before the message is applied
  };

  HeadSession(Outbox& outbox, const WorkerOptions& options, NodeState state);

  void start(Started started);
  // Stops registrations and heartbeats. An existing session still resends.
  void end();

  void link(bool connected);
  Received on(HeadToAgent message);
  // The last received message has been applied.
  void carried_out() { applied_ = session_ ? session_->received() : 0; }
  // Sends a fact to the head.
  void tell(AgentMessage message);
  // Relays a message of a process. False: the backlog is full, and the process must send it again.
  bool relay(FromProcess message);
  void farewell();
  void shift_deadlines(Duration gap);
  void tick();
  std::optional<Time> next_deadline() const;

  bool started() const { return started_.has_value(); }
  bool registered() const { return session_.has_value(); }
  // True if a session exists, the link is up, and the head is not silent.
  bool reachable() const;
  // True if the backlog accepts messages of processes.
  bool takes_relays() const {
    return session_ && session_->backlog() < options_.max_head_backlog / 2;
  }
  // Output of executors is not queued for a slow head.
  bool takes_output() const { return session_ && session_->backlog() < max_backlog_for_output; }
  bool drained() const { return !session_ || session_->drained(); }
  std::uint64_t epoch() const { return epoch_; }
  // Number of the last command of the head that was applied in this session.
  std::uint64_t applied() const { return applied_; }
  // Time of the last message from the head; empty before the first registration.
  std::optional<Time> last_received_at() const { return last_received_at_; }
  const ClusterSettings& settings() const { return settings_; }
  // Protocol version of the last agreement with the head; 0: no agreement yet.
  std::uint32_t protocol() const { return protocol_; }
  const Started& node() const { return *started_; }
  // The trusted fabric of this node: its own setting, else the cluster-wide fabric if the head
  // declares one.
  std::string fabric() const {
    if (!started_->shape.fabric.empty()) return started_->shape.fabric;
    return settings_.trusted_fabric ? std::string(cluster_fabric) : std::string();
  }
  const std::string& signing_key() const { return head_signing_key_; }
  bool was_admitted() const { return epoch_ != 0; }

 private:
  void send_register();
  void begin_registering();
  void send(std::vector<Frame<AgentMessage>> frames);
  Received on(RegisterReply registered);
  Received on(RegisterRejected refused);
  Received on(HeadFrame frame);
  Received on(TicketRenewed renewed);

  static constexpr std::size_t max_backlog_for_output = 256;

  Outbox& outbox_;
  const WorkerOptions& options_;
  NodeState state_;
  std::optional<Started> started_;
  bool ended_ = false;
  bool link_up_ = false;
  std::uint64_t epoch_ = 0;
  std::optional<HeadConversation> session_;
  std::uint64_t applied_ = 0;
  std::uint64_t sent_ = 0;                    // messages passed to the session
  std::vector<AgentMessage> sent_meanwhile_;  // since the first unanswered registration
  ClusterSettings settings_;
  std::uint32_t protocol_ = 0;
  std::string head_signing_key_;
  std::optional<Time> last_received_at_;
  std::optional<Time> register_at_;
  Duration register_wait_{};
  std::optional<Time> heartbeat_at_;
  bool facts_due_ = false;  // facts were dropped since the last full statement
};

}  // namespace mobula::internal::worker
