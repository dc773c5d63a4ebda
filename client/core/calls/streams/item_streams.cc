#include "client/core/calls/streams/item_streams.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "base/coverage_mark.h"
#include "base/model/stream_link.h"
#include "base/model/tensor_refs.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_unwanted("client.item_without_a_consumer");
const CoverageMark mark_again("client.item_yielded_again");
const CoverageMark mark_not_again("client.item_not_yielded_again");
const CoverageMark mark_window("client.items_taken_reported");
const CoverageMark mark_unreported("client.reader_of_a_stream_cannot_report");

// The value of a position: one byte, and refs to its item and to the next position. The end has no
// refs.
const Payload& position_bytes() {
  static const Payload bytes(std::vector<std::byte>{std::byte{1}});
  return bytes;
}

ValueRecord end_value() {
  ValueRecord value;
  value.bytes = position_bytes();
  value.size_bytes = 1;
  return value;
}

// The same for other processes, which report their reads of the stream.
ValueRecord link_value(TaskId task, std::uint64_t index, std::uint32_t window,
                       std::int64_t size_bytes) {
  ValueRecord value;
  value.bytes = Payload(to_bytes(StreamLink{position_id(task, 0), index, window, size_bytes}));
  value.size_bytes = static_cast<std::int64_t>(value.bytes.size());
  return value;
}

bool is_stored_elsewhere(const ValueRecord& value) {
  return value.in_store || std::ranges::any_of(value.contained, is_pulled_tensor);
}

}  // namespace

ItemStreams::Row& ItemStreams::row_of(TaskId task) {
  auto [row, fresh] = rows_.ensure(task);
  if (fresh) row->open.push_back({position_id(task, 0)});
  return *row;
}

StreamTerms ItemStreams::start_run(TaskId task, const StreamTerms& terms) {
  auto* row = rows_.find(task);
  if (row == nullptr) return terms;
  StreamTerms rest = terms;
  rest.known = row->known;
  rest.taken = row->reported = std::max(row->exported ? row->reported : 0, limit(*row));
  rest.missing = missing(task);
  row->unreported_bytes = 0;
  return rest;
}

void ItemStreams::add(TaskRow& task, std::uint64_t index, ValueRecord value) {
  const TaskId id = task.call.task;
  const bool is_task = task.call.form->kind == CallKind::task;
  Row& row = row_of(id);
  const ObjectId item = item_id(id, index);
  if (index != row.known) {
    // A lost item, or a repeated one.
    if (const auto* known = objects_.find(item); known != nullptr && !known->ready)
      mark_again.hit();
    return objects_.complete(item, std::move(value));
  }
  const ObjectId position = row.open.back().id;
  if (row.ended || objects_.find(position) == nullptr) {
    mark_unwanted.hit();
    return objects_.complete(item, std::move(value));
  }
  const ObjectId next = position_id(id, ++row.known);
  row.open.back().size_bytes = value.size_bytes;
  row.open.push_back({next});
  if (is_stored_elsewhere(value)) {
    row.stored.push_back(index);
    row.keeps_lineage |= is_task || !value.in_store;
  }
  task.live_results += 2;
  objects_.own(item, id);
  objects_.own(next, id).position = true;
  objects_.complete(item, std::move(value));
  ValueRecord link = row.exported ? link_value(id, index, task.call.form->stream.window,
                                               row.open[row.open.size() - 2].size_bytes)
                                  : end_value();
  link.contained = {objects_.ref_of(item), objects_.ref_of(next)};
  objects_.complete(position, std::move(link));
  // The position holds them from now on.
  objects_.on(ReleaseRef{item});
  objects_.on(ReleaseRef{next});
}

void ItemStreams::end(const TaskRow& task, const Results& results) {
  Row& row = row_of(task.call.task);
  if (std::exchange(row.ended, true)) return;
  const bool failed = !results.empty() && results.front().is_error;
  objects_.complete(row.open.back().id, failed ? results.front() : end_value());
}

void ItemStreams::fail_missing(const TaskRow& task, const Results& results) {
  const TaskId id = task.call.task;
  const std::string name = task.call.form->name;
  const bool failed = !results.empty() && results.front().is_error;
  ErrorRecord error;
  error.kind = ErrorKind::object_lost;
  for (const std::uint64_t index : missing(id)) {
    mark_not_again.hit();
    const ObjectId item = item_id(id, index);
    error.text = "item " + std::to_string(index) + " of " + name +
                 " is lost, and no run of the call has yielded it again";
    objects_.complete(item, failed ? results.front() : error_value(error));
  }
}

void ItemStreams::note_taken(TaskId task, ObjectId position) {
  Row& row = row_of(task);
  const Position& fastest = row.open[row.taken - row.dropped];
  if (fastest.id != position) return;  // another consumer was there before
  row.unreported_bytes += fastest.size_bytes;
  ++row.taken;
  row.read_here = true;
  note_dropped(task);
}

// Positions that are complete get their links before they are stored for other processes.
void ItemStreams::note_passed_on(const TaskRow& task) {
  const TaskId id = task.call.task;
  Row& row = row_of(id);
  row.read_here = false;
  note_dropped(id);
  if (std::exchange(row.exported, true)) return;
  exported_.insert(position_id(id, 0), id);
  row.unlimited = !readers_reported_;
  for (std::uint64_t index = row.dropped; index < row.known; ++index) {
    const Position& position = row.open[index - row.dropped];
    auto* object = objects_.find(position.id);
    if (object == nullptr || !object->ready) continue;
    ValueRecord link = link_value(id, index, task.call.form->stream.window, position.size_bytes);
    link.contained = object->value->contained;
    object->value = std::move(link);
  }
}

void ItemStreams::on(const ReadersMoved& message) {
  const TaskId* task = exported_.find(message.stream);
  if (task == nullptr) return;
  Row& row = rows_.at(*task);
  row.elsewhere = message.taken;
  if (message.taken == stream_without_window) {
    mark_unreported.hit();
    row.unlimited = true;
  }
  note_dropped(*task);
}

// The new agent reports the readers that remain.
void ItemStreams::forget_readers() {
  for (auto& [task, row] : rows_) {
    row.elsewhere = 0;
    if (row.exported) note_dropped(task);
  }
}

void ItemStreams::end_windows() {
  for (auto& [task, row] : rows_) {
    if (!row.exported) continue;
    row.unlimited = true;
    note_dropped(task);
  }
}

void ItemStreams::forget(TaskId task) {
  const auto* row = rows_.find(task);
  if (row != nullptr && row->exported) exported_.erase(position_id(task, 0));
  rows_.erase(task);
}

std::uint64_t ItemStreams::limit(Row& row) {
  if (!row.exported) return row.taken;
  if (row.unlimited) return stream_without_window;
  if (row.read_here) {
    const auto* furthest = objects_.find(row.open[row.taken - row.dropped].id);
    row.read_here = furthest != nullptr && furthest->refs > 0;
  }
  if (!row.read_here) return row.elsewhere;
  return row.elsewhere == 0 ? row.taken : std::min(row.taken, row.elsewhere);
}

void ItemStreams::move_window(const TaskRow& task) {
  // The executor stops at twice this size, see ItemWindows.
  constexpr std::int64_t report_bytes = stream_window_bytes / 2;
  auto* row = rows_.find(task.call.task);
  if (row == nullptr) return;
  while (row->dropped < row->known && objects_.find(row->open.front().id) == nullptr) {
    if (row->taken == row->dropped) {
      row->unreported_bytes += row->open.front().size_bytes;
      ++row->taken;
    }
    row->open.pop_front();
    ++row->dropped;
  }
  if (task.state != TaskState::sent || row->ended) return;
  auto* stream = streams_.find(task.executor);
  const std::uint64_t taken = limit(*row);
  if (stream == nullptr || taken <= row->reported) return;
  const std::uint64_t batch = std::max<std::uint64_t>(1, task.call.form->stream.window / 2);
  const bool is_batch = taken - row->reported >= batch || row->unreported_bytes >= report_bytes;
  if (!is_batch && !row->exported) return;  // other processes report in batches
  mark_window.hit();
  row->reported = taken;
  row->unreported_bytes = 0;
  streams_.say(*stream, ItemsTaken{task.number, taken});
}

bool ItemStreams::is_abandoned(const TaskRow& task) const {
  const auto* row = rows_.find(task.call.task);
  if (row == nullptr) return objects_.find(task.first_result) == nullptr;
  return !row->ended && objects_.find(row->open.back().id) == nullptr;
}

bool ItemStreams::keeps_lineage(TaskId task) const {
  const auto* row = rows_.find(task);
  return row != nullptr && row->keeps_lineage;
}

std::vector<ObjectId> ItemStreams::stored_items(TaskId task) const {
  std::vector<ObjectId> items;
  const auto* row = rows_.find(task);
  if (row == nullptr) return items;
  for (const std::uint64_t index : row->stored) {
    const ObjectId item = item_id(task, index);
    if (objects_.find(item) != nullptr) items.push_back(item);
  }
  return items;
}

std::vector<std::uint64_t> ItemStreams::missing(TaskId task) const {
  std::vector<std::uint64_t> lost;
  const auto* row = rows_.find(task);
  if (row == nullptr) return lost;
  std::ranges::copy_if(row->stored, std::back_inserter(lost), [&](std::uint64_t index) {
    const auto* item = objects_.find(item_id(task, index));
    return item != nullptr && !item->ready;
  });
  return lost;
}

}  // namespace mobula::internal::client
