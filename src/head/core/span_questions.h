// Questions of tools about when calls were: asks the processes that own and run them, and the agents to whose
// nodes objects came, gathers what they
// answer, and passes it on as it came when all have, or after `list_within`, naming who is missing. Of
// processes that have ended it keeps what they have told last, up to a bound. Owned by one HeadCore; not
// thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "head/core/asked_processes.h"
#include "head/core/inputs.h"
#include "protocol/span_facts.h"

namespace mobula::internal::head {

struct Parts;

class SpanQuestions {
 public:
  explicit SpanQuestions(Parts& parts) : parts_(parts) {}

  // `argument` of the request: the id of a job in hex, or nothing; `kind`: that of a task, or nothing.
  void ask(LinkId link, const ToolRequest& request);
  // A process of the node, or the incarnation of its agent.
  void told(ProcessId teller, NodeId node, const SpansTold& message);
  // What it knew is gone with it: nobody waits for it.
  void process_ended(ProcessId process);
  void tick();
  std::optional<Time> next_deadline() const;

 private:
  static constexpr std::size_t max_open = 16;
  static constexpr std::uint64_t max_spans = 100'000;  // asked for, of all processes
  static constexpr std::uint64_t min_limit = 256;      // of one process
  static constexpr std::uint64_t max_limit = 8192;
  static constexpr std::size_t max_bytes = 12u << 20;  // of one answer
  static constexpr std::size_t max_ended_bytes = 8u << 20;  // of all that have ended
  static constexpr std::size_t max_ended_each = 1u << 20;   // of one of them
  static constexpr std::size_t max_ended = 4096;

  struct Teller {
    Role role = Role::unproven;
    std::int64_t pid = 0;
    JobId job{};
    NodeId node{};
    std::string host{};
    bool ended = false;
  };
  struct Ended {
    ProcessId process{};
    Teller teller{};
    SpansTold spans{};
    std::size_t bytes = 0;  // about
  };
  struct Question {
    LinkId link = 0;
    std::uint64_t request = 0;
    AskedProcesses missing;
    JobId job;                    // asked about alone, unless empty
    TaskId task;                  // likewise
    std::map<ProcessId, std::pair<Teller, SpansTold>> told;
    std::size_t bytes = 0;  // about
    std::uint64_t left_out = 0;  // processes, for the bound of an answer
    std::vector<std::string> warnings;
    Time until;
  };
  void settle(std::uint64_t number);
  void keep(ProcessId process, NodeId node, const SpansTold& message);
  Teller teller_of(ProcessId process, NodeId node) const;

  Parts& parts_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Question> questions_;
  std::deque<Ended> ended_;  // the first of them first
  std::size_t ended_bytes_ = 0;
  std::uint64_t ended_forgotten_ = 0;  // processes
};

}  // namespace mobula::internal::head
