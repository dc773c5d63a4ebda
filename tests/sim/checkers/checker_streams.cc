#include "sim/checkers/checker_streams.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "sim/process_role.h"
#include "sim/world.h"

namespace mobula::internal::sim {

void StreamChecker::submitted(TaskId task, const Plan& plan) {
  streams_.insert_or_assign(task, Stream{plan.items, plan.stream_window, plan.throws > 0});
  for (std::uint64_t index = 0; index <= plan.items; ++index) {
    positions_.insert_or_assign(position_id(task, index), std::pair(task, index));
    Expected position;
    position.number = 1;
    position.may_fail = plan.throws > 0 || plan.may_fail;
    world_.checkers().made(position_id(task, index), position);
    Expected item;
    item.number = item_number(plan, index);
    item.may_fail = plan.may_fail;
    world_.checkers().made(item_id(task, index), item);
  }
}

void StreamChecker::sent(const Process& caller, const PushCall& push) {
  if (!streams_.contains(push.call.task)) return;
  Received& here = received_[{caller.id(), push.call.task}];
  auto known = here.items;
  std::erase_if(known, [&](std::uint64_t index) {
    const auto* row = caller.client().object(item_id(push.call.task, index));
    return row != nullptr && !row->ready;
  });
  here.known.try_emplace(push.call.attempt, std::move(known));
}

void StreamChecker::exported(ObjectId object) {
  const auto at = positions_.find(object);
  if (at != positions_.end()) exported_.insert(at->second.first);
}

void StreamChecker::taken(const Process& consumer, ObjectId position) {
  const auto [task, index] = positions_.at(position);
  std::uint64_t& first = taken_[{consumer.id(), task}];
  first = std::max(first, index + 1);
  Progress& progress = progress_[{consumer.id(), task}];
  progress.taken = std::max(progress.taken, index + 1);
  raise_limit(task);
}

void StreamChecker::reader_reports(const Process& reader, const ReaderMoved& message) {
  const TaskId task = positions_.at(message.stream.object).first;
  if (message.taken == 0) {
    ++ends_sent_[{reader.id(), message.stream.object}];
    progress_.erase({reader.id(), task});
  } else {
    Progress& progress = progress_[{reader.id(), task}];
    if (message.taken > progress.taken) {
      world_.violation("streams", reader.name() + " reports item " + std::to_string(message.taken) +
                                      " of " + task.brief() + ", and is at " +
                                      std::to_string(progress.taken));
    }
    progress.reports = true;
  }
  raise_limit(task);
}

void StreamChecker::report_reaches(ProcessId agent, ProcessId reader, const ReaderMoved& message) {
  const ObjectId stream = message.stream.object;
  std::uint64_t& ends = ends_reached_[{reader, stream}];
  if (message.taken == 0) {
    ++ends;
  } else {
    known_[{agent, stream}].insert({reader, ends});
  }
}

void StreamChecker::readers_sent(ProcessId agent, ObjectId stream, std::uint64_t taken) {
  sent_[{agent, stream}].push_back({taken, known_[{agent, stream}]});
}

StreamChecker::Readers StreamChecker::pop_sent(ProcessId agent, ObjectId stream,
                                               std::uint64_t taken) {
  auto& sent = sent_[{agent, stream}];
  const auto at = std::ranges::find(sent, taken, &ReadersSent::taken);
  if (at == sent.end()) return {};  // sent repeatedly
  Readers readers = std::move(at->readers);
  sent.erase(sent.begin(), std::next(at));
  return readers;
}

void StreamChecker::readers_reach(ProcessId from, ProcessId home, const NodeReaderMoved& message) {
  const Readers readers = pop_sent(from, message.stream, message.taken);
  known_[{home, message.stream}].insert(readers.begin(), readers.end());
}

void StreamChecker::readers_reach_owner(ProcessId from, const ReadersMoved& message) {
  const TaskId task = positions_.at(message.stream).first;
  joined_[task] = pop_sent(from, message.stream, message.taken);
  raise_limit(task);
}

void StreamChecker::reader_ended(const Process& reader) {
  for (auto at = progress_.begin(); at != progress_.end();) {
    const auto [process, task] = at->first;
    if (process != reader.id()) {
      ++at;
      continue;
    }
    at = progress_.erase(at);
    raise_limit(task);
  }
}

void StreamChecker::deaths_reach(ProcessId agent, const PeersChanged& message) {
  for (auto& [location, readers] : known_) {
    if (location.first != agent) continue;
    std::erase_if(readers, [&](const Reader& reader) {
      return std::ranges::find(message.dead_processes, reader.process) !=
             message.dead_processes.end();
    });
  }
}

void StreamChecker::caller_exits(const Process& caller) { leaving_.insert(caller.id()); }

// The limit rises to the slowest reader that the caller can know, or without one to the fastest of
// all. It never falls, because the executor may know it.
void StreamChecker::raise_limit(TaskId task) {
  std::optional<std::uint64_t> slowest;
  for (const Reader& reader : joined_[task]) {
    const auto progress = progress_.find({reader.process, task});
    const auto ends = ends_sent_.find({reader.process, position_id(task, 0)});
    const std::uint64_t period = ends == ends_sent_.end() ? 0 : ends->second;
    if (progress == progress_.end() || !progress->second.reports || reader.period != period)
      continue;
    slowest = std::min(slowest.value_or(progress->second.taken), progress->second.taken);
  }
  if (!slowest) {
    slowest = 0;
    for (const auto& [reader, taken] : taken_)
      if (reader.second == task) slowest = std::max(*slowest, taken);
  }
  std::uint64_t& limit = limits_[task];
  limit = std::max(limit, *slowest);
}

void StreamChecker::given(const Process& executor, const executor::RunCall& run,
                          std::uint64_t index) {
  const auto at = streams_.find(run.call.task);
  const Process* caller = world_.process_of(run.caller);
  if (at == streams_.end() || caller == nullptr || !caller->alive()) return;
  const Received& there = received_[{run.caller, run.call.task}];
  const std::string what =
      executor.name() + " gives item " + std::to_string(index) + " of " + run.call.form->name;
  const auto known = there.known.find(run.call.attempt);
  if (known != there.known.end() && known->second.contains(index))
    return world_.violation("streams", what + ", which its caller has");
  if (there.items.contains(index)) return;  // it is lost
  if (exported_.contains(run.call.task)) {
    raise_limit(run.call.task);
    const std::uint64_t limit = limits_[run.call.task];
    if (index >= limit + at->second.window && !leaving_.contains(run.caller)) {
      world_.violation("streams", what + ", and its slowest reader was at " +
                                      std::to_string(limit) + " of window " +
                                      std::to_string(at->second.window));
    }
    return;
  }
  const auto taken = taken_.find({run.caller, run.call.task});
  const std::uint64_t first = taken == taken_.end() ? 0 : taken->second;
  if (index >= first + at->second.window) {
    world_.violation("streams", what + ", and its fastest consumer is at " + std::to_string(first) +
                                    " of window " + std::to_string(at->second.window));
  }
}

void StreamChecker::received(const Process& caller, const ItemYielded& message) {
  const auto* row = caller.client().object(item_id(message.task, message.index));
  if (streams_.contains(message.task) && row != nullptr && row->ready)
    received_[{caller.id(), message.task}].items.insert(message.index);
}

void StreamChecker::read(Process& consumer, ObjectId position, const Reading& reading) {
  const auto at = positions_.find(position);
  if (at == positions_.end()) return world_.violation("streams", "an unknown position is read");
  const auto [task, index] = at->second;
  const Stream& stream = streams_.at(task);
  const std::string what =
      consumer.name() + " reads position " + std::to_string(index) + " of " + task.brief();
  const bool at_end = index == stream.items;
  if (reading.error) {
    if (reading.error->kind == ErrorKind::task && (!stream.throws || index != stream.items / 2))
      return world_.violation("streams", what + ", which is an error");
    return world_.checkers().value_read(consumer, position, reading);
  }
  if (reading.contained.empty()) {
    if (!at_end || stream.throws) world_.violation("streams", what + ", which is the end");
    return;
  }
  const auto& refs = reading.contained;
  if (at_end) return world_.violation("streams", what + ", which must be the end");
  if (refs.size() != 2 || refs[0].object != item_id(task, index) ||
      refs[1].object != position_id(task, index + 1))
    world_.violation("streams", what + ", which refers to other objects than the next ones");
}

}  // namespace mobula::internal::sim
