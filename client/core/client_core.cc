#include "client/core/client_core.h"

#include <algorithm>

#include "base/coverage_mark.h"
#include "protocol/codec/codec.h"
#include "protocol/version.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_job_over("client.job_ended_by_the_head");

}  // namespace

void ClientCore::consume(Time now, Event& event, std::vector<Command>& out) {
  const std::size_t first = out.size();
  step_.begin(now, out);
  std::visit([&](auto& each) { on(each); }, event);
  if (tasks_.streams_touched()) tasks_.settle_streams();
  dispatcher_.dispatch_changed();
  subscriptions_.report_changed(out, first);
  if (tasks_.streams_touched()) settle_streams(out);
  objects_.settle();
  if (awaits_submitted_ && !has_unfinished()) conclude_submitted();
  dispatcher_.settle();
  streams_.settle();
  step_.end();
}

// Objects of streams were dropped after the event: by tasks that ended, or by reports.
void ClientCore::settle_streams(std::vector<Command>& out) {
  while (tasks_.streams_touched()) {
    const std::size_t first = out.size();
    tasks_.settle_streams();
    dispatcher_.dispatch_changed();
    subscriptions_.report_changed(out, first);
  }
}

std::optional<Time> ClientCore::next_deadline() const {
  std::optional<Time> earliest;
  const auto consider = [&](std::optional<Time> at) {
    if (at && (!earliest || *at < *earliest)) earliest = at;
  };
  consider(dispatcher_.next_deadline());
  consider(streams_.next_deadline());
  consider(tasks_.next_deadline());
  consider(objects_.next_deadline());
  consider(ends_.next_deadline());
  return earliest;
}

bool ClientCore::deadlines_are_exact() const {
  return streams_.earliest_of_all() == streams_.next_deadline() && objects_.deadlines_are_exact() &&
         dispatcher_.deadlines_are_exact();
}

void ClientCore::on(const Tick&) {
  streams_.tick();
  dispatcher_.tick();
  objects_.tick_writes();
  tasks_.tick();
  objects_.tick_holds();
  ends_.tick();
}

// ---- agent and head ----------------------------------------------------------------------------

void ClientCore::on(const Attached& event) {
  const bool again = attached_ || !step_.node().empty();
  step_.set_node(event.node);
  attached_ = true;
  job_ = event.job;
  if (again) {
    objects_.lose_store();
    tasks_.forget_readers();
    objects_.restate_reads();
  }
  restate();
}

void ClientCore::on(const AgentLost&) {
  attached_ = false;
  head_epoch_ = 0;
}

void ClientCore::on(const ReceivedFromAgent& event) {
  std::visit([&](const auto& each) { from_agent(each); }, event.message);
}

void ClientCore::from_agent(const FromHead& message) {
  std::visit([&](const auto& each) { from_head(each); }, message.message);
}

void ClientCore::from_agent(const HeadStatus& message) {
  ends_.uses().set_accepted(message.protocol >= version_with_class_use, step_.now());
  objects_.set_readers_accepted(message.takes_readers);
  tasks_.set_readers_reported(message.takes_readers);
  if (!message.connected || message.epoch == head_epoch_) return;
  const bool first = head_epoch_ == 0;
  head_epoch_ = message.epoch;
  if (!first) restate();
}

// Sends all state that the head lacks after its restart, or after a restart of this node's agent.
void ClientCore::restate() {
  if (!job_.job.empty()) step_.send_to_head(job_);
  actors_.restate();
  groups_.restate();
  dispatcher_.restate();
  ends_.uses().restate(step_.now());
}

void ClientCore::from_agent(const PeersDead& message) {
  if (!message.processes.empty()) objects_.lenders_died();
  for (const ProcessId process : message.processes) {
    streams_.forget_numbers(process);
    tasks_.remember_death(process);
    if (streams_.find(process) != nullptr) {
      streams_.executor_ended(process, EndCause{.kind = EndKind::node_died,
                                                .exit_code = 0,
                                                .signal = 0,
                                                .pid = 0,
                                                .text = "its death was published by the head",
                                                .last_lines = {}});
    }
  }
}

void ClientCore::from_head(const StartJobReply& message) {
  job_started_ = true;
  step_.emit(HeadAnswered{message});
}

// Once the job has run, a rejection means that the head ended it, because its node counted as dead
// for a while. Waiting tasks never get a slot, and retries are rejected again.
void ClientCore::from_head(const RequestRejected& message) {
  step_.emit(HeadAnswered{message});
  if (!job_started_ || job_.job.empty() || message.job != job_.job) return;
  mark_job_over.hit();
  EndCause cause;
  cause.kind = EndKind::killed;
  cause.text = message.why;
  std::vector<ProcessId> executors;
  for (const auto& [executor, stream] : streams_.all()) executors.push_back(executor);
  for (const ProcessId executor : executors) streams_.executor_ended(executor, cause);
  dispatcher_.forget_all_slots();
  actors_.end_all(cause);
  dispatcher_.fail_all(ErrorKind::connection, " cannot run: " + message.why);
  groups_.end_all(message.why);
  objects_.unshare();
}

// ---- queries -----------------------------------------------------------------------------------

TaskSources ClientCore::sources(Time now) const {
  return {now, tasks_, dispatcher_, actors_, streams_, objects_, ends_, blocked_on_};
}

void ClientCore::from_head(const TasksRequest& message) {
  step_.send_to_head(tasks_reply(message, sources(step_.now())));
}

bool ClientCore::is_actor_call(ObjectId result) const {
  const auto* row = objects_.find(result);
  const auto* task = row != nullptr && !row->ready ? tasks_.find(row->creator) : nullptr;
  return task != nullptr && task->call.form->kind == CallKind::actor_call;
}

std::int64_t ClientCore::pending_calls(ActorId actor) const {
  const auto* row = actors_.find(actor);
  return row ? row->calls : 0;
}

std::string ClientCore::why_queued(const TaskRow& task, const std::string& age) const {
  if (task.call.form->kind == CallKind::actor_call) {
    const auto* actor = actors_.find(task.call.form->actor);
    if (actor == nullptr || actor->state == ActorState::alive) {
      const std::string held = actor == nullptr ? "" : actors_.why_nothing_leaves(*actor);
      return " waits for its turn at the actor, since " + age + (held.empty() ? "" : "; " + held);
    }
    const std::string text =
        " waits for the actor, which is " + std::string(to_string(actor->state)) + ", since " + age;
    return actor->waiting_reason.empty() ? text : text + "; " + actor->waiting_reason;
  }
  const auto* demand = dispatcher_.find(task.demand_class);
  std::string text = " is queued for a slot with " + demand->spec.request.resources.to_string() +
                     ", since " + age + ", " + std::to_string(demand->waiting()) + " waiting, " +
                     std::to_string(demand->slots.size()) + " slots held";
  if (task.preemptions > 0) {
    text += "; it was ended for work of a higher priority, preemptions so far: " +
            std::to_string(task.preemptions);
  }
  return demand->waiting_reason.empty() ? text : text + "; " + demand->waiting_reason;
}

std::string ClientCore::why_pending(Time now, ObjectId id) const {
  const auto* row = objects_.object(id);
  if (row == nullptr) return "this process has no ref on the object";
  if (row->ready && !row->fetching) return "it is ready";
  if (row->fetching) {
    const bool is_here = row->ready && row->value->location == step_.node();
    return is_here ? "it waits for memory in the object store of this node; views of other "
                     "objects, and values that tasks "
                     "read, keep their memory"
                   : "its bytes are on their way from another node";
  }
  const auto small = dispatcher_.compact().find(id);
  const auto expanded = small ? std::optional(dispatcher_.compact().row_at(*small)) : std::nullopt;
  const auto* task = expanded ? &*expanded : tasks_.find(row->creator);
  if (task == nullptr && !row->owned) return "its owner has not finished it";
  if (task == nullptr) return groups_.why_pending(id);
  const auto ms = std::to_string((now - task->since).count() / 1'000'000) + " ms";
  const auto name = "task " + task->call.form->name;
  switch (task->state) {
    case TaskState::waiting:
      if (task->retry_at) {
        return name + " was ended for lack of memory, so far " +
               std::to_string(task->memory_deaths) + " times, and is tried again in " +
               std::to_string(
                   std::max<std::int64_t>(0, (*task->retry_at - now).count() / 1'000'000)) +
               " ms";
      }
      return name + " waits for " + std::to_string(task->missing) + " pending argument(s), since " +
             ms;
    case TaskState::queued: return name + why_queued(*task, ms);
    case TaskState::sent:
      if (task->started) {
        const auto run_ms = std::to_string((now - *task->started).count() / 1'000'000) + " ms";
        return name + " runs at executor " + task->executor.brief() + ", since " + run_ms;
      }
      if (const auto* stream = streams_.find(task->executor);
          stream != nullptr && stream->give_up_at) {
        return name + " is at executor " + task->executor.brief() + ", since " + ms +
               (stream->rejection.empty()
                    ? "; the connection to it is broken and is tried again"
                    : "; it rejects this process, which tries again: " + stream->rejection);
      }
      return name + " is at executor " + task->executor.brief() + ", since " + ms;
    case TaskState::finished: return name + " has finished";
  }
  return {};
}

std::string ClientCore::awaited_placement(ObjectId id) const {
  const auto* row = objects_.object(id);
  if (row == nullptr || row->ready) return {};
  const auto small = dispatcher_.compact().find(id);
  const auto in_queue = small ? std::optional(dispatcher_.compact().row_at(*small)) : std::nullopt;
  const auto* task = in_queue ? &*in_queue : tasks_.find(row->creator);
  if (task == nullptr) {
    const auto group = groups_.awaited_by(id);
    return row->owned && group ? group->hex() : std::string();
  }
  if (task->state != TaskState::queued) return {};
  if (task->call.form->kind != CallKind::actor_call) return task->demand_class.hex();
  const auto* actor = actors_.find(task->call.form->actor);
  const bool waits = actor != nullptr && actor->state == ActorState::placing;
  return waits ? task->call.form->actor.hex() : std::string();
}

bool ClientCore::empty() const {
  return objects_.all().empty() && tasks_.all().empty() && dispatcher_.compact().tasks() == 0 &&
         streams_.empty() && dispatcher_.slots().empty() && dispatcher_.classes().empty() &&
         actors_.all().empty() && objects_.writes() == 0 && subscriptions_.empty();
}

ClientCore::Sizes ClientCore::sizes() const {
  return {objects_.all().size() + dispatcher_.compact().results(),
          tasks_.all().size() + dispatcher_.compact().tasks(),
          streams_.all().size(),
          dispatcher_.slots().size(),
          dispatcher_.classes().size(),
          actors_.all().size(),
          objects_.writes()};
}

}  // namespace mobula::internal::client
