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
  MOBULA_FIELDS(epoch);
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
  MOBULA_FIELDS(address, host, role, dead, fenced, draining, drain_timeout, drain_why, admitted_as);
};

// Table "jobs".
struct JobRow {
  StartJob start;
  NodeId node;                       // node of the driver
  bool ended = false;                // only its detached actors continue
  std::int64_t absent_since_ms = 0;  // wall clock of the start of the driver's absence; 0: present
  MOBULA_FIELDS(start, node, ended, absent_since_ms);
};

// Table "groups".
struct GroupRow {
  GroupSpec spec;
  std::vector<BundleLocation> locations;  // by bundle
  bool created = false;                   // all bundles were placed once; some may be lost
  MOBULA_FIELDS(spec, locations, created);
};

// Order to start a command, written before it is sent. An attempt that only this row shows may have
// run.
struct StartOrder {
  // Incarnation that it creates; settled if `ActorRow::incarnation` has reached it.
  std::uint32_t attempt = 0;
  NodeId node;
  ProcessId agent;  // agent of the node, which receives the order
  MOBULA_FIELDS(attempt, node, agent);
};

// Table "actors": detached and named actors. A detached actor outlives its job, so the row contains
// the program and the environment for its executor.
struct ActorRow {
  ActorSpec spec;
  ProgramRecord program;
  Environment job_env;
  std::int64_t restarts_used = 0;
  std::uint32_t incarnation = 0;
  StartOrder order{};    // order of a command
  bool leaving = false;  // user code called exit_actor: the actor has no name
  bool lived = false;    // incarnation `incarnation` was alive; not written for detached actors
  MOBULA_FIELDS(spec, program, job_env, restarts_used, incarnation, order, leaving, lived);
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
  MOBULA_FIELDS(id, name, role, public_key, created_ms, expires_ms, revoked_ms, used_ms, used_by,
                member_key);
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
  MOBULA_FIELDS(job, entry, name, labels, env, request, terms, retries, state, exit_code, signal,
                reason, stop_why, node, attempts, submitted_ms, started_ms, ended_ms, owner);
};

}  // namespace mobula::internal::head
