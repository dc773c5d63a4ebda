// The agent's conversation with the head: registers, again and again with growing pauses, until the
// head answers; then one sequenced session per head epoch, with heartbeats. Part of WorkerCore.
//
// Between registering and the answer the node goes on: the head takes the facts of one registration,
// and which of them that was nobody can tell, so all that was told since the first is told again.
// Each message may therefore say what the facts have said already.
//
// Bounds. Of processes nothing is kept while there is no conversation: they restate when there is
// one. In a conversation whose head is away, messages wait in the session; of processes at most
// `max_head_backlog` (then they are refused, and the caller makes the process restate). Beyond twice
// that, in a conversation or before it, facts are dropped and stated in full afterwards.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "session/session.h"
#include "worker/core/outbox.h"
#include "worker/core/worker_options.h"

namespace mobula::internal::worker {

class HeadSession {
 public:
  using HeadConversation = Session<AgentMessage, HeadMessage>;

  // What the conversation needs to know of the node whenever it speaks.
  struct NodeState {
    std::function<Facts()> facts;
    std::function<std::uint64_t()> slots_digest;
    std::function<std::vector<TransferCount>()> stored;  // as AgentFrame has them
    std::function<std::vector<NodeId>()> silent_peers;
  };

  // What the head's word means to the rest of the core.
  struct Heard {
    std::optional<Registered> admitted{};  // a conversation begins
    std::optional<Refused> refused{};      // fenced, or finally
    std::optional<HeadMessage> message{};
    std::optional<TicketRenewed> renewed{};
    bool facts_due = false;  // some were dropped: state all, before the message is carried out
  };

  HeadSession(Outbox& outbox, const WorkerOptions& options, NodeState state);

  void start(Started started);
  // No more registering and no more heartbeats; sessions still resend.
  void end();

  void link(bool connected);
  Heard heard(HeadToAgent message);
  // The message last heard has been carried out.
  void carried_out() { applied_ = session_ ? session_->received() : 0; }
  // A fact for the head.
  void tell(AgentMessage message);
  // Of a process; false: it could not be kept, the process is to say it again.
  bool relay(FromProcess message);
  void farewell();
  void shift_deadlines(Duration gap);
  void tick();
  std::optional<Time> next_deadline() const;

  bool started() const { return started_.has_value(); }
  bool registered() const { return session_.has_value(); }
  // In a conversation, the way is up and the head is not silent.
  bool reachable() const;
  // Its backlog has room for what processes say.
  bool takes_relays() const {
    return session_ && session_->backlog() < options_.max_head_backlog / 2;
  }
  // Output of executors is not kept for a head that is slow.
  bool takes_output() const { return session_ && session_->backlog() < max_backlog_for_output; }
  bool drained() const { return !session_ || session_->drained(); }
  std::uint64_t epoch() const { return epoch_; }
  // The head's last command that was carried out in this conversation.
  std::uint64_t applied() const { return applied_; }
  // When the head was heard last; nothing before the first registration.
  std::optional<Time> heard_at() const { return heard_at_; }
  const ClusterSettings& settings() const { return settings_; }
  // Its version that was agreed last; 0: none was.
  std::uint32_t protocol() const { return protocol_; }
  const Started& node() const { return *started_; }
  // The trusted network of this node: the one it says, else the whole cluster's where the head says so.
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
  Heard heard(Registered registered);
  Heard heard(Refused refused);
  Heard heard(HeadFrame frame);
  Heard heard(TicketRenewed renewed);

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
  std::uint64_t told_ = 0;  // messages given to the session
  std::vector<AgentMessage> told_meanwhile_;  // since the first registration without an answer
  ClusterSettings settings_;
  std::uint32_t protocol_ = 0;
  std::string head_signing_key_;
  std::optional<Time> heard_at_;
  std::optional<Time> register_at_;
  Duration register_wait_{};
  std::optional<Time> heartbeat_at_;
  bool facts_due_ = false;  // some were dropped since they were stated last
};

}  // namespace mobula::internal::worker
