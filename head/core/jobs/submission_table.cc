#include "head/core/jobs/submission_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/coverage_mark.h"
#include "base/model/jobs/job_files_variable.h"
#include "head/core/head_tables.h"
#include "head/core/query/id_prefix.h"
#include "head/core/view/requests/submission_json.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_again("head.submission_repeated");
const CoverageMark mark_forgotten("head.submission_without_its_actor");

ActorId actor_of(JobId job) { return SubmissionTable::entry_of(job); }

// Text for users. The exit code is shown next to it.
std::string reason_of_end(EndCause cause) {
  if (cause.kind == EndKind::exited || cause.kind == EndKind::signalled) cause.text.clear();
  return "it " + to_string(cause);
}

ActorSpec spec_of(const SubmissionRow& row) {
  ActorSpec spec;
  spec.actor = actor_of(row.job);
  spec.job = row.job;
  spec.class_name = row.name;
  spec.detached = true;
  spec.demand.job = row.job;
  spec.demand.request = row.request;
  spec.demand.env = row.env;
  spec.demand.id = ClassId(derive_bits(row.job.bits(), "entry class", 0));
  spec.max_restarts = static_cast<std::int32_t>(row.retries);
  spec.entry = row.entry;
  return spec;
}

}  // namespace

std::string_view to_string(SubmissionState state) {
  switch (state) {
    case SubmissionState::pending: return "PENDING";
    case SubmissionState::running: return "RUNNING";
    case SubmissionState::succeeded: return "SUCCEEDED";
    case SubmissionState::failed: return "FAILED";
    case SubmissionState::stopped: return "STOPPED";
    case SubmissionState::lost: return "LOST";
  }
  return "UNKNOWN";
}

std::int64_t SubmissionTable::wall_ms() const {
  return tables_.wall_at_start_ms +
         (tables_.now - tables_.started_at) / std::chrono::milliseconds(1);
}

void SubmissionTable::write(const SubmissionRow& row) {
  tables_.journal.put("submissions", row.job.hex(), encode(row));
}

// ---- history -----------------------------------------------------------------------------------

void SubmissionTable::restore(const SubmissionRow& row) {
  rows_.insert(row.job, row);
  if (!has_ended(row.state)) return;
  // The journal returns rows in the order of ids.
  const auto later = [&](JobId id) { return rows_.at(id).ended_ms > row.ended_ms; };
  ended_.insert(std::ranges::find_if(ended_, later), row.job);
}

void SubmissionTable::recovery_ended() {
  std::vector<JobId> without;
  for (const auto& [id, row] : rows_) {
    const Actor* actor = tables_.actors.find(actor_of(id));
    const bool gone = actor == nullptr || actor->state == ActorState::dead;
    if (!has_ended(row.state) && gone) without.push_back(id);
  }
  for (const auto id : without) {
    mark_forgotten.hit();
    EndCause cause;
    cause.kind = EndKind::node_died;
    cause.text = "it was lost when the head was restarted";
    end(rows_.at(id), cause);
  }
  // Stop requests to an earlier head continue, even if an agent has lost them.
  std::vector<JobId> to_stop;
  for (const auto& [id, row] : rows_) {
    if (!has_ended(row.state) && !row.stop_why.empty()) to_stop.push_back(id);
  }
  for (const auto id : to_stop)
    tables_.actors.stop_entry(actor_of(id), std::string(rows_.at(id).stop_why));
}

void SubmissionTable::forget_oldest() {
  while (ended_.size() > tables_.options.max_ended_kept) {
    tables_.journal.erase("submissions", ended_.front().hex());
    rows_.erase(ended_.front());
    ended_.pop_front();
  }
}

// ---- start and stop -----------------------------------------------------------------------------

Result<JobId> SubmissionTable::submit(const std::string& text, const std::string& owner) {
  auto read = submission_from_json(text);
  if (!read) return read.error();
  const JobId id = read->job;
  if (rows_.contains(id)) {
    mark_again.hit();
    return id;
  }
  if (rows_.size() - ended_.size() >= tables_.options.max_jobs) {
    return failure(
        ErrorCode::resource_exhausted,
        fmt::format("submit: the cluster is at its limit of {} submitted jobs; try again when one "
                    "has ended",
                    tables_.options.max_jobs));
  }
  read->owner = owner;
  if (read->submitted_ms == 0) read->submitted_ms = wall_ms();
  if (auto admitted = tables_.jobs.submitted(*read); !admitted) return admitted.error();
  const ActorSpec spec = spec_of(*read);
  tables_.events.note(Severity::info, "JOB_SUBMITTED", {.job = id}, read->name);
  write(*rows_.insert(id, std::move(*read)).first);
  tables_.actors.submit(spec);
  return id;
}

Result<JobId> SubmissionTable::resolve(const std::string& text) const {
  if (const auto bits = bits_from_hex(text); bits && rows_.contains(JobId(*bits)))
    return JobId(*bits);
  std::vector<JobId> beginning;
  const SubmissionRow* named = nullptr;
  std::set<std::string> owners;
  for (const auto& [id, row] : rows_) {
    if (is_id_or_prefix(id.hex(), text)) beginning.push_back(id);
    if (text.empty() || row.name != text) continue;
    owners.insert(row.owner);
    // The latest job of the requesting user precedes the latest job of any user.
    const bool own = row.owner == tables_.requesting_user;
    const bool has_own = named != nullptr && named->owner == tables_.requesting_user;
    const bool later = named == nullptr || row.submitted_ms > named->submitted_ms;
    if (own == has_own ? later : own) named = &row;
  }
  if (named != nullptr && named->owner != tables_.requesting_user && owners.size() > 1) {
    return failure(
        ErrorCode::invalid_argument,
        fmt::format(
            "job {}: {} keys have submitted jobs of this name, and none of them is yours; give "
            "the id of one, as `mobula job list` shows it",
            text, owners.size()));
  }
  if (named != nullptr) return named->job;
  if (beginning.size() == 1) return beginning.front();
  if (beginning.size() > 1) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("job {}: {} ids begin so; give more of it", text, beginning.size()));
  }
  return failure(
      ErrorCode::not_found,
      fmt::format(
          "job {}: no submitted job has this id or name; `mobula job list` shows those there "
          "are, and {} that have ended are remembered",
          text, tables_.options.max_ended_kept));
}

bool SubmissionTable::needs_files(const std::string& name) const {
  return std::ranges::any_of(rows_, [&](const auto& each) {
    const auto at = each.second.env.find(job_files_variable);
    return !has_ended(each.second.state) && at != each.second.env.end() && at->second == name;
  });
}

bool SubmissionTable::stop(JobId id, const std::string& why) {
  SubmissionRow& row = rows_.at(id);
  if (has_ended(row.state)) return false;
  row.stop_why = why;
  tables_.events.note(Severity::warning, "JOB_STOP", {.node = row.node, .job = id}, why);
  write(row);
  tables_.actors.stop_entry(actor_of(id), why);
  return true;
}

void SubmissionTable::stop_all(const std::string& why) {
  for (auto& [id, row] : rows_) {
    if (!has_ended(row.state)) row.stop_why = why;
  }
}

// ---- progress -----------------------------------------------------------------------------------

void SubmissionTable::changed(const Actor& actor) {
  SubmissionRow* row = rows_.find(actor.spec().job);
  if (row == nullptr || has_ended(row->state)) return;
  // The order was sent or about to be sent, and no component knows whether the command started.
  if (actor.cause.kind == EndKind::node_died && actor.row.order.attempt > row->attempts) {
    row->attempts = actor.row.order.attempt;
    row->node = actor.row.order.node;
  }
  if (actor.state == ActorState::dead) return end(*row, actor.cause);
  if (actor.state == ActorState::alive) {
    const bool again = row->attempts == actor.row.incarnation && row->started_ms != 0;
    row->state = SubmissionState::running;
    row->reason.clear();
    row->node = actor.node;
    row->attempts = actor.row.incarnation;
    if (!again) {
      row->started_ms = wall_ms();
      tables_.events.note(Severity::info, "JOB_STARTED", {.node = row->node, .job = row->job},
                          fmt::format("{} runs, attempt {}", row->name, row->attempts));
    }
    row->exit_code = -1;
    row->signal = 0;
  } else {
    row->state = SubmissionState::pending;
    if (actor.state == ActorState::restarting) {
      row->reason = "runs again: " + reason_of_end(actor.cause);
      tables_.events.note(Severity::warning, "JOB_RETRIED", {.node = row->node, .job = row->job},
                          row->name + " " + row->reason);
    }
  }
  write(*row);
}

void SubmissionTable::infeasible(JobId id, const std::string& why) {
  SubmissionRow* row = rows_.find(id);
  if (row == nullptr || row->state != SubmissionState::pending) return;
  row->reason = "(Infeasible) " + why;
  write(*row);
}

void SubmissionTable::end(SubmissionRow& row, const EndCause& cause) {
  const bool ran = row.attempts > 0;
  const bool exited = cause.kind == EndKind::exited;
  if (ran && cause.signal != 0) row.signal = cause.signal;
  if (ran && cause.signal == 0 && (exited || cause.exit_code != 0)) row.exit_code = cause.exit_code;
  row.reason.clear();
  if (!row.stop_why.empty()) {
    row.state = SubmissionState::stopped;
    row.reason = row.stop_why;
  } else if (exited && cause.exit_code == 0) {
    row.state = SubmissionState::succeeded;
    row.exit_code = 0;
  } else {
    row.state = cause.kind == EndKind::node_died ? SubmissionState::lost : SubmissionState::failed;
    row.reason = reason_of_end(cause);
  }
  row.ended_ms = std::max(wall_ms(), row.started_ms);
  const bool fine = row.state == SubmissionState::succeeded;
  tables_.events.note(fine                                    ? Severity::info
                      : row.state == SubmissionState::stopped ? Severity::warning
                                                              : Severity::error,
                      "JOB_ENDED", {.node = row.node, .job = row.job},
                      fmt::format("{} {}{}{}", row.name, to_string(row.state),
                                  row.reason.empty() ? "" : ": ", row.reason));
  write(row);
  ended_.push_back(row.job);
  forget_oldest();
}

}  // namespace mobula::internal::head
