// Commands of the head's core. Each may be executed late and repeated without harm. Plain structs
// with field lists, so that a replay can compare them.
// Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "head/core/head_events.h"

namespace mobula::internal::head {

struct SendToAgent {
  LinkId link = 0;
  HeadToAgent message;  // any message except Registered, which is sent by Admit
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("link", &SendToAgent::link), field("message", &SendToAgent::message));
  }
  friend bool operator==(const SendToAgent&, const SendToAgent&) = default;
};

// Sends `registered` after filling in `ticket` (signed by the head for the agent, with its
// delegated key) and `head_signing_key`.
struct Admit {
  LinkId link = 0;
  RegisterReply registered;
  Principal principal;
  AgentAddress address;
  std::string delegated_key;
  std::string admitted_as;      // for the ticket
  std::int64_t expires_ms = 0;  // for the ticket; milliseconds since 1970
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("link", &Admit::link), field("registered", &Admit::registered),
                 field("principal", &Admit::principal), field("address", &Admit::address),
                 field("delegated_key", &Admit::delegated_key),
                 field("admitted_as", &Admit::admitted_as),
                 field("expires_ms", &Admit::expires_ms));
  }
  friend bool operator==(const Admit&, const Admit&) = default;
};

// Signs a ticket as for Admit, and sends it as TicketRenewed.
struct RenewTicket {
  LinkId link = 0;
  std::uint64_t epoch = 0;
  Principal principal;
  AgentAddress address;
  std::string delegated_key;
  std::string admitted_as;
  std::int64_t expires_ms = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("link", &RenewTicket::link), field("epoch", &RenewTicket::epoch),
                 field("principal", &RenewTicket::principal),
                 field("address", &RenewTicket::address),
                 field("delegated_key", &RenewTicket::delegated_key),
                 field("admitted_as", &RenewTicket::admitted_as),
                 field("expires_ms", &RenewTicket::expires_ms));
  }
  friend bool operator==(const RenewTicket&, const RenewTicket&) = default;
};

struct ReplyToTool {
  LinkId link = 0;
  ToolReply reply;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("link", &ReplyToTool::link), field("reply", &ReplyToTool::reply));
  }
  friend bool operator==(const ReplyToTool&, const ReplyToTool&) = default;
};

struct JournalChange {
  std::string table;
  std::string key;
  Bytes value;
  bool erase = false;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("table", &JournalChange::table), field("key", &JournalChange::key),
                 field("value", &JournalChange::value), field("erase", &JournalChange::erase));
  }
  friend bool operator==(const JournalChange&, const JournalChange&) = default;
};

// Makes the changes durable, all or none, after all batches with lower numbers. The shell replies
// with Persisted. Numbers are consecutive from 1 in each run.
struct Persist {
  std::uint64_t n = 0;
  std::vector<JournalChange> changes;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("n", &Persist::n), field("changes", &Persist::changes));
  }
  friend bool operator==(const Persist&, const Persist&) = default;
};

// Tries to connect to `address` (NAME:PORT). The shell replies with NodeProbed. No answer within
// about a second means not refused.
struct ProbeNode {
  ProcessId incarnation;
  std::string address;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("incarnation", &ProbeNode::incarnation),
                 field("address", &ProbeNode::address));
  }
  friend bool operator==(const ProbeNode&, const ProbeNode&) = default;
};

// The core sends nothing more on this link. The shell may close it after sending.
struct CloseLink {
  LinkId link = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("link", &CloseLink::link));
  }
  friend bool operator==(const CloseLink&, const CloseLink&) = default;
};

// Accepts connections with this key as `user_id`. An empty `user_id` removes the key.
struct AdmitKey {
  std::string public_key;
  std::string user_id;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("public_key", &AdmitKey::public_key), field("user_id", &AdmitKey::user_id));
  }
  friend bool operator==(const AdmitKey&, const AdmitKey&) = default;
};

// Writes a line to the head's log.
struct WriteLog {
  std::string text;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("text", &WriteLog::text));
  }
  friend bool operator==(const WriteLog&, const WriteLog&) = default;
};

using Command = std::variant<SendToAgent, Admit, ReplyToTool, Persist, ProbeNode, CloseLink,
                             WriteLog, AdmitKey, RenewTicket>;

}  // namespace mobula::internal::head
