#include "head/core/query/task_query.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"
#include "head/core/head_tables.h"
#include "head/core/query/id_prefix.h"
#include "head/core/view/task_json.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_asked("head.asked_owners_about_tasks");
const CoverageMark mark_late("head.task_answer_without_an_owner");

constexpr std::size_t id_digits = 32;

}  // namespace

Result<void> TaskQuery::ask(QuerySource source, TaskPurpose purpose, const std::string& argument) {
  if (queries_.is_full()) {
    return failure(
        ErrorCode::resource_exhausted,
        fmt::format("{} questions about tasks are open; ask again in a moment", queries_.size()));
  }
  TasksRequest asked;
  asked.limit = purpose == TaskPurpose::count ? 0 : parts_.options.max_tasks_per_owner;
  JobId job;
  std::uint64_t most = parts_.options.max_listed;
  if (purpose == TaskPurpose::list || purpose == TaskPurpose::count) {
    const auto filters = task_filters(argument);
    if (!filters) return filters.error();
    asked.name = filters->name;
    asked.phases = filters->phases;
    job = filters->job;
    if (filters->limit) most = std::min(*filters->limit, parts_.options.max_listed);
    asked.limit = std::min(asked.limit, most);
  } else if (is_id_prefix(argument)) {
    asked.id = argument;
  } else {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("'{}' is not the id of a task or of its result, nor at least four "
                               "digits of the beginning of one",
                               argument));
  }
  mark_asked.hit();
  asked.request = queries_.next_number();
  Question question;
  question.source = source;
  question.purpose = purpose;
  question.asked = asked;
  question.job = job;
  question.answers.limit = most;
  QueryTargets owners = processes_to_ask(parts_, job, question.answers.warnings);
  auto finished = queries_.add(asked.request, std::move(question), std::move(owners),
                               parts_.now + parts_.options.list_timeout,
                               [&](ProcessId owner) { parts_.processes.tell(owner, asked); });
  if (finished) settle(std::move(*finished));
  return {};
}

void TaskQuery::on(ProcessId owner, const TasksReply& message) {
  if (message.request == 0) {
    const Process* row = parts_.processes.find(owner);
    if (row != nullptr) parts_.failed_tasks.reported(owner, row->principal.job, message.tasks);
    return;
  }
  Question* question = queries_.accept_reply(message.request, owner);
  if (question == nullptr) return;
  TaskAnswers& answers = question->answers;
  const JobId job = parts_.processes.find(owner)->principal.job;
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
    const bool room = answers.counts.size() < parts_.options.max_listed;
    if (room || answers.counts.contains(key)) answers.counts[key] += each.count;
  }
  // A full id has one owner, so its reply completes the query.
  const bool enough = question->asked.id.size() == id_digits && !answers.items.empty();
  auto finished = queries_.finish_if_complete(message.request, enough);
  if (finished) settle(std::move(*finished));
}

void TaskQuery::process_ended(ProcessId process) {
  for (auto& finished : queries_.remove_target(process)) settle(std::move(finished));
}

void TaskQuery::tick() {
  for (auto& late : queries_.expire(parts_.now)) {
    mark_late.hit();
    settle(std::move(late));
  }
}

std::optional<Time> TaskQuery::next_deadline() const { return queries_.next_deadline(); }

void TaskQuery::settle(Queries::Finished&& finished) {
  Question& question = finished.query;
  warn_of_silent(parts_, finished.silent, "what it owns", question.answers.warnings);
  parts_.failed_tasks.add_to(question.answers, question.asked, question.job);
  std::vector<TaskError> errors;
  for (const auto& item : question.answers.items) {
    if (item.fact.error.empty() || errors.size() >= max_errors) continue;
    errors.push_back({item.fact.task, item.fact.error});
  }
  answer(parts_, question.source, document(question), std::move(errors));
}

Result<std::string> TaskQuery::document(const Question& question) const {
  switch (question.purpose) {
    case TaskPurpose::list: return tasks_json(parts_, question.answers);
    case TaskPurpose::count: return task_counts_json(parts_, question.answers);
    case TaskPurpose::get: return task_json(parts_, question.asked.id, question.answers);
    case TaskPurpose::explain: break;
  }
  return explain_task_json(parts_, question.asked.id, question.answers);
}

}  // namespace mobula::internal::head
