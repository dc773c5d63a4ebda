#include "worker/core/programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>

namespace mobula::internal::worker {

void Programs::brought(std::int64_t pid, const ProgramRecord& program, ProcessId driver,
                       JobId job) {
  Row& row = rows_[program.id];
  if (row.record.id.empty()) row.record = program;
  row.jobs[job].until.reset();
  if (row.drivers.emplace(driver, job).second) outbox_.emit(AddProgram{pid, program});
}

bool Programs::use(const ProgramRecord& program, SlotId user) {
  Row& row = rows_[program.id];
  if (row.record.id.empty()) row.record = program;
  row.slots.insert(user);
  if (row.ready) return true;
  const Pause* pause = pauses_.find(program.id);
  row.pauses = pause != nullptr && outbox_.now() < pause->until;
  if (!row.pauses) prepare(row);
  return false;
}

void Programs::prepare(Row& row) {
  if (row.preparing || !row.pulls.empty()) return;
  row.preparing = true;
  outbox_.emit(PrepareProgram{row.record});
}

void Programs::tick() {
  for (auto& [id, row] : rows_) {
    const Pause* pause = pauses_.find(id);
    if (!row.pauses || (pause != nullptr && outbox_.now() < pause->until)) continue;
    row.pauses = false;
    prepare(row);
  }
  while (!expiring_.empty() && outbox_.now() >= expiring_.front().until) {
    const Expiring next = expiring_.front();
    expiring_.pop_front();
    Row* row = rows_.find(next.program);
    const auto hold = row == nullptr ? Holds::iterator() : row->jobs.find(next.job);
    if (row == nullptr || hold == row->jobs.end() || hold->second.until != next.until) continue;
    row->jobs.erase(hold);
    forget_unused(next.program);
  }
  // A backoff that expired `pull_backoff_max` ago is reset.
  for (auto at = pauses_.begin(); at != pauses_.end();) {
    at = outbox_.now() >= at->second.until + pull_backoff_max ? pauses_.erase(at) : std::next(at);
  }
}

std::optional<Time> Programs::next_deadline() const {
  std::optional<Time> first;
  if (!expiring_.empty()) first = expiring_.front().until;
  for (const auto& [id, row] : rows_) {
    if (!row.pauses) continue;
    if (const Pause* pause = pauses_.find(id)) take_earlier(first, pause->until);
  }
  return first;
}

void Programs::unuse(ProgramId program, SlotId user) {
  if (Row* row = rows_.find(program)) row->slots.erase(user);
  forget_unused(program);
}

void Programs::driver_ended(ProcessId driver) {
  std::vector<ProgramId> brought;
  for (auto& [id, row] : rows_) {
    const auto at = row.drivers.find(driver);
    if (at == row.drivers.end()) continue;
    const auto hold = row.jobs.find(at->second);
    if (hold != row.jobs.end() && !hold->second.lingers) {
      hold->second.until = outbox_.now() + end_grace;
      expiring_.push_back({*hold->second.until, id, hold->first});
    }
    row.drivers.erase(at);
    brought.push_back(id);
  }
  for (const ProgramId id : brought) forget_unused(id);
}

void Programs::job_ended(JobId job, bool lingers) {
  std::vector<ProgramId> released;
  for (auto& [id, row] : rows_) {
    const auto hold = row.jobs.find(job);
    if (hold == row.jobs.end()) continue;
    if (lingers) {
      hold->second = {true, std::nullopt};
    } else {
      row.jobs.erase(hold);
      released.push_back(id);
    }
  }
  for (const ProgramId id : released) forget_unused(id);
}

std::vector<JobId> Programs::kept_jobs() const {
  std::vector<JobId> jobs;
  for (const auto& [id, row] : rows_) {
    for (const auto& [job, hold] : row.jobs) {
      if (hold.lingers || hold.until) jobs.push_back(job);
    }
  }
  return jobs;
}

void Programs::forget_unused(ProgramId id) {
  Row* row = rows_.find(id);
  if (row == nullptr || !row->slots.empty() || !row->drivers.empty() || !row->jobs.empty()) return;
  const std::set<transfer::PullId> pulls = row->pulls;
  rows_.erase(id);
  for (const transfer::PullId pull : pulls) transfers_.unwant(pull);
  outbox_.emit(ForgetProgram{id});
}

std::optional<Programs::Outcome> Programs::prepared(const ProgramPrepared& prepared) {
  Row* row = rows_.find(prepared.program);
  if (row == nullptr || !row->preparing) return std::nullopt;
  row->preparing = false;
  if (prepared.failure) return fail(prepared.program, *row, *prepared.failure, true);
  if (prepared.missing.empty()) {
    row->ready = true;
    pauses_.erase(prepared.program);
    return Outcome{prepared.program, std::nullopt, false};
  }
  const NodeId source = row->record.source;
  for (const ProgramFile& file : prepared.missing) {
    if (source == self_ || source.empty()) {
      return fail(prepared.program, *row,
                  failure(ErrorCode::not_found,
                          fmt::format("program file {} ({}) is missing on the node that "
                                      "offered it",
                                      file.name, hex_of(file.hash))),
                  false);
    }
    auto pull = transfers_.pull_file(file, source);
    if (!pull) return fail(prepared.program, *row, pull.error(), false);
    if (!row->pulls.insert(*pull).second) transfers_.unwant(*pull);  // the file is listed twice
  }
  return std::nullopt;
}

std::vector<Programs::Outcome> Programs::pulled(const transfer::PullDone& done) {
  std::vector<ProgramId> users;
  for (auto& [id, row] : rows_) {
    if (row.pulls.erase(done.pull) != 0) users.push_back(id);
  }
  std::vector<Outcome> outcomes;
  for (const ProgramId id : users) {
    Row& row = rows_.at(id);
    if (done.failure) {
      if (auto outcome = fail(id, row, *done.failure, false)) outcomes.push_back(*outcome);
    } else {
      prepare(row);
    }
  }
  return outcomes;
}

std::optional<Programs::Outcome> Programs::fail(ProgramId id, Row& row, Failure why,
                                                bool cannot_start) {
  const std::set<transfer::PullId> pulls = std::exchange(row.pulls, {});
  for (const transfer::PullId pull : pulls) transfers_.unwant(pull);
  if (!cannot_start) {
    Pause& pause = pauses_[id];
    pause.until = outbox_.now() + pause.next;
    why.text += fmt::format("; it is tried again in {:.3g} s",
                            std::chrono::duration<double>(pause.next).count());
    pause.next = std::min(2 * pause.next, pull_backoff_max);
  }
  return Outcome{id, std::move(why), cannot_start};
}

}  // namespace mobula::internal::worker
