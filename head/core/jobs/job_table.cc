#include "head/core/jobs/job_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"
#include "base/text/edit_distance.h"
#include "base/text/json_writer.h"
#include "head/core/head_tables.h"
#include "head/core/view/documents.h"

namespace mobula::internal::head {
namespace {

const CoverageMark mark_job_restated("head.job_restated");
const CoverageMark mark_late_end("head.node_has_things_of_an_ended_job");
const CoverageMark mark_lingers("head.job_lingers_for_detached_actors");
const CoverageMark mark_driver_missing("head.driver_did_not_return");

Job job_of(NodeId node, const StartJob& start) {
  Job job;
  job.start = start;
  job.node = node;
  job.name_space = start.name_space.empty() ? "job-" + start.job.hex() : start.name_space;
  return job;
}

}  // namespace

void JobTable::restore(const JobRow& row) {
  Job job = job_of(row.node, row.start);
  job.durable = true;
  if (row.ended) {
    job.end = JobEnd::succeeded;
    job.why = "its driver ended before the head was started";
    job.lingers = true;
  }
  job.absent_since_ms = row.absent_since_ms;
  if (row.absent_since_ms != 0) absent_[row.start.driver] = row.start.job;
  tables_.scheduler.set_job_terms(row.start.job, row.start.terms);
  of_driver_.add(row.start.driver, row.start.job);
  rows_.insert(row.start.job, std::move(job));
}

bool JobTable::runs(JobId id) const {
  const Job* job = rows_.find(id);
  return job != nullptr && job->runs();
}

bool JobTable::works(JobId id) const {
  const Job* job = rows_.find(id);
  return job != nullptr && job->works();
}

void JobTable::refuse(const StartJob& message, const std::string& why) {
  tables_.processes.send(message.driver, RequestRejected{message.job, why});
}

void JobTable::start(NodeId node, const StartJob& message) {
  if (Job* job = rows_.find(message.job)) {
    if (job->start.driver != message.driver) {
      return refuse(message, fmt::format("job {} has another driver", message.job.hex()));
    }
    if (job->end != JobEnd::runs) {
      return refuse(message, fmt::format("job {} has ended: {}", message.job.hex(), job->why));
    }
    mark_job_restated.hit();
    job->node = node;
    if (job->durable)
      tables_.processes.send(message.driver, StartJobReply{message.job, job->name_space});
    tables_.slots.announce_to(message.driver);
    return;
  }
  if (rows_.size() - ended_.size() >= tables_.options.max_jobs) {
    return refuse(message, fmt::format("the cluster is at its limit of {} jobs; try again when one "
                                       "has ended",
                                       tables_.options.max_jobs));
  }
  if (const auto checked = check_terms(message.terms); !checked) {
    return refuse(message, checked.error().text);
  }
  tables_.scheduler.set_job_terms(message.job, message.terms);
  of_driver_.add(message.driver, message.job);
  rows_.insert(message.job, job_of(node, message));
  tables_.journal.put("jobs", message.job.hex(), encode(JobRow{message, node}), true);
  tables_.journal.wait(JobGate{message.job});
}

Result<void> JobTable::submitted(const SubmissionRow& submission) {
  if (rows_.contains(submission.job)) {
    return failure(ErrorCode::already_exists,
                   fmt::format("job {} is there already", submission.job.hex()));
  }
  if (auto checked = check_terms(submission.terms); !checked) return checked;
  StartJob start;
  start.job = submission.job;
  start.name = submission.name;
  start.started_ms = submission.submitted_ms;
  start.show_output = false;
  start.terms = submission.terms;
  Job job = job_of(NodeId(), start);
  job.durable = true;
  job.end = JobEnd::succeeded;
  job.lingers = true;
  tables_.scheduler.set_job_terms(submission.job, submission.terms);
  tables_.journal.put("jobs", submission.job.hex(), encode(JobRow{start, NodeId(), true}));
  rows_.insert(submission.job, std::move(job));
  return {};
}

void JobTable::durable(JobId id) {
  Job* job = rows_.find(id);
  if (job == nullptr || job->end != JobEnd::runs) return;
  job->durable = true;
  tables_.events.note(Severity::info, "JOB_STARTED",
                      {.node = job->node, .job = id, .process = job->start.driver},
                      fmt::format("a driver has started{}{}", job->start.name.empty() ? "" : ": ",
                                  job->start.name));
  tables_.processes.send(job->start.driver, StartJobReply{id, job->name_space});
}

void JobTable::not_durable(JobId id, const std::string& why) {
  const Job* job = rows_.find(id);
  if (job == nullptr || job->end != JobEnd::runs) return;
  refuse(job->start, fmt::format("job {} cannot be made durable: {}", id.hex(), why));
  tables_.scheduler.drop_job(id);
  of_driver_.remove(job->start.driver, id);
  rows_.erase(id);
}

bool JobTable::end(JobId id, JobEnd how, const std::string& why) {
  Job* job = rows_.find(id);
  if (job == nullptr || job->end != JobEnd::runs) return false;
  job->end = how;
  job->why = why;
  if (how != JobEnd::succeeded) of_driver_.remove(job->start.driver, id);
  tables_.events.note(how == JobEnd::failed    ? Severity::error
                      : how == JobEnd::stopped ? Severity::warning
                                               : Severity::info,
                      "JOB_ENDED", {.node = job->node, .job = id, .process = job->start.driver},
                      why);
  job->lingers = job->durable && tables_.actors.has_detached(id);
  job->driver_waits = true;
  if (!job->lingers) {
    end_the_rest(id);
    return true;
  }
  mark_lingers.hit();
  tables_.journal.put("jobs", id.hex(), encode(JobRow{job->start, job->node, true}));
  const Survivors survivors = tables_.slots.survivors(id);
  tables_.actors.job_ended(id, survivors);
  tables_.slots.job_ended(id, survivors);
  tables_.groups.job_ended(id, survivors);
  tables_.nodes.broadcast(JobEnded{id, {survivors.slots.begin(), survivors.slots.end()}, true});
  slot_gone(id);
  return true;
}

// Ends the remaining parts of the job, including its detached actors, which are dead by then.
void JobTable::end_the_rest(JobId id) {
  Job& job = rows_.at(id);
  job.lingers = false;
  tables_.journal.erase("jobs", id.hex());
  tables_.actors.job_ended(id, {});
  tables_.slots.job_ended(id, {});
  tables_.groups.job_ended(id, {});
  tables_.nodes.broadcast(JobEnded{id, {}, false});
  slot_gone(id);
  tables_.slots.refuse_absent_programs();

  ended_.push_back(id);
  if (ended_.size() > tables_.options.max_ended_kept) {
    rows_.erase(ended_.front());
    ended_.pop_front();
  }
}

void JobTable::settle() {
  for (const auto id : std::exchange(bereaved_, {})) {
    const Job* job = rows_.find(id);
    if (job != nullptr && job->lingers && !tables_.actors.has_detached(id)) end_the_rest(id);
  }
}

void JobTable::slot_gone(JobId id) {
  Job* job = rows_.find(id);
  if (job == nullptr || !job->driver_waits || tables_.slots.ends_in(id)) return;
  job->driver_waits = false;
  // Sent to the node, whose agent knows the driver, because the process may have exited.
  tables_.nodes.send(job->node, JobFinished{id});
}

Job* JobTable::job_of_driver(ProcessId driver) {
  for (const auto id : of_driver_.of(driver)) {
    Job* job = rows_.find(id);
    if (job != nullptr && job->end == JobEnd::runs) return job;
  }
  return nullptr;
}

void JobTable::driver_ended(ProcessId process, const EndCause& cause) {
  for (const auto id : of_driver_.take(process)) {
    const Job* job = rows_.find(id);
    if (job == nullptr) continue;
    if (job->end == JobEnd::succeeded) driver_exited(id, cause);
    if (job->end == JobEnd::runs) end(id, JobEnd::failed, "its driver " + to_string(cause));
  }
}

// Completes the reason of a planned end. The status stays SUCCEEDED, because the driver had ended
// the job.
void JobTable::driver_exited(JobId id, EndCause cause) {
  const bool is_known = cause.kind != EndKind::signalled || cause.signal != 0;
  if (!is_known) return;
  cause.text.clear();
  rows_.at(id).why = "its driver has finished and then " + to_string(cause);
}

// A job that the head does not know has ended, unless its driver is present to start it.
void JobTable::node_joined(NodeId node, const Facts& facts) {
  for (const auto id : facts.jobs) {
    const Job* job = rows_.find(id);
    if (job != nullptr && (job->end == JobEnd::runs || job->lingers)) continue;
    const auto drives = [id](const Principal& principal) {
      return principal.role == Role::driver && principal.job == id;
    };
    const bool starting =
        job == nullptr && std::ranges::any_of(tables_.processes.rows(), [&](const auto& each) {
          return drives(each.second.principal);
        });
    if (starting) continue;
    mark_late_end.hit();
    tables_.nodes.send(node, JobEnded{id, {}, false});
  }
}

void JobTable::recovery_ended() {
  std::vector<JobId> lingering;
  for (const auto& [id, job] : rows_) {
    if (job.lingers) lingering.push_back(id);
    const bool missing = job.runs() && tables_.processes.find(job.start.driver) == nullptr;
    if (missing) tables_.processes.expect(job.start.driver);
  }
  for (const auto id : lingering) actor_ended(id);
}

DemandClass JobTable::with_job_env(DemandClass demand) const {
  const Job* job = rows_.find(demand.job);
  if (job != nullptr) demand.env.insert(job->start.env.begin(), job->start.env.end());
  return demand;
}

bool JobTable::has_other_program(const DemandClass& demand) const {
  const Job* job = rows_.find(demand.job);
  if (job == nullptr) return false;
  const ProgramId own = job->start.program.id;
  return !own.empty() && !demand.program.empty() && demand.program != own;
}

const Job* JobTable::job_with_program(const DemandClass& demand) const {
  if (!has_other_program(demand)) return rows_.find(demand.job);
  const Job* lingering = nullptr;
  for (const auto& [id, job] : rows_) {
    if (job.start.program.id != demand.program || !job.works()) continue;
    if (job.runs()) return &job;
    lingering = &job;
  }
  return lingering;
}

std::string JobTable::program_json(const std::string& job_name) const {
  std::map<ProgramId, std::string> found;  // with the jobs that run it
  std::string nearest;
  for (const auto& [id, job] : rows_) {
    const StartJob& start = job.start;
    if (!job.works() || start.program.id.empty()) continue;
    const auto distance = [&](const std::string& name) { return edit_distance(job_name, name); };
    if (nearest.empty() || distance(start.name) < distance(nearest)) nearest = start.name;
    if (start.name != job_name) continue;
    std::string& jobs = found[start.program.id];
    jobs += (jobs.empty() ? "" : ", ") + id.hex();
  }
  Json answer;
  if (found.size() == 1) {
    answer["program"] = found.begin()->first.hex();
  } else if (found.empty()) {
    const std::string hint = nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
    answer["not_found"] =
        fmt::format("find program '{}': no running job has this name{}", job_name, hint);
  } else {
    std::string all;
    for (const auto& [program, jobs] : found)
      all += fmt::format("{}{} (job {})", all.empty() ? "" : ", ", program.brief(), jobs);
    answer["ambiguous"] = fmt::format(
        "find program '{}': jobs with this name run several programs: {}; give the jobs different "
        "names",
        job_name, all);
  }
  return json_text(answer);
}

Time JobTable::driver_absent(ProcessId driver) {
  const std::int64_t wall = wall_ms(tables_, tables_.now);
  Job* job = job_of_driver(driver);
  if (job == nullptr || !job->runs()) return tables_.now + tables_.options.driver_absence;
  if (job->absent_since_ms == 0) {
    const JobId id = job->start.job;
    job->absent_since_ms = wall;
    absent_[driver] = id;
    tables_.journal.put("jobs", id.hex(), encode(JobRow{job->start, job->node, false, wall}));
  }
  const auto passed =
      std::chrono::milliseconds(std::max<std::int64_t>(0, wall - job->absent_since_ms));
  return tables_.now + std::max(Duration(0), tables_.options.driver_absence - passed);
}

void JobTable::driver_present(ProcessId driver) {
  const auto at = absent_.find(driver);
  if (at == absent_.end()) return;
  const JobId id = at->second;
  absent_.erase(at);
  Job* job = rows_.find(id);
  if (job == nullptr || !job->runs()) return;
  job->absent_since_ms = 0;
  tables_.journal.put("jobs", id.hex(), encode(JobRow{job->start, job->node}));
}

void JobTable::driver_missing(ProcessId driver) {
  const Job* job = job_of_driver(driver);
  if (job == nullptr || !job->runs()) return;
  mark_driver_missing.hit();
  const auto waited =
      std::chrono::duration_cast<std::chrono::seconds>(tables_.options.driver_absence);
  end(job->start.job, JobEnd::failed,
      fmt::format("its driver did not return within {} s", waited.count()));
}

}  // namespace mobula::internal::head
