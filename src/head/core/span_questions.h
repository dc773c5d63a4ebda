// Questions of tools about when calls were: asks the processes that own and run them, gathers what they
// answer, and passes it on as it came when all have, or after `list_within`, naming who is missing. Keeps
// nothing between questions. Owned by one HeadCore; not thread-safe.
#pragma once

#include <cstdint>
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

  // `argument` of the request: the id of a job in hex, or nothing.
  void ask(LinkId link, const ToolRequest& request);
  void told(ProcessId process, const SpansTold& message);
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

  struct Question {
    LinkId link = 0;
    std::uint64_t request = 0;
    AskedProcesses missing;
    std::map<ProcessId, SpansTold> told;
    std::size_t bytes = 0;  // about
    std::uint64_t left_out = 0;  // processes, for the bound of an answer
    std::vector<std::string> warnings;
    Time until;
  };
  void settle(std::uint64_t number);

  Parts& parts_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Question> questions_;
};

}  // namespace mobula::internal::head
