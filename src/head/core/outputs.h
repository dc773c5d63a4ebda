// What the head's core wants done. Every command may be carried out late, and sent again without
// harm. Plain structs with field lists, so that a replay can compare them.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "head/core/inputs.h"

namespace mobula::internal::head {

struct SendAgent {
  LinkId link = 0;
  HeadToAgent message;  // never Registered: that is Admit
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("link", &SendAgent::link), field("message", &SendAgent::message));
  }
  friend bool operator==(const SendAgent&, const SendAgent&) = default;
};

// Send `registered` after filling in `ticket` (signed by the head for the agent, with its delegated
// key) and `head_signing_key`.
struct Admit {
  LinkId link = 0;
  Registered registered;
  Principal principal;
  AgentAddress address;
  std::string delegated_key;
  std::string admitted_as;      // of the ticket
  std::int64_t expires_ms = 0;  // likewise
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("link", &Admit::link), field("registered", &Admit::registered),
                 field("principal", &Admit::principal), field("address", &Admit::address),
                 field("delegated_key", &Admit::delegated_key),
                 field("admitted_as", &Admit::admitted_as), field("expires_ms", &Admit::expires_ms));
  }
  friend bool operator==(const Admit&, const Admit&) = default;
};

// Sign a ticket as for Admit, and send it as TicketRenewed.
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
                 field("principal", &RenewTicket::principal), field("address", &RenewTicket::address),
                 field("delegated_key", &RenewTicket::delegated_key),
                 field("admitted_as", &RenewTicket::admitted_as),
                 field("expires_ms", &RenewTicket::expires_ms));
  }
  friend bool operator==(const RenewTicket&, const RenewTicket&) = default;
};

struct ReplyTool {
  LinkId link = 0;
  ToolReply reply;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("link", &ReplyTool::link), field("reply", &ReplyTool::reply));
  }
  friend bool operator==(const ReplyTool&, const ReplyTool&) = default;
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

// Make the changes durable, all or none, after all batches with lower numbers; then say Persisted.
// Numbers rise by one from 1 in each run.
struct Persist {
  std::uint64_t n = 0;
  std::vector<JournalChange> changes;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("n", &Persist::n), field("changes", &Persist::changes));
  }
  friend bool operator==(const Persist&, const Persist&) = default;
};

// Try to connect to `address` (NAME:PORT), then say NodeProbed. No answer in about a second: not
// refused.
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

// Everything for this link has been said; the shell may close it after sending.
struct CloseLink {
  LinkId link = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("link", &CloseLink::link));
  }
  friend bool operator==(const CloseLink&, const CloseLink&) = default;
};

// Let connections with this key in, as `user_id`; no more, where that is empty.
struct AdmitKey {
  std::string public_key;
  std::string user_id;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("public_key", &AdmitKey::public_key), field("user_id", &AdmitKey::user_id));
  }
  friend bool operator==(const AdmitKey&, const AdmitKey&) = default;
};

// A line for the head's log.
struct WriteLog {
  std::string text;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("text", &WriteLog::text));
  }
  friend bool operator==(const WriteLog&, const WriteLog&) = default;
};

using Command = std::variant<SendAgent, Admit, ReplyTool, Persist, ProbeNode, CloseLink, WriteLog,
                             AdmitKey, RenewTicket>;

}  // namespace mobula::internal::head
