// The rows of the journal as the head's core writes them; encoded with the protocol's codec, so
// fields are appended, never reordered. Plain structs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/agent_control.h"
#include "protocol/process_control.h"

namespace mobula::internal::head {

// table "meta", key "epoch".
struct EpochRow {
  std::uint64_t epoch = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("epoch", &EpochRow::epoch));
  }
};

// table "nodes". A dead node stays as long as its incarnations have to be kept out.
struct NodeRow {
  AgentAddress address;
  std::string host;
  Role role = Role::agent;
  bool dead = false;
  std::vector<ProcessId> fenced;  // incarnations that were declared dead, oldest first
  bool draining = false;          // this incarnation is to get nothing more
  Duration drain_within{};        // what is left there after so long is ended; 0: it stays
  std::string drain_why;
  std::string admitted_as;  // the key that the node belongs to, as the table of keys calls it
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("address", &NodeRow::address), field("host", &NodeRow::host),
                 field("role", &NodeRow::role), field("dead", &NodeRow::dead),
                 field("fenced", &NodeRow::fenced), field("draining", &NodeRow::draining),
                 field("drain_within", &NodeRow::drain_within),
                 field("drain_why", &NodeRow::drain_why),
                 field("admitted_as", &NodeRow::admitted_as));
  }
};

// table "jobs".
struct JobRow {
  StartJob start;
  NodeId node;         // of the driver
  bool ended = false;  // only its detached actors go on
  std::int64_t absent_since_ms = 0;  // wall clock, since its driver is missing; 0: it is not
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("start", &JobRow::start), field("node", &JobRow::node),
                 field("ended", &JobRow::ended), field("absent_since_ms", &JobRow::absent_since_ms));
  }
};

// table "groups".
struct GroupRow {
  GroupSpec spec;
  std::vector<BundlePlace> places;  // by bundle
  bool created = false;             // all bundles have had a place, which some may have lost
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("spec", &GroupRow::spec), field("places", &GroupRow::places),
                 field("created", &GroupRow::created));
  }
};

// That a command is to be started, written before anybody is told to: an attempt that nobody knows of but this row
// may have run.
struct StartOrder {
  std::uint32_t attempt = 0;  // incarnation that it makes; of `ActorRow::incarnation` or less: over
  NodeId node;
  ProcessId agent;  // that node's, which is told
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("attempt", &StartOrder::attempt), field("node", &StartOrder::node),
                 field("agent", &StartOrder::agent));
  }
};

// table "actors": detached and named ones. A detached one outlives its job, so the row has what its
// executor needs of it.
struct ActorRow {
  ActorSpec spec;
  ProgramRecord program;
  Environment job_env;
  std::int64_t restarts_used = 0;
  std::uint32_t incarnation = 0;
  StartOrder order{};  // of a command
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("spec", &ActorRow::spec), field("program", &ActorRow::program),
                 field("job_env", &ActorRow::job_env),
                 field("restarts_used", &ActorRow::restarts_used),
                 field("incarnation", &ActorRow::incarnation), field("order", &ActorRow::order));
  }
};

// table "tokens": the public half of what somebody was given, and what became of it. Of role agent it
// is a ticket: with it one machine is let in once, under a key of its own.
struct TokenRow {
  std::string id;  // 16 hex digits
  std::string name;
  Role role = Role::observer;
  std::string public_key;        // CURVE, Z85
  std::int64_t created_ms = 0;   // wall clock of the head
  std::int64_t expires_ms = 0;   // 0: never
  std::int64_t revoked_ms = 0;   // 0: it is not
  std::int64_t used_ms = 0;      // of a ticket; 0: it is not
  std::string used_by;           // the machine that says it has joined by it
  std::string member_key;        // that machine's
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("id", &TokenRow::id), field("name", &TokenRow::name),
                 field("role", &TokenRow::role), field("public_key", &TokenRow::public_key),
                 field("created_ms", &TokenRow::created_ms),
                 field("expires_ms", &TokenRow::expires_ms),
                 field("revoked_ms", &TokenRow::revoked_ms), field("used_ms", &TokenRow::used_ms),
                 field("used_by", &TokenRow::used_by), field("member_key", &TokenRow::member_key));
  }
};

// In the order of a submitted job's life; those after `running` are its ends.
enum class SubmissionState : std::uint8_t { pending = 0, running = 1, succeeded = 2, failed = 3, stopped = 4, lost = 5 };

// table "submissions": what was asked for, and what became of it.
struct SubmissionRow {
  JobId job;
  EntryPoint entry;
  std::string name;
  Labels labels;  // for people
  Environment env;
  Request request;
  JobTerms terms;
  std::int64_t retries = 0;  // -1: for ever
  SubmissionState state = SubmissionState::pending;
  std::int32_t exit_code = -1;  // of the last attempt; -1: none
  std::int32_t signal = 0;
  std::string reason;    // it waits, or ended so
  std::string stop_why;  // it was told to end
  NodeId node;           // where it ran last
  std::uint32_t attempts = 0;
  std::int64_t submitted_ms = 0;  // wall clock
  std::int64_t started_ms = 0;    // of the last attempt
  std::int64_t ended_ms = 0;
  std::string owner;  // who has submitted it, as the table of keys calls that key
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("job", &SubmissionRow::job), field("entry", &SubmissionRow::entry),
                 field("name", &SubmissionRow::name), field("labels", &SubmissionRow::labels),
                 field("env", &SubmissionRow::env), field("request", &SubmissionRow::request),
                 field("terms", &SubmissionRow::terms), field("retries", &SubmissionRow::retries),
                 field("state", &SubmissionRow::state), field("exit_code", &SubmissionRow::exit_code),
                 field("signal", &SubmissionRow::signal), field("reason", &SubmissionRow::reason),
                 field("stop_why", &SubmissionRow::stop_why), field("node", &SubmissionRow::node),
                 field("attempts", &SubmissionRow::attempts),
                 field("submitted_ms", &SubmissionRow::submitted_ms),
                 field("started_ms", &SubmissionRow::started_ms),
                 field("ended_ms", &SubmissionRow::ended_ms), field("owner", &SubmissionRow::owner));
  }
};

}  // namespace mobula::internal::head
