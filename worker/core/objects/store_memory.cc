#include "worker/core/objects/store_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/coverage_mark.h"
#include "store/core/byte_text.h"

namespace mobula::internal::worker {
namespace {

const CoverageMark mark_copy_evicted("worker.copy_evicted");
const CoverageMark mark_clean_evicted("worker.restored_object_evicted_again");
const CoverageMark mark_requested("worker.location_requested_back");
const CoverageMark mark_overdue("worker.no_space_in_time");
const CoverageMark mark_read_meanwhile("worker.object_read_while_it_was_spilled");

}  // namespace

// ---- requests -----------------------------------------------------------------------------------

// A location. Empty if a process must first unmap memory, or an object must be evicted.
Result<std::optional<ObjectLocation>> StoreMemory::allocate(const ReserveRequest& request) {
  context_.table.reserve_for_agent(spill_.kept_bytes());
  for (int round = 0; round < 2; ++round) {
    const ObjectRow* row = context_.table.find(request.object);
    const bool held = row != nullptr && row->processes.contains(request.writer);
    auto placement = context_.table.reserve(request);
    if (!placement) {
      const bool never = request.size_bytes > context_.table.space().capacity_bytes();
      const bool full = !never && context_.table.may_reserve(request);
      if (!full || !may_be_freed()) return placement.error();
      check();
      return std::optional<ObjectLocation>();
    }
    if (placement->create) {
      context_.outbox.emit(CreateSlab{placement->create->slab, placement->create->size_bytes,
                                      placement->create->writer});
    }
    retire(placement->retire);
    if (placement->location) {
      holds_.add(request.object).writer_borrows = held && request.writer != context_.agent;
      return std::optional<ObjectLocation>(placement->location);
    }
  }
  return std::optional<ObjectLocation>();
}

bool StoreMemory::may_be_freed() const {
  if (context_.options.spill) return true;
  return std::any_of(rows_.begin(), rows_.end(),
                     [](const auto& each) { return each.second.pulled; });
}

bool StoreMemory::wait(const ReserveRequest& request) {
  if (waiting_.size() >= max_waiting) return false;
  if (request.writer == context_.agent) rows_[request.object].awaited = true;
  waiting_.push_back({request, context_.now()});
  return true;
}

bool StoreMemory::awaits(ObjectId object) const {
  const Row* row = rows_.find(object);
  return row != nullptr && row->awaited;
}

void StoreMemory::cancel_wait(ObjectId object) {
  Row* row = rows_.find(object);
  if (row != nullptr && std::exchange(row->awaited, false)) cancel_wait(context_.agent, object);
}

void StoreMemory::cancel_wait(ProcessId writer, ObjectId object) {
  std::erase_if(waiting_, [&](const Waiting& each) {
    return each.request.writer == writer && each.request.object == object;
  });
}

void StoreMemory::end_wait(const ReserveRequest& request) {
  if (request.writer != context_.agent) return;
  if (Row* row = rows_.find(request.object)) row->awaited = false;
}

void StoreMemory::retry_waiting() {
  std::deque<Waiting> waiting = std::exchange(waiting_, {});
  for (Waiting& each : waiting) {
    const ReserveRequest& request = each.request;
    const bool of_agent = request.writer == context_.agent;
    if (of_agent && !awaits(request.object)) continue;  // its job has ended
    const auto found = allocate(request);
    const ObjectRow* row = context_.table.find(request.object);
    if (found && !*found) {
      waiting_.push_back(std::move(each));
      continue;
    }
    end_wait(request);
    if (found) {
      port_.allocated(request, **found);
    } else if (row != nullptr && row->state == ObjectState::reserved && !row->on_disk) {
      port_.allocation_refused(
          request, failure(ErrorCode::unavailable,
                           fmt::format("object {} is being written by another process of this node",
                                       request.object.brief())));
    } else {
      port_.allocation_refused(request, found.error());
    }
  }
}

// Extended while the disk is writing and while other requests succeed, up to a fixed maximum.
Time StoreMemory::wait_ends(const Waiting& waiting) const {
  const WorkerOptions& options = context_.options;
  const bool reads = waiting.request.writer == context_.agent;
  const Duration timeout = reads ? options.read_capacity_timeout : options.capacity_timeout;
  Time ends = std::max(waiting.since, progress_at_) + timeout;
  if (spill_.writing()) ends = std::max(ends, spill_.write_started() + options.spill_timeout);
  // On a busy machine a process may be slow to return unused memory.
  if (requested_at_ > Time()) ends = std::max(ends, requested_at_ + options.memory_return_timeout);
  return std::min(ends, waiting.since + std::max(max_waits * timeout, options.spill_timeout));
}

void StoreMemory::refuse_overdue() {
  std::vector<ReserveRequest> overdue;
  std::erase_if(waiting_, [&](const Waiting& each) {
    if (wait_ends(each) > context_.now()) return false;
    overdue.push_back(each.request);
    return true;
  });
  for (const ReserveRequest& request : overdue) {
    mark_overdue.hit();
    Failure why = context_.table.full(request);
    why.text += "; " + why_full();
    end_wait(request);
    port_.allocation_refused(request, why);
  }
}

std::string StoreMemory::why_full() const {
  if (!context_.options.spill) return "spilling is switched off";
  if (const auto& failed = spill_.failure_of_write())
    return "nothing can be spilled: " + failed->text;
  if (spill_.writing()) return "the disk takes too long to write what is spilled";
  std::uint64_t used = 0, written = 0;
  for (const auto& [object, row] : context_.table.objects()) {
    if (row.state == ObjectState::reserved) written += row.location.size_bytes;
    if (row.state == ObjectState::sealed && in_use(object)) used += row.location.size_bytes;
  }
  return fmt::format("{} are being read in place and {} written, which cannot be spilled now",
                     byte_text(used), byte_text(written));
}

// ---- uses of bytes here -------------------------------------------------------------------------

void StoreMemory::map(ProcessId process, ObjectId object, std::uint64_t fetch) {
  Row& row = rows_[object];
  row.last_use = context_.now();
  if (context_.processes.attached(process))
    row.mappings.insert_or_assign(process, Mapping{fetch, {}});
}

void StoreMemory::written_by_owner(ProcessId process, ObjectId object) {
  rows_[object].mappings.try_emplace(process);
}

void StoreMemory::unmap(ProcessId process, ObjectId object) {
  if (Row* row = rows_.find(object)) row->mappings.erase(process);
}

void StoreMemory::on(ProcessId process, const UnpinReply& message) {
  Row* row = rows_.find(message.object);
  if (row == nullptr) return;
  const auto at = row->mappings.find(process);
  if (at == row->mappings.end() || at->second.fetch != message.fetch) return;
  row->mappings.erase(at);
  check();
}

void StoreMemory::begin_offer(ObjectId object) {
  Row& row = rows_[object];
  ++row.offers;
  row.last_use = context_.now();
}

void StoreMemory::end_offer(ObjectId object) {
  if (Row* row = rows_.find(object); row != nullptr && row->offers > 0) --row->offers;
  check();
}

void StoreMemory::touch(ObjectId object) {
  rows_[object].last_use = context_.now();
  check();
}

void StoreMemory::sealed(ObjectId object, bool pulled) {
  Row& row = rows_[object];
  row.pulled = pulled;
  row.last_use = context_.now();
}

void StoreMemory::set_primary(ObjectId object) {
  if (Row* row = rows_.find(object)) row->pulled = false;
}

void StoreMemory::set_origins(ObjectId object, const std::vector<NodeId>& origins) {
  rows_[object].origins = {origins.begin(), origins.end()};
}

bool StoreMemory::maps(ProcessId process, ObjectId object) const {
  const Row* row = rows_.find(object);
  return row != nullptr && row->mappings.contains(process);
}

bool StoreMemory::in_use(ObjectId object) const {
  const Row* row = rows_.find(object);
  return row != nullptr && (!row->mappings.empty() || row->offers > 0);
}

bool StoreMemory::secondary(ObjectId object, const ObjectRow& row) const {
  const Row* known = rows_.find(object);
  return known != nullptr && known->pulled && port_.stored_elsewhere(object, row);
}

void StoreMemory::process_ended(ProcessId process) {
  for (auto& [object, row] : rows_) row.mappings.erase(process);
  std::erase_if(waiting_, [&](const Waiting& each) { return each.request.writer == process; });
}

// A source has died, so this replica may be the last one.
void StoreMemory::node_died(NodeId node) {
  for (auto& [object, row] : rows_)
    if (row.origins.erase(node) > 0) row.pulled = false;
}

// ---- freeing memory -----------------------------------------------------------------------------

Departure StoreMemory::departure(ObjectId object, const ObjectRow& stored, const Row& row) const {
  if (stored.state != ObjectState::sealed || row.offers > 0) return Departure::never;
  if (spill_.is_writing(object)) return Departure::coming;
  const bool at_once = stored.on_disk || (row.pulled && port_.stored_elsewhere(object, stored));
  if (!at_once && !spill_.can_write()) return Departure::never;
  if (row.mappings.empty()) return at_once ? Departure::at_once : Departure::written;
  bool all_requested = true;
  for (const auto& [process, use] : row.mappings) {
    const bool late =
        use.requested && *use.requested + context_.options.return_timeout <= context_.now();
    if (late) return Departure::never;
    all_requested = all_requested && use.requested;
  }
  return all_requested ? Departure::coming : Departure::requested;
}

std::optional<EvictionGoal> StoreMemory::goal() const {
  const WorkerOptions& options = context_.options;
  const SlabSpace& space = context_.table.space();
  EvictionGoal goal;
  const auto percent = static_cast<std::uint64_t>(std::clamp(options.spill_above_percent, 0, 100));
  const std::uint64_t limit = space.capacity_bytes() / 100 * percent;
  if (options.spill && space.used_bytes() > limit) goal.used_bytes = space.used_bytes() - limit;
  if (!waiting_.empty()) {
    std::uint64_t wanted = 0;
    for (const Waiting& each : waiting_) {
      wanted += each.request.size_bytes + SlabSpace::page_bytes;
      if (wanted > space.capacity_bytes()) break;
    }
    wanted = std::min(wanted + spill_.kept_bytes(), space.capacity_bytes());
    const std::uint64_t there = space.available_bytes();
    if (wanted > there) {
      goal.slab_bytes = wanted - there;
      const ReserveRequest& first = waiting_.front().request;
      goal.own = EvictionGoal::Own{first.job, first.writer, first.size_bytes};
    }
  }
  if (goal.used_bytes == 0 && goal.slab_bytes == 0) return std::nullopt;
  return goal;
}

Time StoreMemory::next_scan() const {
  if (!found_nothing_) return scanned_at_;
  return scanned_at_ + (waiting_.empty() ? idle_poll_interval : poll_interval);
}

void StoreMemory::free_memory() {
  if (!check_due_) return;
  const auto goal = this->goal();
  // Objects that are being written leave next. The need is checked again after that.
  if (!goal || spill_.writing()) {
    check_due_ = false;
    return;
  }
  const Time now = context_.now();
  if (next_scan() > now) return;
  check_due_ = false;
  scanned_at_ = now;
  std::vector<EvictionCandidate> all;
  for (const auto& [object, stored] : context_.table.objects()) {
    if (!stored.has_location()) continue;
    const Row& row = rows_[object];
    all.push_back({object, stored.location, row.last_use, departure(object, stored, row)});
  }
  const EvictionChoice choice = choose_evictions(all, context_.table.space(), *goal);
  for (const ObjectId object : choice.at_once) evict(object);
  for (const ObjectId object : choice.requested) request_return(object);
  // Requested locations arrive soon or are skipped. Waiting for them frees whole slabs, with one
  // file.
  const bool all_there = choice.requested.empty() && choice.coming == 0;
  if (all_there && !choice.written.empty()) spill_.start(choice.written);
  found_nothing_ = choice.nothing();
  // A process that continues to read after the request is skipped then.
  const bool coming = choice.used_bytes > 0 && !spill_.writing();
  if (coming && !scan_at_) scan_at_ = now + context_.options.return_timeout;
}

void StoreMemory::evict(ObjectId object) {
  Consequences consequences;
  consequences.slabs = context_.table.evict(object);
  progress_at_ = context_.now();
  retry();
  if (context_.table.find(object)->state == ObjectState::wanted) {
    mark_copy_evicted.hit();
    set_primary(object);
    port_.replica_evicted(object);
  } else {
    mark_clean_evicted.hit();
  }
  holds_.apply(std::move(consequences));
  port_.evicted(object);
}

void StoreMemory::evict_written(ObjectId object) {
  in_use(object) ? mark_read_meanwhile.hit() : evict(object);
}

void StoreMemory::request_return(ObjectId object) {
  for (auto& [process, use] : rows_.at(object).mappings) {
    if (use.requested) continue;
    mark_requested.hit();
    use.requested = requested_at_ = context_.now();
    context_.processes.send(process, UnpinRequest{object, use.fetch});
  }
}

// ---- slabs --------------------------------------------------------------------------------------

void StoreMemory::freed(const SlabChanges& slabs, bool objects_erased) {
  check();
  retire(slabs.retire);
  for (const SlabId slab : slabs.released) drop_slab(slab);
  watch_idle_memory();
  if (objects_erased) retry();
}

void StoreMemory::retire(const std::vector<RetiredSlab>& slabs) {
  for (const RetiredSlab& retired : slabs) {
    if (retired.writer == context_.agent) {
      context_.table.slab_gone(retired.slab);
      drop_slab(retired.slab);
      continue;
    }
    retiring_[slab_number(retired.slab)] = retired.slab;
    requested_at_ = context_.now();
    context_.processes.retire_slab(retired.slab);
  }
}

void StoreMemory::drop_slab(SlabId slab) {
  retiring_.erase(slab_number(slab));
  context_.processes.retire_slab(slab);
  context_.outbox.emit(DropSlab{slab});
  retry();
}

void StoreMemory::unmapped(ProcessId process, std::uint64_t slab_number) {
  const auto retiring = retiring_.find(slab_number);
  if (retiring == retiring_.end()) return;
  const SlabId slab = retiring->second;
  const auto owner = context_.table.space().owner_of(slab);
  if (!owner || owner->writer != process) return;  // a reader's mapping only
  if (context_.table.slab_gone(slab)) drop_slab(slab);
}

// Checked only while unused memory exists, so that an idle store causes no wake-ups.
void StoreMemory::watch_idle_memory() {
  const bool much = context_.table.space().idle_bytes() > context_.options.idle_store_bytes;
  if (much && !idle_check_at_) idle_check_at_ = context_.now() + context_.options.idle_store_delay;
}

void StoreMemory::return_idle_memory() {
  idle_check_at_.reset();
  retire(context_.table.retire_rested(context_.options.idle_store_bytes));
  watch_idle_memory();
}

// ---- time ---------------------------------------------------------------------------------------

void StoreMemory::finish_step() {
  do {
    if (std::exchange(retry_due_, false)) retry_waiting();
    free_memory();
  } while (retry_due_);
}

void StoreMemory::tick() {
  const Time now = context_.now();
  refuse_overdue();
  if (scan_at_ && *scan_at_ <= now) {
    scan_at_.reset();
    check();
  }
  if (idle_check_at_ && *idle_check_at_ <= now) return_idle_memory();
}

// No process could free memory or return a location during `gap`.
void StoreMemory::shift_deadlines(Duration gap) {
  const auto shift = [&](Time& time) { time = std::min(time + gap, context_.now()); };
  for (Waiting& each : waiting_) shift(each.since);
  shift(progress_at_);
  shift(requested_at_);
  for (auto& [object, row] : rows_) {
    for (auto& [process, use] : row.mappings) {
      if (use.requested) shift(*use.requested);
    }
  }
}

std::optional<Time> StoreMemory::next_deadline() const {
  std::optional<Time> first;
  // In order of `since`: the first reader and the first writer have the earliest deadlines.
  bool reads = false, writes = false;
  for (const Waiting& each : waiting_) {
    bool& seen = each.request.writer == context_.agent ? reads : writes;
    if (!std::exchange(seen, true)) take_earlier(first, wait_ends(each));
    if (reads && writes) break;
  }
  take_earlier(first, scan_at_);
  take_earlier(first, idle_check_at_);
  if (check_due_) take_earlier(first, next_scan());
  return first;
}

}  // namespace mobula::internal::worker
