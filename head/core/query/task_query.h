// Queries for single tasks. A query goes to the drivers and executors that own tasks. The reply is
// sent when all have answered, or after `list_timeout` with the results so far and the names of the
// missing ones. Failures that ended owners reported are added (FailedTasks).
// Thread: owner (one HeadCore). Not: state between queries. The head knows demands, not tasks.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "head/core/head_events.h"
#include "head/core/query/fan_out.h"
#include "head/core/query/query_source.h"
#include "head/core/query/query_targets.h"

namespace mobula::internal::head {

struct HeadTables;

enum class TaskPurpose : std::uint8_t { list, count, get, explain };

// Replies of the owners so far.
struct TaskAnswers {
  struct Item {
    ProcessId owner;
    JobId job;
    TaskFact fact;
  };
  std::vector<Item> items;
  std::uint64_t limit = 0;  // maximum number of items
  std::uint64_t left_out = 0;
  std::map<std::pair<std::string, TaskPhase>, std::uint64_t> counts;
  std::vector<std::string> warnings;
};

class TaskQuery {
 public:
  explicit TaskQuery(HeadTables& tables) : tables_(tables) {}

  // To list or count, `argument` is empty or filters as a JSON object. Otherwise it is the id or id
  // prefix of a task or of one of its results. Fails for a bad argument or too many open queries.
  Result<void> start(QuerySource source, TaskPurpose purpose, const std::string& argument);
  void on(ProcessId owner, const TasksReply& message);
  // The tasks of the process ended with it, so queries no longer wait for it.
  void process_ended(ProcessId process);
  void tick();
  std::optional<Time> next_deadline() const;

 private:
  static constexpr std::size_t max_open = 64;
  static constexpr std::size_t max_errors = 256;  // per reply

  struct Question {
    QuerySource source;
    TaskPurpose purpose = TaskPurpose::list;
    TasksRequest query;
    JobId job;  // filter; empty: all jobs
    TaskAnswers answers;
  };
  using Queries = FanOut<ProcessId, Question>;
  void settle(Queries::Finished&& finished);
  Result<std::string> document(const Question& question) const;

  HeadTables& tables_;
  Queries queries_{max_open};
};

}  // namespace mobula::internal::head
