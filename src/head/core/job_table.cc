#include "head/core/job_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/mark.h"
#include "head/core/parts.h"

namespace mobula::internal::head {
namespace {

const Mark mark_job_restated("head.job_restated");
const Mark mark_late_end("head.node_has_things_of_an_ended_job");
const Mark mark_driver_missing("head.driver_did_not_come_back");

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
  rows_.insert(row.start.job, std::move(job));
}

bool JobTable::runs(JobId id) const {
  const Job* job = rows_.find(id);
  return job != nullptr && job->runs();
}

void JobTable::refuse(const StartJob& message, const std::string& why) {
  parts_.processes.tell(message.driver, RequestRefused{message.job, why});
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
      parts_.processes.tell(message.driver, JobStarted{message.job, job->name_space});
    parts_.slots.announce_to(message.driver);
    return;
  }
  if (rows_.size() - ended_.size() >= parts_.options.max_jobs) {
    return refuse(message, fmt::format("the cluster is at its limit of {} jobs; try again when one "
                                       "has ended",
                                       parts_.options.max_jobs));
  }
  rows_.insert(message.job, job_of(node, message));
  parts_.journal.put("jobs", message.job.hex(), encode(JobRow{message, node}), true);
  parts_.journal.wait(JobGate{message.job});
}

void JobTable::durable(JobId id) {
  Job* job = rows_.find(id);
  if (job == nullptr || job->end != JobEnd::runs) return;
  job->durable = true;
  parts_.processes.tell(job->start.driver, JobStarted{id, job->name_space});
}

void JobTable::not_durable(JobId id, const std::string& why) {
  const Job* job = rows_.find(id);
  if (job == nullptr || job->end != JobEnd::runs) return;
  refuse(job->start, fmt::format("job {} cannot be made durable: {}", id.hex(), why));
  rows_.erase(id);
}

bool JobTable::end(JobId id, JobEnd how, const std::string& why) {
  Job* job = rows_.find(id);
  if (job == nullptr || job->end != JobEnd::runs) return false;
  job->end = how;
  job->why = why;
  parts_.journal.erase("jobs", id.hex());
  parts_.actors.job_ended(id);
  parts_.slots.job_ended(id);
  parts_.nodes.broadcast(JobEnded{id, parts_.actors.kept_slots(id)});

  ended_.push_back(id);
  if (ended_.size() > parts_.options.max_ended_kept) {
    rows_.erase(ended_.front());
    ended_.pop_front();
  }
  return true;
}

void JobTable::driver_ended(ProcessId process, const EndCause& cause) {
  for (const auto& [id, job] : rows_) {
    if (job.start.driver != process || job.end != JobEnd::runs) continue;
    end(id, JobEnd::failed, "its driver " + to_string(cause));
    return;
  }
}

// A job that the head does not know has ended, too, unless its driver is there to start it.
void JobTable::node_joined(NodeId node, const Facts& facts) {
  for (const auto id : facts.jobs) {
    const Job* job = rows_.find(id);
    if (job != nullptr && job->end == JobEnd::runs) continue;
    const auto drives = [id](const Principal& principal) {
      return principal.role == Role::driver && principal.job == id;
    };
    const bool starting =
        job == nullptr && std::ranges::any_of(parts_.processes.rows(), [&](const auto& each) {
          return drives(each.second.principal);
        });
    if (starting) continue;
    mark_late_end.hit();
    parts_.nodes.send(node, JobEnded{id, parts_.actors.kept_slots(id)});
  }
}

void JobTable::recovery_ended() {
  std::vector<JobId> orphans;
  for (const auto& [id, job] : rows_) {
    if (job.runs() && parts_.processes.find(job.start.driver) == nullptr) orphans.push_back(id);
  }
  for (const auto id : orphans) {
    mark_driver_missing.hit();
    end(id, JobEnd::failed, "its driver did not come back after the head was restarted");
  }
}

}  // namespace mobula::internal::head
