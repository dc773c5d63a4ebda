// Memory of the store: waiting requests, eviction, and lists of its content.
#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"
#include "store/core/byte_text.h"
#include "worker/core/objects/objects.h"

namespace mobula::internal::worker {
namespace {

const CoverageMark mark_copy_evicted("worker.copy_evicted");
const CoverageMark mark_clean_evicted("worker.restored_object_evicted_again");
const CoverageMark mark_asked("worker.place_asked_back");
const CoverageMark mark_overdue("worker.no_room_in_time");

}  // namespace

// ---- waiting for memory -------------------------------------------------------------------------

// A location. Empty if a process must first unmap memory, or an object must be evicted.
Result<std::optional<Place>> Objects::place(const ReserveRequest& request) {
  table_.keep_for_agent(kept_bytes());
  for (int round = 0; round < 2; ++round) {
    const ObjectRow* row = table_.find(request.object);
    const bool held = row != nullptr && row->processes.contains(request.writer);
    auto placement = table_.reserve(request);
    if (!placement) {
      const bool never = request.size_bytes > table_.space().capacity_bytes();
      const bool no_room = !never && table_.may_reserve(request);
      if (!no_room || !room_may_come()) return placement.error();
      room_due_ = true;
      return std::optional<Place>();
    }
    if (placement->create) {
      outbox_.emit(CreateSlab{placement->create->slab, placement->create->size_bytes,
                              placement->create->writer});
    }
    retire(placement->retire);
    if (placement->place) {
      entries_[request.object].writer_borrows = held && request.writer != agent_;
      return std::optional<Place>(placement->place);
    }
  }
  return std::optional<Place>();
}

// Reserved for the largest object on disk: with a full disk, the store must not be too full to
// restore any object.
std::uint64_t Objects::kept_bytes() const {
  return files_.objects() == 0 ? 0 : files_.largest_bytes() + SlabSpace::page_bytes;
}

bool Objects::room_may_come() const {
  if (options_.spill) return true;
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const auto& each) { return each.second.pulled; });
}

bool Objects::wait_for_room(const ReserveRequest& request) {
  if (waiting_.size() >= max_waiting_for_room) return false;
  waiting_.push_back({request, outbox_.now()});
  return true;
}

void Objects::abandon_write(ProcessId process, ObjectId object) {
  for (auto* requests : {&waiting_, &blocked_writers_})
    std::erase_if(*requests, [&](const Waiting& each) {
      return each.request.writer == process && each.request.object == object;
    });
}

void Objects::retry_waiting() {
  std::deque<Waiting> waiting = std::exchange(waiting_, {});
  for (Waiting& each : waiting) {
    if (each.request.writer == agent_) {
      const ObjectEntry* wanted = find(each.request.object);
      if (wanted == nullptr || !wanted->waits_for_room) continue;  // its job has ended
    }
    const auto found = place(each.request);
    const ObjectRow* row = table_.find(each.request.object);
    if (!found && row != nullptr && row->state == ObjectState::reserved && !row->on_disk) {
      refuse_place(each.request,
                   failure(ErrorCode::unavailable,
                           fmt::format("object {} is being written by another process of this node",
                                       each.request.object.brief())));
    } else if (!found) {
      refuse_place(each.request, found.error());
    } else if (*found) {
      place_found(each.request, **found);
    } else {
      waiting_.push_back(std::move(each));
    }
  }
}

// Extended while the disk is writing and while other requests succeed, up to a fixed maximum.
Time Objects::patience_ends(const Waiting& waiting) const {
  const bool reads = waiting.request.writer == agent_;
  const Duration timeout = reads ? options_.read_capacity_timeout : options_.capacity_timeout;
  Time ends = std::max(waiting.since, progress_at_) + timeout;
  if (spill_.file != 0) ends = std::max(ends, spill_.started + options_.spill_timeout);
  // On a busy machine a process may be slow to return unused memory.
  if (asked_at_ > Time()) ends = std::max(ends, asked_at_ + options_.memory_return_timeout);
  return std::min(ends, waiting.since + std::max(max_waits * timeout, options_.spill_timeout));
}

void Objects::shift_deadlines(Duration gap) {
  const auto shift = [&](Time& time) { time = std::min(time + gap, outbox_.now()); };
  for (Waiting& each : waiting_) shift(each.since);
  for (Waiting& each : blocked_writers_) shift(each.since);
  shift(progress_at_);
  shift(asked_at_);
  if (spill_.file != 0) shift(spill_.started);
  for (auto& [object, entry] : entries_) {
    for (auto& [process, use] : entry.in_place) {
      if (use.asked) shift(*use.asked);
    }
  }
}

void Objects::refuse_overdue() {
  std::vector<ReserveRequest> overdue;
  std::erase_if(waiting_, [&](const Waiting& each) {
    if (patience_ends(each) > outbox_.now()) return false;
    overdue.push_back(each.request);
    return true;
  });
  for (const ReserveRequest& request : overdue) {
    mark_overdue.hit();
    Failure why = table_.full(request);
    why.text += "; " + why_no_room();
    refuse_place(request, why);
  }
}

std::string Objects::why_no_room() {
  if (!options_.spill) return "spilling is switched off";
  if (spill_.failure) return "nothing can be spilled: " + spill_.failure->text;
  if (spill_.file != 0) return "the disk takes too long to write what is spilled";
  std::uint64_t in_use = 0, written = 0;
  for (const auto& [object, row] : table_.objects()) {
    if (!row.has_place()) continue;
    const bool used = !entries_.at(object).in_place.empty() || entries_.at(object).offers > 0;
    if (row.state == ObjectState::reserved) written += row.place.size_bytes;
    if (row.state == ObjectState::sealed && used) in_use += row.place.size_bytes;
  }
  return fmt::format("{} are being read in place and {} written, which cannot be spilled now",
                     byte_text(in_use), byte_text(written));
}

// ---- freeing memory -----------------------------------------------------------------------------

bool Objects::can_spill() const {
  if (!options_.spill) return false;
  return !spill_.failure || spill_.again_at <= outbox_.now();
}

// True if other nodes have the bytes and keep them while the object is held.
bool Objects::secondary(const ObjectRow& row, const ObjectEntry& entry) const {
  if (!entry.pulled) return false;
  if (at_home(entry)) return !entry.replica_nodes.empty();
  const bool home_stays = !peers_.is_dead(entry.home) && !drained_.contains(entry.home);
  return home_stays && !row.nodes.contains(entry.home);
}

Departure Objects::departure(const ObjectRow& row, const ObjectEntry& entry) const {
  if (row.state != ObjectState::sealed || entry.offers > 0) return Departure::never;
  if (entry.spill != 0) return Departure::coming;
  const bool at_once = row.on_disk || secondary(row, entry);
  if (!at_once && !can_spill()) return Departure::never;
  if (entry.in_place.empty()) return at_once ? Departure::at_once : Departure::written;
  bool all_asked = true;
  for (const auto& [process, use] : entry.in_place) {
    const bool late = use.asked && *use.asked + options_.return_timeout <= outbox_.now();
    if (late) return Departure::never;
    all_asked = all_asked && use.asked;
  }
  return all_asked ? Departure::coming : Departure::asked;
}

std::optional<EvictionGoal> Objects::room_needed() const {
  const SlabSpace& space = table_.space();
  EvictionGoal goal;
  const auto percent = static_cast<std::uint64_t>(std::clamp(options_.spill_above_percent, 0, 100));
  const std::uint64_t limit = space.capacity_bytes() / 100 * percent;
  if (options_.spill && space.used_bytes() > limit) goal.used_bytes = space.used_bytes() - limit;
  if (!waiting_.empty()) {
    std::uint64_t wanted = 0;
    for (const Waiting& each : waiting_) {
      wanted += each.request.size_bytes + SlabSpace::page_bytes;
      if (wanted > space.capacity_bytes()) break;
    }
    wanted = std::min(wanted + kept_bytes(), space.capacity_bytes());
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

Time Objects::look_not_before() const {
  if (!found_nothing_) return looked_at_;
  return looked_at_ + (waiting_.empty() ? idle_poll_interval : poll_interval);
}

void Objects::make_room() {
  if (!room_due_) return;
  const auto goal = room_needed();
  // Objects that are being written leave next. The need is checked again after that.
  if (!goal || spill_.file != 0) {
    room_due_ = false;
    return;
  }
  const Time now = outbox_.now();
  if (look_not_before() > now) return;
  room_due_ = false;
  looked_at_ = now;
  std::vector<EvictionCandidate> all;
  for (const auto& [object, row] : table_.objects()) {
    if (!row.has_place()) continue;
    const ObjectEntry& entry = entries_.at(object);
    all.push_back({object, row.place, entry.last_use, departure(row, entry)});
  }
  const EvictionChoice choice = choose_evictions(all, table_.space(), *goal);
  for (const ObjectId object : choice.at_once) evict(object);
  for (const ObjectId object : choice.asked) ask_back(object);
  // Requested locations arrive soon or are skipped. Waiting for them frees whole slabs, with one
  // file.
  const bool all_there = choice.asked.empty() && choice.coming == 0;
  if (all_there && !choice.written.empty()) start_spill(choice.written);
  found_nothing_ = choice.nothing();
  // A process that continues to read after the request is skipped then.
  const bool coming = choice.used_bytes > 0 && spill_.file == 0;
  if (coming && !look_at_) look_at_ = now + options_.return_timeout;
}

void Objects::evict(ObjectId object) {
  Consequences consequences;
  consequences.slabs = table_.evict(object);
  progress_at_ = outbox_.now();
  retry_due_ = true;
  ObjectEntry& entry = entries_.at(object);
  if (table_.find(object)->state == ObjectState::wanted) {
    mark_copy_evicted.hit();
    entry.pulled = false;
    if (entry.copy_reported) report_copy(object, false);
    if (!at_home(entry) && !peers_.is_dead(entry.home)) {
      peers_.send(entry.home, ReplicaLost{object, "the copy left its node's memory"});
    }
  } else {
    mark_clean_evicted.hit();
  }
  apply(std::move(consequences));
  location_removed(object, "its node needed the memory");
}

void Objects::ask_back(ObjectId object) {
  for (auto& [process, use] : entries_.at(object).in_place) {
    if (use.asked) continue;
    mark_asked.hit();
    use.asked = asked_at_ = outbox_.now();
    processes_.send(process, UnpinRequest{object, use.fetch});
  }
}

// ---- lists --------------------------------------------------------------------------------------

ObjectFact Objects::fact_of(ObjectId object, const ObjectRow& row) {
  const ObjectEntry& entry = entries_.at(object);
  ObjectFact fact;
  fact.object = object;
  fact.job = row.job;
  fact.size_bytes =
      static_cast<std::int64_t>(row.has_place() ? row.place.size_bytes : row.disk_bytes);
  fact.sealed = row.here();
  fact.home = entry.home;
  fact.processes = row.processes.size();
  fact.nodes = row.nodes.size();
  fact.spilled = row.state == ObjectState::spilled;
  fact.secondary = row.state == ObjectState::sealed && secondary(row, entry);
  for (const ProcessId process : row.processes) {
    if (fact.holders.size() >= ObjectFact::max_holders) break;
    HolderFact holder;
    holder.process = process;
    holder.reads = entry.in_place.contains(process);
    if (const ProcessRow* known = processes_.find(process)) {
      holder.role = known->principal.role;
      holder.pid = known->pid;
    }
    fact.holders.push_back(holder);
  }
  for (const NodeId node : row.nodes) {
    if (fact.holding_nodes.size() >= ObjectFact::max_holders) break;
    fact.holding_nodes.push_back(node);
  }
  return fact;
}

ObjectsReply Objects::list(std::uint64_t limit, bool largest_first) {
  ObjectsReply listed;
  std::vector<std::pair<std::uint64_t, ObjectId>> sizes;
  for (const auto& [object, row] : table_.objects()) {
    if (!row.has_place() && !row.here()) continue;  // not on this node
    sizes.emplace_back(row.has_place() ? row.place.size_bytes : row.disk_bytes, object);
  }
  if (largest_first) {
    std::stable_sort(sizes.begin(), sizes.end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
  }
  for (const auto& [size, object] : sizes) {
    if (listed.objects.size() >= limit) break;
    listed.objects.push_back(fact_of(object, *table_.find(object)));
  }
  listed.left_out = sizes.size() - listed.objects.size();
  listed.store = store();
  return listed;
}

ObjectsReply Objects::list_these(const std::vector<ObjectId>& objects) {
  ObjectsReply listed;
  for (const ObjectId object : objects) {
    const ObjectRow* row = table_.find(object);
    if (row != nullptr && entries_.find(object) != nullptr)
      listed.objects.push_back(fact_of(object, *row));
  }
  listed.store = store();
  return listed;
}

StoreFact Objects::store() const {
  const SlabSpace& space = table_.space();
  StoreFact store;
  store.capacity_bytes = static_cast<std::int64_t>(space.capacity_bytes());
  store.committed_bytes = static_cast<std::int64_t>(space.committed_bytes());
  store.used_bytes = static_cast<std::int64_t>(space.used_bytes());
  store.spilled_bytes = static_cast<std::int64_t>(table_.spilled_bytes());
  store.file_bytes = static_cast<std::int64_t>(files_.file_bytes());
  if (!options_.spill) {
    store.spilling = "spilling is switched off";
  } else if (spill_.failure) {
    store.spilling = spill_.failure->text;
  }
  const Left left = left_to_others();
  store.leaving_objects = static_cast<std::int64_t>(left.objects);
  store.leaving_bytes = static_cast<std::int64_t>(left.bytes);
  return store;
}

}  // namespace mobula::internal::worker
