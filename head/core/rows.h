// Rows of the journal, encoded with the protocol's codec: fields are appended, never reordered.
// Plain structs.
// Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/messages/agent_control.h"
#include "protocol/messages/process_control.h"

namespace mobula::internal::head {

// Table "meta", key "epoch".
struct EpochRow {
  std::uint64_t epoch = 0;
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("epoch", &EpochRow::epoch));
  }
};

// Table "nodes". The row of a dead node stays as long as its incarnations must be rejected.
struct NodeRow {
  AgentAddress address;
  std::string host;
  Role role = Role::agent;
  bool dead = false;
  std::vector<ProcessId> fenced;  // incarnations that were declared dead, oldest first
  bool draining = false;          // this incarnation gets no more work
  Duration drain_timeout{};       // time until remaining work is terminated; 0: never
  std::string drain_why;
  std::string admitted_as;  // user id of the key that owns the node
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("address", &NodeRow::address), field("host", &NodeRow::host),
                 field("role", &NodeRow::role), field("dead", &NodeRow::dead),
                 field("fenced", &NodeRow::fenced), field("draining", &NodeRow::draining),
                 field("drain_timeout", &NodeRow::drain_timeout),
                 field("drain_why", &NodeRow::drain_why),
                 field("admitted_as", &NodeRow::admitted_as));
  }
};

// Table "jobs".
struct JobRow {
  StartJob start;
  NodeId node;                       // node of the driver
  bool ended = false;                // only its detached actors continue
  std::int64_t absent_since_ms = 0;  // wall clock of the start of the driver's absence; 0: present
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("start", &JobRow::start), field("node", &JobRow::node),
                 field("ended", &JobRow::ended),
                 field("absent_since_ms", &JobRow::absent_since_ms));
  }
};

// Table "groups".
struct GroupRow {
  GroupSpec spec;
  std::vector<BundlePlace> places;  // by bundle
  bool created = false;             // all bundles were placed once; some may be lost
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("spec", &GroupRow::spec), field("places", &GroupRow::places),
                 field("created", &GroupRow::created));
  }
};

// Order to start a command, written before it is sent. An attempt that only this row shows may have
// run.
struct StartOrder {
  // Incarnation that it creates; settled if `ActorRow::incarnation` has reached it.
  std::uint32_t attempt = 0;
  NodeId node;
  ProcessId agent;  // agent of the node, which receives the order
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("attempt", &StartOrder::attempt), field("node", &StartOrder::node),
                 field("agent", &StartOrder::agent));
  }
};

// Table "actors": detached and named actors. A detached actor outlives its job, so the row contains
// the program and the environment for its executor.
struct ActorRow {
  ActorSpec spec;
  ProgramRecord program;
  Environment job_env;
  std::int64_t restarts_used = 0;
  std::uint32_t incarnation = 0;
  StartOrder order{};  // order of a command
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("spec", &ActorRow::spec), field("program", &ActorRow::program),
                 field("job_env", &ActorRow::job_env),
                 field("restarts_used", &ActorRow::restarts_used),
                 field("incarnation", &ActorRow::incarnation), field("order", &ActorRow::order));
  }
};

// Table "tokens": the public half of a token and its state. A token with role agent is a join
// token: it admits one machine once, under that machine's own key.
struct TokenRow {
  std::string id;  // 16 hexadecimal digits
  std::string name;
  Role role = Role::observer;
  std::string public_key;       // CURVE key, Z85
  std::int64_t created_ms = 0;  // wall clock of the head
  std::int64_t expires_ms = 0;  // 0: never
  std::int64_t revoked_ms = 0;  // 0: not revoked
  std::int64_t used_ms = 0;     // time of use of a join token; 0: not used
  std::string used_by;          // host name that the joined machine reports
  std::string member_key;       // key of that machine
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

// States in the order of a submitted job's life. Those after `running` are final.
enum class SubmissionState : std::uint8_t {
  pending = 0,
  running = 1,
  succeeded = 2,
  failed = 3,
  stopped = 4,
  lost = 5
};

// Table "submissions": the request of a submitted job, and its state.
struct SubmissionRow {
  JobId job;
  EntryPoint entry;
  std::string name;
  Labels labels;  // for users
  Environment env;
  Request request;
  JobTerms terms;
  std::int64_t retries = 0;  // -1: unlimited
  SubmissionState state = SubmissionState::pending;
  std::int32_t exit_code = -1;  // exit code of the last attempt; -1: none
  std::int32_t signal = 0;
  std::string reason;    // reason for waiting or for the end
  std::string stop_why;  // reason of a requested stop
  NodeId node;           // node of the last attempt
  std::uint32_t attempts = 0;
  std::int64_t submitted_ms = 0;  // wall clock
  std::int64_t started_ms = 0;    // start of the last attempt
  std::int64_t ended_ms = 0;
  std::string owner;  // user id of the submitting key
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(
        field("job", &SubmissionRow::job), field("entry", &SubmissionRow::entry),
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
