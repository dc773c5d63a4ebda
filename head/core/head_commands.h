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
  MOBULA_FIELDS(link, message);
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
  MOBULA_FIELDS(link, registered, principal, address, delegated_key, admitted_as, expires_ms);
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
  MOBULA_FIELDS(link, epoch, principal, address, delegated_key, admitted_as, expires_ms);
  friend bool operator==(const RenewTicket&, const RenewTicket&) = default;
};

struct ReplyToTool {
  LinkId link = 0;
  ToolReply reply;
  MOBULA_FIELDS(link, reply);
  friend bool operator==(const ReplyToTool&, const ReplyToTool&) = default;
};

struct JournalChange {
  std::string table;
  std::string key;
  Bytes value;
  bool erase = false;
  MOBULA_FIELDS(table, key, value, erase);
  friend bool operator==(const JournalChange&, const JournalChange&) = default;
};

// Makes the changes durable, all or none, after all batches with lower numbers. The shell replies
// with Persisted. Numbers are consecutive from 1 in each run.
struct Persist {
  std::uint64_t n = 0;
  std::vector<JournalChange> changes;
  MOBULA_FIELDS(n, changes);
  friend bool operator==(const Persist&, const Persist&) = default;
};

// Tries to connect to `address` (NAME:PORT). The shell replies with NodeProbed. No answer within
// about a second means not refused.
struct ProbeNode {
  ProcessId incarnation;
  std::string address;
  MOBULA_FIELDS(incarnation, address);
  friend bool operator==(const ProbeNode&, const ProbeNode&) = default;
};

// The core sends nothing more on this link. The shell may close it after sending.
struct CloseLink {
  LinkId link = 0;
  MOBULA_FIELDS(link);
  friend bool operator==(const CloseLink&, const CloseLink&) = default;
};

// Accepts connections with this key as `user_id`. An empty `user_id` removes the key.
struct AdmitKey {
  std::string public_key;
  std::string user_id;
  MOBULA_FIELDS(public_key, user_id);
  friend bool operator==(const AdmitKey&, const AdmitKey&) = default;
};

// Writes a line to the head's log.
struct WriteLog {
  std::string text;
  MOBULA_FIELDS(text);
  friend bool operator==(const WriteLog&, const WriteLog&) = default;
};

using Command = std::variant<SendToAgent, Admit, ReplyToTool, Persist, ProbeNode, CloseLink,
                             WriteLog, AdmitKey, RenewTicket>;

}  // namespace mobula::internal::head
