#include "client/core/calls/dispatch/compact_queue.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/containers/table.h"

namespace mobula::internal::client {
namespace {

constexpr std::size_t max_packed = 512;  // bytes; tasks with larger arguments get rows

constexpr std::uint32_t prefetched_ahead = 8;  // rows

std::size_t packed_size(const Arguments& arguments) {
  std::size_t bytes = sizeof(std::uint16_t) * (1 + arguments.size());
  for (const auto& argument : arguments) bytes += argument.value.bytes.size();
  return bytes;
}

bool is_plain(const Argument& argument) {
  const ValueRecord& value = argument.value;
  return !argument.is_ref && !value.is_error && !value.in_store && value.contained.empty() &&
         value.size_bytes == static_cast<std::int64_t>(value.bytes.size());
}

}  // namespace

bool CompactQueue::fits(const TaskRow& row) {
  const CallRecord& call = row.call;
  return call.form->kind == CallKind::task && call.form->num_returns == 1 &&
         call.form->stream.window == 0 && call.attempt == 0 && !call.may_run_again &&
         call.caller_node.empty() && row.live_results == 1 && row.missing == 0 && !row.cancelled &&
         packed_size(*call.arguments) <= max_packed &&
         std::ranges::all_of(*call.arguments, is_plain);
}

// ---- lines -------------------------------------------------------------------------------------

CompactQueue::RowIndex CompactQueue::append(BacklogLine& line, TaskId task) {
  RowIndex index = free_;
  if (index != BacklogLine::none) {
    free_ = at(index).next;
  } else {
    index = unused_++;
    if (index / rows_in_block == blocks_.size()) blocks_.push_back(std::make_unique<Block>());
  }
  ++rows_;
  Small& small = at(index);
  small.task = task;
  small.next = BacklogLine::none;
  (line.first == BacklogLine::none ? line.first : at(line.last).next) = index;
  line.last = index;
  ++line.tasks;
  return index;
}

void CompactQueue::free(RowIndex index) {
  at(index).next = free_;
  free_ = index;
  if (--rows_ > 0) return;
  // A long backlog returns its memory when it is empty.
  blocks_.clear();
  unused_ = 0;
  free_ = BacklogLine::none;
  buckets_ = {};
}

void CompactQueue::add(BacklogLine& line, TaskId task, const TaskRow& row, std::int32_t refs,
                       std::int32_t wants, WatcherIndex watchers) {
  const RowIndex index = append(line, task);
  Small& small = at(index);
  small.result = row.first_result;
  small.since = row.since;
  small.arguments = pack(*row.call.arguments);
  small.kind = kind_of(row);
  small.refs = refs;
  small.wants = wants;
  small.watchers = watchers;
  ++kinds_[small.kind].tasks;
  ++tasks_;
  list(index);
}

void CompactQueue::add_whole(BacklogLine& line, TaskId task) {
  at(append(line, task)).kind = no_kind;
}

std::optional<CompactQueue::Next> CompactQueue::take_front(BacklogLine& line) {
  const RowIndex index = line.first;
  if (index == BacklogLine::none) return std::nullopt;
  // Rows of successive tasks are mostly adjacent.
  const RowIndex later = index + prefetched_ahead;
  if (later < unused_ && !buckets_.empty())
    __builtin_prefetch(&buckets_[bucket_of(at(later).result)]);
  Next next{at(index).task, std::nullopt};
  if (at(index).kind != no_kind) next.whole = leave(index);
  line.first = at(index).next;
  if (line.first == BacklogLine::none) line.last = BacklogLine::none;
  free(index);
  return next;
}

CompactQueue::Expanded CompactQueue::take(RowIndex index) { return leave(index); }

CompactQueue::Expanded CompactQueue::leave(RowIndex index) {
  Small& small = at(index);
  Expanded whole{small.task, row_at(index), small.result, small.refs, small.wants, small.watchers};
  if (small.refs > 0) unlist(index);
  Kind& kind = kinds_[small.kind];
  if (--kind.tasks == 0) {
    kind = Kind();
    free_kinds_.push_back(small.kind);
  }
  small.kind = no_kind;
  small.arguments.reset();
  --tasks_;
  return whole;
}

// ---- kinds --------------------------------------------------------------------------------------

std::uint32_t CompactQueue::kind_of(const TaskRow& row) {
  for (const std::uint32_t number : last_kinds_) {
    if (number >= kinds_.size() || kinds_[number].tasks == 0) continue;
    const TaskRow& known = kinds_[number].row;
    if (known.call.form.is_same(row.call.form) && known.demand_class == row.demand_class &&
        known.parent == row.parent && known.retries_left == row.retries_left) {
      return number;
    }
  }
  std::uint32_t number = 0;
  if (!free_kinds_.empty()) {
    number = free_kinds_.back();
    free_kinds_.pop_back();
  } else {
    number = static_cast<std::uint32_t>(kinds_.size());
    kinds_.emplace_back();
  }
  TaskRow& known = kinds_[number].row;
  known.call.form = row.call.form;
  known.demand_class = row.demand_class;
  known.parent = row.parent;
  known.retries_left = row.retries_left;
  known.state = TaskState::queued;
  last_kinds_[next_last_++ % kinds_to_compare] = number;
  return number;
}

TaskRow CompactQueue::row_at(RowIndex index) const {
  const Small& small = at(index);
  TaskRow row = kinds_[small.kind].row;
  row.call.task = small.task;
  row.first_result = small.result;
  row.since = small.since;
  row.live_results = small.refs > 0 ? 1 : 0;
  if (small.arguments == nullptr) return row;
  row.call.arguments = unpack(small.arguments.get());
  for (const auto& argument : *row.call.arguments) row.argument_bytes += argument.value.size_bytes;
  return row;
}

bool CompactQueue::may_have_children(TaskId parent) const {
  return std::ranges::any_of(
      kinds_, [&](const Kind& kind) { return kind.tasks > 0 && kind.row.parent == parent; });
}

CompactQueue::Packed CompactQueue::pack(const Arguments& arguments) {
  if (arguments.empty()) return nullptr;
  auto packed = std::make_unique_for_overwrite<std::byte[]>(packed_size(arguments));
  std::byte* out = packed.get();
  const auto write_size = [&](std::size_t size) {
    const auto small = static_cast<std::uint16_t>(size);
    std::memcpy(out, &small, sizeof small);
    out += sizeof small;
  };
  write_size(arguments.size());
  for (const auto& argument : arguments) write_size(argument.value.bytes.size());
  for (const auto& argument : arguments)
    out = std::ranges::copy(argument.value.bytes.bytes(), out).out;
  return packed;
}

Arguments CompactQueue::unpack(const std::byte* packed) {
  const auto read_size = [](const std::byte*& from) {
    std::uint16_t size = 0;
    std::memcpy(&size, from, sizeof size);
    from += sizeof size;
    return std::size_t{size};
  };
  Arguments arguments(read_size(packed));
  const std::byte* bytes = packed + sizeof(std::uint16_t) * arguments.size();
  for (auto& argument : arguments) {
    const std::size_t size = read_size(packed);
    argument.value.bytes = Payload(std::span(bytes, size));
    argument.value.size_bytes = static_cast<std::int64_t>(size);
    bytes += size;
  }
  return arguments;
}

// ---- results -----------------------------------------------------------------------------------

std::size_t CompactQueue::bucket_of(ObjectId result) const {
  const auto hash = static_cast<std::uint64_t>(RowHash()(result)) * 0x9e3779b97f4a7c15ULL;
  return static_cast<std::size_t>(hash >> 32) & (buckets_.size() - 1);
}

void CompactQueue::list(RowIndex index) {
  if (2 * results_ >= buckets_.size())
    rehash(std::max<std::size_t>(rows_in_block, 2 * buckets_.size()));
  RowIndex& bucket = buckets_[bucket_of(at(index).result)];
  at(index).next_here = bucket;
  bucket = index;
  ++results_;
}

void CompactQueue::unlist(RowIndex index) {
  RowIndex* link = &buckets_[bucket_of(at(index).result)];
  while (*link != index) link = &at(*link).next_here;
  *link = at(index).next_here;
  --results_;
}

void CompactQueue::rehash(std::size_t buckets) {
  std::vector<RowIndex> before(buckets, BacklogLine::none);
  before.swap(buckets_);
  for (RowIndex first : before) {
    while (first != BacklogLine::none) {
      Small& small = at(first);
      RowIndex& bucket = buckets_[bucket_of(small.result)];
      const RowIndex next = std::exchange(small.next_here, bucket);
      bucket = std::exchange(first, next);
    }
  }
}

std::optional<CompactQueue::RowIndex> CompactQueue::find(ObjectId result) const {
  if (results_ == 0) return std::nullopt;
  RowIndex index = buckets_[bucket_of(result)];
  while (index != BacklogLine::none && at(index).result != result) index = at(index).next_here;
  return index == BacklogLine::none ? std::nullopt : std::optional(index);
}

bool CompactQueue::retain(ObjectId result) {
  const auto index = find(result);
  if (index) ++at(*index).refs;
  return index.has_value();
}

bool CompactQueue::release(ObjectId result) {
  const auto index = find(result);
  if (index && --at(*index).refs == 0) unlist(*index);
  return index.has_value();
}

WatcherIndex* CompactQueue::watchers(ObjectId result) {
  const auto index = find(result);
  return index ? &at(*index).watchers : nullptr;
}

bool CompactQueue::want(ObjectId result) {
  const auto index = find(result);
  if (index) ++at(*index).wants;
  return index.has_value();
}

bool CompactQueue::unwant(ObjectId result) {
  const auto index = find(result);
  if (index && at(*index).wants > 0) --at(*index).wants;
  return index.has_value();
}

}  // namespace mobula::internal::client
