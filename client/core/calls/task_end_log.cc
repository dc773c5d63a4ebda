#include "client/core/calls/task_end_log.h"

#include <utility>

#include "base/model/error_record.h"
#include "protocol/codec/codec.h"

namespace mobula::internal::client {
namespace {

// Failures are reported to the head, which lists them after this process has ended.
constexpr Duration failure_report_delay = 1s;
constexpr std::size_t max_failures_reported = 100;
constexpr std::int64_t max_report_error_bytes = 64 << 10;

}  // namespace

FailureReport TaskEndLog::unreported_failures() const {
  const auto& failed = finished_.failed();
  const std::uint64_t fresh = finished_.failures() - reported_failures_;
  FailureReport report;
  std::int64_t bytes = 0;
  for (std::size_t i = failed.size(); i-- > 0 && failed.size() - i <= fresh;) {
    if (report.tasks.size() >= max_failures_reported) break;
    TaskFact fact = fact_of(failed[i], step_.now());
    bytes += failed[i].error_bytes;
    if (bytes > max_report_error_bytes) fact.error = {};
    report.tasks.push_back(std::move(fact));
  }
  report.left_out = fresh - report.tasks.size();
  return report;
}

std::optional<Time> TaskEndLog::next_deadline() const {
  const auto use = uses_.next_deadline();
  return !failures_due_ || (use && *use < *failures_due_) ? use : failures_due_;
}

void TaskEndLog::tick() {
  if (auto use = uses_.take_due(step_.now())) step_.send_to_head(std::move(*use));
  if (!failures_due_ || *failures_due_ > step_.now()) return;
  failures_due_.reset();
  auto report = unreported_failures();
  reported_failures_ = finished_.failures();
  if (!report.tasks.empty()) step_.send_to_head(std::move(report));
}

// The new owner reports the end of a task that was handed over.
void TaskEndLog::record(TaskId task, const TaskRow& row, const Results& results) {
  note_error(task, row, results);
  const bool is_sent = row.state == TaskState::sent;
  const bool is_error = !results.empty() && results.front().is_error;
  count(row, is_sent, is_error);
  // A reply clears the executor of the row; otherwise the executor died.
  const Answered by = !is_sent               ? Answered()
                      : row.executor.empty() ? answered_
                                             : Answered{row.executor, {}, {}, 0};
  calls_.add({task, row.call.form, row.submitted(), is_sent ? row.since : step_.now(), step_.now(),
              is_error, by, row.parent});
  if (row.call.form->num_returns == 0) return;
  EndedTask ended;
  ended.task = task;
  ended.form = row.call.form;
  if (row.call.form->kind == CallKind::task) ended.demand_class = row.demand_class;
  ended.attempt = row.call.attempt;
  ended.retries_left = row.retries_left;
  ended.preemptions = row.preemptions;
  ended.cancelled = row.cancelled;
  ended.at = step_.now();
  if (is_sent && row.executor.empty()) ended.run_time = answered_.run_time;
  ended.executor = by.executor;
  ended.node = by.node;
  if (is_error) {
    if (!failures_due_) failures_due_ = step_.now() + failure_report_delay;
    ended.failed = true;
    if (ended.node.empty() && !results.front().bytes.empty()) {
      const auto error = decode<ErrorRecord>(results.front().bytes.bytes());
      if (error) ended.node = error->node;
    }
    ended.error = results.front().bytes;
    ended.error_bytes = results.front().size_bytes;
  }
  finished_.add(std::move(ended));
}

void TaskEndLog::count(const TaskRow& row, bool is_sent, bool is_error) {
  UseCounters::End end;
  if (is_error) {
    end.how = row.cancelled ? UseCounters::How::cancelled : UseCounters::How::failed;
  }
  if (is_sent) end.waited = row.since - row.submitted();
  if (is_sent && row.executor.empty()) end.ran = answered_.run_time;
  uses_.ended(row.call.form, row.demand_class, end, step_.now());
}

// Records failures of user code and of its process. Other failures are their consequences, or
// intended.
void TaskEndLog::note_error(TaskId task, const TaskRow& row, const Results& results) {
  if (row.call.form->num_returns == 0 || row.cancelled || results.empty()) return;
  const ValueRecord& value = results.front();
  if (!value.is_error || value.bytes.empty()) return;
  const auto error = decode<ErrorRecord>(value.bytes.bytes());
  if (!error) return;
  const bool is_own = error->kind == ErrorKind::task || error->kind == ErrorKind::worker_crashed ||
                      error->kind == ErrorKind::out_of_memory;
  if (!is_own) return;
  std::string text = "task " + row.call.form->name;
  if (error->kind == ErrorKind::task && answered_.pid != 0 && row.executor.empty()) {
    text += " in process " + std::to_string(answered_.pid) + " on node " + answered_.node.brief();
  }
  text += " failed: ";
  if (!error->remote_type.empty()) text += error->remote_type + ": ";
  unread_.add(task, text + error->text);
}

TaskFact TaskEndLog::fact_of(const EndedTask& ended, Time now) {
  TaskFact fact;
  fact.task = ended.task;
  fact.kind = ended.form->kind;
  fact.actor = ended.form->actor;
  fact.name = ended.form->name;
  fact.phase = ended.failed ? TaskPhase::failed : TaskPhase::finished;
  fact.since = now - ended.at;
  fact.attempt = ended.attempt;
  fact.retries_left = ended.retries_left;
  fact.cancelled = ended.cancelled;
  fact.preemptions = ended.preemptions;
  fact.demand_class = ended.demand_class;
  fact.error = *ended.error;
  fact.run_time = ended.run_time;
  fact.executor = ended.executor;
  fact.node = ended.node;
  return fact;
}

}  // namespace mobula::internal::client
