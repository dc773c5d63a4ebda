// Queries of tools for the times of calls. A query goes to the processes that own and run calls,
// and to the agents of nodes that received objects. The reply is sent when all have answered, or
// after `list_timeout` with the names of the missing ones. Results are forwarded unchanged.
// Thread: owner (one HeadCore).
// Not: live state. It keeps only the last results of exited processes, up to a limit.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "head/core/head_events.h"
#include "head/core/query/fan_out.h"
#include "head/core/query/query_targets.h"
#include "protocol/messages/facts/span_facts.h"

namespace mobula::internal::head {

struct HeadTables;

class SpanQuery {
 public:
  explicit SpanQuery(HeadTables& tables) : tables_(tables) {}

  // `argument` of the request is the id of a job in hexadecimal or empty. `kind` is the id of a
  // task or empty.
  void start(LinkId link, const ToolRequest& request);
  // `sender` is a process of the node or the incarnation of its agent.
  void on(ProcessId sender, NodeId node, const SpansReply& message);
  // The spans of the process ended with it, so queries no longer wait for it.
  void process_ended(ProcessId process);
  void tick();
  std::optional<Time> next_deadline() const;

 private:
  static constexpr std::size_t max_open = 16;
  static constexpr std::uint64_t max_spans = 100'000;  // requested from all processes together
  static constexpr std::uint64_t min_limit = 256;      // requested from one process
  static constexpr std::uint64_t max_limit = 8192;
  static constexpr std::size_t max_bytes = 12u << 20;       // size limit of one reply
  static constexpr std::size_t max_ended_bytes = 8u << 20;  // for all exited processes
  static constexpr std::size_t max_ended_each = 1u << 20;   // for one exited process
  static constexpr std::size_t max_ended = 4096;

  struct Sender {
    Role role = Role::unproven;
    std::int64_t pid = 0;
    JobId job{};
    NodeId node{};
    std::string host{};
    bool ended = false;
  };
  struct Ended {
    ProcessId process{};
    Sender sender{};
    SpansReply spans{};
    std::size_t bytes = 0;  // approximate
  };
  struct Question {
    LinkId link = 0;
    std::uint64_t request = 0;
    JobId job;    // empty: all jobs
    TaskId task;  // empty: all tasks
    std::map<ProcessId, std::pair<Sender, SpansReply>> replies;
    std::size_t bytes = 0;       // approximate
    std::uint64_t left_out = 0;  // processes, because of the size limit of a reply
    std::vector<std::string> warnings;
  };
  using Queries = FanOut<ProcessId, Question>;
  void settle(Queries::Finished&& finished);
  void store(ProcessId process, NodeId node, const SpansReply& message);
  Sender sender_of(ProcessId process, NodeId node) const;

  HeadTables& tables_;
  Queries queries_{max_open};
  std::deque<Ended> ended_;  // oldest first
  std::size_t ended_bytes_ = 0;
  std::uint64_t ended_forgotten_ = 0;  // removed processes
};

}  // namespace mobula::internal::head
