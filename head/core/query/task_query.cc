#include "head/core/query/task_query.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"
#include "head/core/head_tables.h"
#include "head/core/query/id_prefix.h"
#include "head/core/view/requests/task_json.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_queried("head.queried_owners_about_tasks");
const CoverageMark mark_late("head.task_reply_without_an_owner");

constexpr std::size_t id_digits = 32;

// A process reports calls to actors within 10 s (ClassUse) and requests slots at once. Processes of
// older releases do not report calls, so their state expires too.
constexpr Duration idle_period = 30s;

// Whether the reply covers all tasks of its sender, and it has none.
bool owns_nothing(const TasksRequest& query, const TasksReply& reply) {
  const bool all = query.id.empty() && query.name.empty() && query.phases.empty();
  return all && reply.counts.empty() && reply.tasks.empty() && reply.left_out == 0;
}

}  // namespace

Result<void> TaskQuery::start(QuerySource source, TaskPurpose purpose,
                              const std::string& argument) {
  if (queries_.is_full()) {
    return failure(
        ErrorCode::resource_exhausted,
        fmt::format("{} queries about tasks are open; retry in a moment", queries_.size()));
  }
  TasksRequest query;
  query.limit = purpose == TaskPurpose::count ? 0 : tables_.options.max_tasks_per_owner;
  ProcessFilter owners_to_query;
  std::uint64_t most = tables_.options.max_listed;
  if (purpose == TaskPurpose::list || purpose == TaskPurpose::count) {
    const auto filters = task_filters(argument);
    if (!filters) return filters.error();
    query.name = filters->name;
    query.phases = filters->phases;
    owners_to_query = {.job = filters->job,
                       .active_owners = purpose == TaskPurpose::count && filters->active_owners};
    if (filters->limit) most = std::min(*filters->limit, tables_.options.max_listed);
    query.limit = std::min(query.limit, most);
  } else if (is_id_prefix(argument)) {
    query.id = argument;
  } else {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("'{}' is not the id of a task or of its result, nor at least four "
                               "digits of the beginning of one",
                               argument));
  }
  mark_queried.hit();
  query.request = queries_.next_number();
  Question question;
  question.source = source;
  question.purpose = purpose;
  question.query = query;
  question.job = owners_to_query.job;
  question.answers.limit = most;
  QueryTargets owners = processes_to_query(tables_, owners_to_query, question.answers.warnings);
  auto finished = queries_.add(query.request, std::move(question), std::move(owners),
                               tables_.now + tables_.options.list_timeout,
                               [&](ProcessId owner) { tables_.processes.send(owner, query); });
  if (finished) settle(std::move(*finished));
  return {};
}

void TaskQuery::on(ProcessId owner, const TasksReply& message) {
  if (message.request == 0) {
    const Process* row = tables_.processes.find(owner);
    if (row != nullptr) tables_.failed_tasks.reported(owner, row->principal.job, message.tasks);
    return;
  }
  Question* question = queries_.accept_reply(message.request, owner);
  if (question == nullptr) return;
  if (owns_nothing(question->query, message)) {
    tables_.processes.set_idle_until(owner, tables_.now + idle_period);
  }
  TaskAnswers& answers = question->answers;
  const JobId job = tables_.processes.find(owner)->principal.job;
  answers.left_out += message.left_out;
  for (const auto& fact : message.tasks) {
    if (answers.items.size() < answers.limit) {
      answers.items.push_back({owner, job, fact});
    } else {
      ++answers.left_out;
    }
  }
  for (const auto& each : message.counts) {
    const auto key = std::pair(each.name, each.phase);
    const bool is_listed = answers.counts.size() < tables_.options.max_listed;
    if (is_listed || answers.counts.contains(key)) answers.counts[key] += each.count;
  }
  // A full id has one owner, so its reply completes the query.
  const bool enough = question->query.id.size() == id_digits && !answers.items.empty();
  auto finished = queries_.finish_if_complete(message.request, enough);
  if (finished) settle(std::move(*finished));
}

void TaskQuery::process_ended(ProcessId process) {
  for (auto& finished : queries_.remove_target(process)) settle(std::move(finished));
}

void TaskQuery::tick() {
  for (auto& late : queries_.expire(tables_.now)) {
    mark_late.hit();
    settle(std::move(late));
  }
}

std::optional<Time> TaskQuery::next_deadline() const { return queries_.next_deadline(); }

void TaskQuery::settle(Queries::Finished&& finished) {
  Question& question = finished.query;
  warn_of_silent(tables_, finished.silent, "what it owns", question.answers.warnings);
  tables_.failed_tasks.add_to(question.answers, question.query, question.job);
  std::vector<TaskError> errors;
  for (const auto& item : question.answers.items) {
    if (item.fact.error.empty() || errors.size() >= max_errors) continue;
    errors.push_back({item.fact.task, item.fact.error});
  }
  answer(tables_, question.source, document(question), std::move(errors));
}

Result<std::string> TaskQuery::document(const Question& question) const {
  switch (question.purpose) {
    case TaskPurpose::list: return tasks_json(tables_, question.answers);
    case TaskPurpose::count: return task_counts_json(tables_, question.answers);
    case TaskPurpose::get: return task_json(tables_, question.query.id, question.answers);
    case TaskPurpose::explain: break;
  }
  return explain_task_json(tables_, question.query.id, question.answers);
}

}  // namespace mobula::internal::head
