// Questions about single tasks: asks the processes that own them (drivers and executors), gathers
// what they answer, and replies when all have, or after `list_within` with what has come, naming
// who is missing. Adds failures that ended owners have reported (FailedTasks). Owned by one HeadCore; not
// thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "head/core/asked_processes.h"
#include "head/core/asker.h"
#include "head/core/inputs.h"

namespace mobula::internal::head {

struct Parts;

enum class TaskPurpose : std::uint8_t { list, count, get, explain };

// What the owners asked have said so far.
struct TaskAnswers {
  struct Item {
    ProcessId owner;
    JobId job;
    TaskFact fact;
  };
  std::vector<Item> items;
  std::uint64_t limit = 0;  // of them
  std::uint64_t left_out = 0;
  std::map<std::pair<std::string, TaskPhase>, std::uint64_t> counts;
  std::vector<std::string> warnings;
};

class TaskQuestions {
 public:
  explicit TaskQuestions(Parts& parts) : parts_(parts) {}

  // `argument`: to list or to count, filters as a JSON object or nothing; else the id of a task or of one of
  // its results, or the beginning of it. Refused where that is wrong, or too many questions are
  // open.
  Result<void> ask(Asker asker, TaskPurpose purpose, const std::string& argument);
  void told(ProcessId owner, const TasksTold& message);
  // Its tasks are gone with it: nobody waits for it.
  void process_ended(ProcessId process);
  void tick();
  std::optional<Time> next_deadline() const;

 private:
  static constexpr std::size_t max_open = 64;
  static constexpr std::size_t max_errors = 256;  // passed on with one answer

  struct Question {
    Asker asker;
    TaskPurpose purpose = TaskPurpose::list;
    AskTasks asked;
    JobId job;  // filter; empty: all jobs
    AskedProcesses missing;
    TaskAnswers answers;
    Time until;
  };
  bool complete(const Question& question) const;
  void settle(std::uint64_t number);
  Result<std::string> document(const Question& question) const;

  Parts& parts_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Question> questions_;
};

}  // namespace mobula::internal::head
