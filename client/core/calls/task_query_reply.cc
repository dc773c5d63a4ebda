#include "client/core/calls/task_query_reply.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "base/coverage_mark.h"

namespace mobula::internal::client {

namespace {

const CoverageMark mark_queried("client.queried_about_tasks");

constexpr std::size_t max_named_arguments = 8;
constexpr std::size_t max_named_tensors = 256;
constexpr std::uint64_t max_limit = 10'000;  // limit for one reply, for any request
constexpr std::int64_t max_answer_error_bytes = 1 << 20;

TaskPhase phase_of(const TaskRow& row) {
  const bool actor_call = row.call.form->kind == CallKind::actor_call;
  switch (row.state) {
    case TaskState::waiting: return TaskPhase::waits_for_arguments;
    case TaskState::queued:
      return actor_call ? TaskPhase::waits_for_actor : TaskPhase::waits_for_slot;
    case TaskState::sent: return row.started ? TaskPhase::runs : TaskPhase::at_executor;
    case TaskState::finished: break;
  }
  return TaskPhase::finished;
}

// Compares the leading hex digits of an id.
bool begins_with(const std::string& hex, const std::string& digits) {
  return hex.compare(0, digits.size(), digits) == 0;
}

bool is_meant(const std::string& digits, TaskId task, std::uint32_t num_returns) {
  if (begins_with(task.hex(), digits)) return true;
  for (std::uint32_t i = 0; i < num_returns; ++i) {
    if (begins_with(result_id(task, i).hex(), digits)) return true;
  }
  return false;
}

}  // namespace

class TaskReader {
 public:
  TaskReader(const TaskSources& from, const TasksRequest& query)
      : from_(from), query_(query), limit_(std::min(query.limit, max_limit)) {}

  auto answer() {
    for (const auto& [id, row] : from_.tasks.all()) {
      if (row.state == TaskState::finished) continue;
      const TaskPhase phase = phase_of(row);
      if (!wanted(phase, row.call.form->name) || !meant(id, row.call.form->num_returns)) continue;
      (row.state == TaskState::sent ? sent_ : waiting_).emplace_back(id, &row);
      count(*row.call.form, phase);
    }
    for (const auto& [id, row] : from_.dispatcher.classes()) collect_line(row);
    collect(from_.ends.finished().failed(), failed_);
    collect(from_.ends.finished().finished(), finished_);
    count_ended();
    choose();
    reply_.request = query_.request;
    count_left_out();
    return std::move(reply_);
  }

 private:
  using Unfinished = std::vector<std::pair<TaskId, const TaskRow*>>;
  using Ended = std::vector<const EndedTask*>;

  bool wanted(TaskPhase phase, const std::string& name) const {
    if (!query_.name.empty() && query_.name != name) return false;
    return query_.phases.empty() || std::ranges::find(query_.phases, phase) != query_.phases.end();
  }
  bool meant(TaskId task, std::uint32_t num_returns) const {
    return query_.id.empty() || is_meant(query_.id, task, num_returns);
  }

  // Successive tasks mostly share form and phase, so the lookup by name is cached.
  void count(const CallForm& form, TaskPhase phase) {
    if (!query_.id.empty()) return;
    if (&form != counted_form_ || phase != counted_phase_) {
      counted_ = &counts_[{form.name, phase}];
      counted_form_ = &form;
      counted_phase_ = phase;
    }
    ++*counted_;
  }

  // Newest first. A recomputed task has ended more than once: only its last end counts, and none
  // while it runs.
  void collect(const Queue<EndedTask>& from, Ended& to) {
    for (std::size_t i = from.size(); i-- > 0;) {
      const EndedTask& each = from[i];
      if (!wanted(each.failed ? TaskPhase::failed : TaskPhase::finished, each.form->name)) continue;
      if (!meant(each.task, each.form->num_returns)) continue;
      const auto* row = from_.tasks.find(each.task);
      if (row != nullptr && row->state != TaskState::finished) continue;
      if (seen_.insert(each.task, true).second) to.push_back(&each);
    }
  }

  // Compact tasks follow all tasks with rows. At most as many are read as the reply can hold.
  void collect_line(const ClassRow& demand) {
    std::uint64_t ahead = demand.queue.size();
    from_.dispatcher.compact().for_each(
        demand.line, [&](TaskId task, CompactQueue::RowIndex index, bool small) {
          const auto* row = small ? nullptr : from_.tasks.find(task);
          if (!small && (row == nullptr || row->state != TaskState::queued)) return;
          const std::uint64_t before = ahead++;
          if (!small) {
            positions_.insert(task, before);
            return;
          }
          const CallForm& form = from_.dispatcher.compact().form(index);
          if (!wanted(TaskPhase::waits_for_slot, form.name) || !meant(task, form.num_returns))
            return;
          count(form, TaskPhase::waits_for_slot);
          if (waiting_.size() < limit_) {
            waiting_.emplace_back(
                task, &expanded_.emplace_back(from_.dispatcher.compact().row_at(index)));
            positions_.insert(task, before);
          } else {
            ++not_expanded_;
          }
        });
  }

  void count_ended() {
    if (!query_.id.empty()) return;
    for (const auto& [name, counts] : from_.ends.finished().counts()) {
      if (counts.finished > 0 && wanted(TaskPhase::finished, name)) {
        counts_[{name, TaskPhase::finished}] += counts.finished;
      }
      if (counts.failed > 0 && wanted(TaskPhase::failed, name)) {
        counts_[{name, TaskPhase::failed}] += counts.failed;
      }
    }
  }

  // Failures come first, but leave half of the limit to unfinished tasks.
  void choose() {
    const std::size_t failures = std::min<std::size_t>(failed_.size(), (limit_ + 1) / 2);
    take(sent_, limit_ - failures);
    take(waiting_, limit_ - failures);
    take(failed_, limit_);
    take(finished_, limit_);
  }
  void take(const Unfinished& from, std::size_t within) {
    for (const auto& [id, row] : from) {
      if (reply_.tasks.size() >= within) return;
      reply_.tasks.push_back(fact_of(id, *row));
    }
  }
  void take(const Ended& from, std::size_t within) {
    for (const EndedTask* each : from) {
      if (reply_.tasks.size() >= within) return;
      TaskFact fact = TaskEndLog::fact_of(*each, from_.now);
      error_bytes_ += each->error_bytes;
      if (error_bytes_ > max_answer_error_bytes) fact.error = {};
      reply_.tasks.push_back(std::move(fact));
    }
  }

  void count_left_out() {
    std::uint64_t all =
        sent_.size() + waiting_.size() + not_expanded_ + failed_.size() + finished_.size();
    std::uint64_t counted = 0;
    for (const auto& [key, count] : counts_) {
      reply_.counts.push_back({key.first, key.second, count});
      counted += count;
    }
    all = std::max(all, counted);
    reply_.left_out = all - reply_.tasks.size();
  }

  TaskFact fact_of(TaskId id, const TaskRow& row) {
    TaskFact fact;
    fact.task = id;
    fact.kind = row.call.form->kind;
    fact.actor = row.call.form->actor;
    fact.name = row.call.form->name;
    fact.phase = phase_of(row);
    const bool sent = row.state == TaskState::sent;
    fact.since = from_.now - (sent ? row.started.value_or(row.since) : row.since);
    fact.attempt = row.call.attempt;
    fact.retries_left = row.retries_left;
    fact.cancelled = row.cancelled;
    fact.preemptions = row.preemptions;
    if (row.call.form->kind == CallKind::task) fact.demand_class = row.demand_class;
    for (std::uint32_t i = 0; i < row.call.form->num_returns && !from_.blocked_on.empty(); ++i) {
      if (std::ranges::find(from_.blocked_on, result_id(id, i)) != from_.blocked_on.end())
        fact.awaited = true;
    }
    if (!query_.id.empty()) add_tensors(row, fact);
    switch (row.state) {
      case TaskState::waiting: tell_arguments(row, fact); break;
      case TaskState::queued: tell_queue(id, row, fact); break;
      case TaskState::sent: tell_executor(id, row, fact); break;
      case TaskState::finished: break;
    }
    return fact;
  }

  void add_tensors(const TaskRow& row, TaskFact& fact) const {
    for (const Argument& argument : *row.call.arguments) {
      const auto* object = argument.is_ref ? from_.objects.find(argument.ref.object) : nullptr;
      const RefRecords& contained =
          object != nullptr ? object->value->contained : argument.value.contained;
      for (const RefRecord& ref : contained) {
        if (!ref.tensor.is_empty() && fact.tensors.size() < max_named_tensors)
          fact.tensors.push_back(ref.object);
      }
      add_tensors_inside(contained, fact);
    }
  }
  // Adds the tensors of values that an argument refers to, one level deep.
  void add_tensors_inside(const RefRecords& contained, TaskFact& fact) const {
    for (const RefRecord& outer : contained) {
      const auto* object = outer.tensor.is_empty() ? from_.objects.find(outer.object) : nullptr;
      if (object == nullptr) continue;
      for (const RefRecord& ref : object->value->contained) {
        if (!ref.tensor.is_empty() && fact.tensors.size() < max_named_tensors)
          fact.tensors.push_back(ref.object);
      }
    }
  }

  void tell_arguments(const TaskRow& row, TaskFact& fact) const {
    if (row.retry_at && row.awaits_owner) {
      fact.reason =
          "the home of an argument, which another process owns, cannot be reached, and it is asked "
          "again";
    } else if (row.retry_at) {
      fact.reason = "it was ended for lack of memory, so far " + std::to_string(row.memory_deaths) +
                    " times, and is tried again after a pause";
    }
    for (const auto& argument : *row.call.arguments) {
      const auto* object = argument.is_ref ? from_.objects.find(argument.ref.object) : nullptr;
      if (object == nullptr || object->ready) continue;
      ++fact.missing;
      if (fact.arguments.size() >= max_named_arguments) continue;
      MissingArgument missing;
      missing.object = argument.ref.object;
      const RefRecord ref = from_.objects.ref_of(argument.ref.object);
      missing.owner = ref.owner;
      missing.home = ref.home;
      if (object->owned) missing.task = object->creator;
      if (const auto* maker = from_.tasks.find(missing.task))
        missing.task_name = maker->call.form->name;
      fact.arguments.push_back(std::move(missing));
    }
  }

  void tell_queue(TaskId id, const TaskRow& row, TaskFact& fact) {
    fact.ahead = position_of(id);
    if (row.call.form->kind == CallKind::actor_call) {
      const auto* actor = from_.actors.find(row.call.form->actor);
      if (actor == nullptr) return;
      fact.waiting = actor->queue.size();
      if (actor->state != ActorState::alive) {
        fact.reason = "the actor is " + std::string(to_string(actor->state));
        if (!actor->waiting_reason.empty()) fact.reason += "; " + actor->waiting_reason;
      } else {
        fact.reason = from_.actors.why_nothing_leaves(*actor);
      }
      return;
    }
    const auto* demand = from_.dispatcher.find(row.demand_class);
    if (demand == nullptr) return;
    fact.waiting = demand->waiting();
    fact.slots = demand->slots.size();
    fact.reason = demand->waiting_reason;
  }

  void tell_executor(TaskId id, const TaskRow& row, TaskFact& fact) {
    fact.executor = row.executor;
    const auto* stream = from_.streams.find(row.executor);
    if (stream == nullptr) return;
    const auto* slot = from_.dispatcher.find(stream->slot);
    fact.node = slot != nullptr ? slot->node : stream->endpoint.node;
    fact.waiting = stream->in_flight.size();
    if (gone_through_.insert(row.executor, true).second) {
      std::uint64_t ahead = 0;
      for (const auto& [number, task] : stream->in_flight) positions_.insert(task, ahead++);
    }
    const auto* ahead = positions_.find(id);
    fact.ahead = ahead == nullptr ? 0 : *ahead;
    if (row.preempted)
      fact.reason = "it is being ended for work of a higher priority, and runs again";
    if (stream->ending) fact.reason = "its executor " + to_string(*stream->ending);
  }

  // Queue positions are computed once per reply, for queues here and for the streams of executors.
  std::uint64_t position_of(TaskId id) {
    if (!placed_) {
      placed_ = true;
      const auto add = [&](const TaskQueue& queue) {
        std::uint64_t ahead = 0;
        for (const TaskId each : queue) positions_.insert(each, ahead++);
      };
      for (const auto& [key, row] : from_.dispatcher.classes()) add(row.queue);
      for (const auto& [key, row] : from_.actors.all()) row.queue.for_each_group(add);
    }
    const auto* index = positions_.find(id);
    return index == nullptr ? 0 : *index;
  }

  const TaskSources& from_;
  const TasksRequest& query_;
  const std::uint64_t limit_;
  Unfinished sent_;
  Unfinished waiting_;
  std::deque<TaskRow> expanded_;  // rows built for compact tasks
  std::uint64_t not_expanded_ = 0;
  Ended failed_;
  Ended finished_;
  Table<TaskId, bool> seen_;
  std::map<std::pair<std::string, TaskPhase>, std::uint64_t> counts_;
  const CallForm* counted_form_ = nullptr;  // form counted last, with its counter
  TaskPhase counted_phase_ = TaskPhase::finished;
  std::uint64_t* counted_ = nullptr;
  bool placed_ = false;
  Table<ProcessId, bool> gone_through_;  // executors whose streams have positions already
  Table<TaskId, std::uint64_t> positions_;
  std::int64_t error_bytes_ = 0;
  TasksReply reply_;
};

TasksReply tasks_reply(const TasksRequest& request, const TaskSources& from) {
  mark_queried.hit();
  return TaskReader(from, request).answer();
}

}  // namespace mobula::internal::client
