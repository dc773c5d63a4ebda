#include "worker/core/objects/objects.h"

#include <fmt/format.h>

#include <algorithm>

namespace mobula::internal::worker {
namespace {

TableOptions table_options(const WorkerOptions& options, ProcessId agent) {
  TableOptions out;
  out.space.capacity_bytes = options.store_bytes;
  out.space.first_slab_bytes = options.first_slab_bytes;
  // Memory is returned in whole slabs, so a small store has small slabs.
  out.space.max_slab_bytes =
      std::min(options.max_slab_bytes, std::max(options.first_slab_bytes, options.store_bytes / 8));
  out.space.incarnation = agent;
  out.max_holds_per_process = options.max_holds_per_process;
  return out;
}

}  // namespace

Objects::Objects(Outbox& outbox, const WorkerOptions& options, HeadSession& head,
                 Processes& processes, Peers& peers, Transfers& transfers, const Started& self)
    : outbox_(outbox),
      options_(options),
      head_(head),
      processes_(processes),
      peers_(peers),
      transfers_(transfers),
      self_(self.address.node),
      agent_(self.address.incarnation),
      table_(table_options(options, self.address.incarnation)) {}

bool Objects::sealed(ObjectId object) const {
  const ObjectRow* row = table_.find(object);
  return row != nullptr && row->state == ObjectState::sealed;
}

bool Objects::here(ObjectId object) const {
  const ObjectRow* row = table_.find(object);
  return row != nullptr && row->here();
}

void Objects::learn(ObjectEntry& entry, const RefRecord& ref) const {
  if (!entry.home.empty()) return;
  entry.home = ref.home.empty() ? self_ : ref.home;
  entry.owner = ref.owner;
}

// ---- holds of the agent -------------------------------------------------------------------------

bool Objects::pin(ObjectId object) {
  ObjectEntry* entry = entries_.find(object);
  if ((entry == nullptr || entry->pins == 0) && !table_.hold(agent_, object)) return false;
  ++entries_[object].pins;
  return true;
}

void Objects::pin_contained(ObjectId object) {
  if (!entries_.at(object).pinned.empty()) return;
  const RefRecords refs = entries_.at(object).contained;
  for (const RefRecord& ref : refs) {
    if (!pin(ref.object)) continue;
    entries_.at(object).pinned.push_back(ref.object);
    ObjectEntry& held = entries_.at(ref.object);
    learn(held, ref);
    if (!at_home(held)) {
      want_node_hold(ref.object, held);
    } else if (!held.claimed) {
      wait_for_claim(ref.object);
    }
  }
}

void Objects::unpin(ObjectId object) {
  unpins_.push_back(object);
  drain_unpins();
}

void Objects::drain_unpins() {
  if (draining_) return;
  draining_ = true;
  while (!unpins_.empty()) {
    const ObjectId object = unpins_.back();
    unpins_.pop_back();
    ObjectEntry* entry = find(object);
    if (entry == nullptr || entry->pins == 0) continue;
    if (--entry->pins == 0) apply(table_.release(agent_, object));
    settle(object);
  }
  draining_ = false;
}

void Objects::keep_for(ObjectId object, Duration span) {
  ObjectEntry& entry = entries_.at(object);
  const Time until = outbox_.now() + span;
  if (entry.orphan_until && *entry.orphan_until >= until) return;
  if (!entry.orphan_until && !pin(object)) return;
  entries_.at(object).orphan_until = start_timer(object, TimerKind::orphan, span);
}

std::size_t Objects::pins() const {
  std::size_t sum = 0;
  for (const auto& [object, entry] : entries_) sum += static_cast<std::size_t>(entry.pins);
  return sum;
}

// ---- consequences of ended holds ----------------------------------------------------------------

void Objects::apply(Consequences consequences) {
  room_due_ = true;
  for (const GoneObject& each : consequences.gone) gone(each.object);
  retire(consequences.slabs.retire);
  for (const SlabId slab : consequences.slabs.released) drop_slab(slab);
  watch_idle_memory();
  retry_due_ = retry_due_ || !consequences.gone.empty() || !consequences.slabs.released.empty();
  for (const ObjectId object : consequences.interrupted) {
    const ObjectEntry* entry = find(object);
    if (entry != nullptr && !entry->readers.empty()) seek(object);
  }
  drain_unpins();
}

// The last hold has ended, and the row of the table is erased.
void Objects::gone(ObjectId object) {
  ObjectEntry* found = find(object);
  if (found == nullptr) return;
  const ObjectEntry entry = std::move(*found);
  entries_.erase(object);
  drop_from_disk(object);
  for (const auto& [node, pull] : entry.pullers) {
    transfers_.refuse(node, pull, failure(ErrorCode::not_found, "the object was released"));
  }
  if (entry.copy_reported) report_copy(object, false);
  if (entry.pull != 0) transfers_.unwant(entry.pull);
  if (at_home(entry)) {
    for (const NodeId node : entry.replica_nodes) peers_.send(node, NodeRelease{object});
    for (const NodeId node : entry.unconfirmed) peers_.send(node, NodeHoldReply{object, false});
    for (const NodeId node : entry.askers) {
      ObjectStatusReply status;
      status.object = object;
      status.failure =
          failure(ErrorCode::unavailable,
                  fmt::format("object {} was released by all its holders", object.brief()));
      peers_.send(node, std::move(status));
    }
    if (entry.exported) processes_.send(entry.owner, ExportReleased{object});
    const auto entrusted = entrusted_.find(entry.entrusted);
    if (entrusted != entrusted_.end())
      tell_entrusted({entry.entrusted, entrusted->second.job, false});
  } else if (entry.node_hold != NodeHoldState::none) {
    peers_.send(entry.home, NodeRelease{object});
  }
  for (const ProcessId sealer : entry.sealers) processes_.send(sealer, SealObjectReply{object});
  unpins_.insert(unpins_.end(), entry.pinned.begin(), entry.pinned.end());
}

void Objects::settle(ObjectId object) {
  const ObjectRow* row = table_.find(object);
  ObjectEntry* entry = find(object);
  if (row == nullptr || entry == nullptr) return;
  if (!at_home(*entry) && row->processes.empty() && entry->node_hold != NodeHoldState::none) {
    entry->node_hold = NodeHoldState::none;
    peers_.send(entry->home, NodeRelease{object});
  }
  const bool only_pulled = entry->pull != 0 && entry->pins == 1 && row->processes.size() == 1;
  if (only_pulled && entry->askers.empty() && row->processes.contains(agent_))
    transfers_.unwant(entry->pull);
}

void Objects::retire(const std::vector<RetiredSlab>& slabs) {
  for (const RetiredSlab& retired : slabs) {
    if (retired.writer == agent_) {
      table_.slab_gone(retired.slab);
      drop_slab(retired.slab);
      continue;
    }
    retiring_[slab_number(retired.slab)] = retired.slab;
    asked_at_ = outbox_.now();
    processes_.retire_slab(retired.slab);
  }
}

// Checked only while unused memory exists, so that an idle store causes no wake-ups.
void Objects::watch_idle_memory() {
  const bool much = table_.space().idle_bytes() > options_.idle_store_bytes;
  if (much && !idle_look_at_) idle_look_at_ = outbox_.now() + options_.idle_store_delay;
}

void Objects::give_back_idle_memory() {
  idle_look_at_.reset();
  retire(table_.retire_rested(options_.idle_store_bytes));
  watch_idle_memory();
}

void Objects::drop_slab(SlabId slab) {
  retiring_.erase(slab_number(slab));
  processes_.retire_slab(slab);
  outbox_.emit(DropSlab{slab});
  retry_due_ = true;
}

void Objects::unmapped(ProcessId process, std::uint64_t number) {
  const auto retiring = retiring_.find(number);
  if (retiring == retiring_.end()) return;
  const SlabId slab = retiring->second;
  const auto owner = table_.space().owner_of(slab);
  if (!owner || owner->writer != process) return;  // a reader's mapping only
  if (table_.slab_gone(slab)) drop_slab(slab);
}

void Objects::slab_failed(const SlabFailed& failed) {
  std::vector<std::pair<ObjectId, ProcessId>> lost;
  for (const auto& [object, row] : table_.objects()) {
    if (row.has_place() && row.place.slab == failed.slab) lost.emplace_back(object, row.writer);
  }
  table_.slab_failed(failed.slab, failed.failure);
  processes_.forget_slab(failed.slab);
  for (const auto& [object, writer] : lost) {
    if (writer == agent_) {
      ObjectEntry* entry = find(object);
      if (entry == nullptr) continue;
      fail_readers(object, failed.failure);
      if (entry->pull != 0) transfers_.unwant(entry->pull);
      continue;
    }
    ReserveObjectReply answer;
    answer.object = object;
    answer.failure = failed.failure;
    processes_.send(writer, std::move(answer));
    const ObjectEntry* entry = find(object);
    if (entry != nullptr && !entry->writer_borrows) {
      apply(table_.release(writer, object));
      settle(object);
    }
  }
}

// ---- ends ---------------------------------------------------------------------------------------

void Objects::process_gone(ProcessId process, bool sudden) {
  std::vector<ObjectId> held, owned, found;
  for (auto& [object, entry] : entries_) {
    if (entry.found_here.erase(process) > 0) found.push_back(object);
    entry.readers.erase(process);
    entry.in_place.erase(process);
    entry.hold_waiters.erase(process);
    entry.sealers.erase(process);
    const ObjectRow* row = table_.find(object);
    if (row != nullptr && row->processes.contains(process)) held.push_back(object);
    const bool its_own = at_home(entry) && entry.owner == process && entry.entrusted.empty();
    if (its_own && !has_bytes_somewhere(object, entry)) owned.push_back(object);
  }
  for (auto* requests : {&waiting_, &blocked_writers_})
    std::erase_if(*requests, [&](const Waiting& each) { return each.request.writer == process; });
  for (const ObjectId object : owned) {
    give_up(object, failure(ErrorCode::unavailable,
                            fmt::format("object {} is lost: its owner, process {}, died before it "
                                        "was made",
                                        object.brief(), process.brief())));
  }
  // A ref in the last messages of the process may reach its new holder, and the new hold its home,
  // after this event.
  for (const ObjectId object : held) {
    const ObjectEntry* entry = sudden ? find(object) : nullptr;
    if (entry == nullptr || entry->failure) continue;
    const ObjectRow& row = *table_.find(object);
    const bool unmade = row.state == ObjectState::reserved && row.writer == process;
    const bool its_secret = entry->owner == process && !entry->exported;
    if (!unmade && !its_secret) keep_for(object, options_.unclaimed_delay);
  }
  apply(table_.drop_process(process));
  for (const ObjectId object : held) settle(object);
  for (const ObjectId object : found) unpin(object);
  for (auto& [job, kept] : ended_jobs_) kept.erase(process);
}

void Objects::job_ended(JobId job, const std::set<ProcessId>& kept, bool lingers) {
  std::vector<ProcessId> ending;
  for (const auto& [link, row] : processes_.rows()) {
    if (row.process.empty() || row.principal.job != job) continue;
    if (!kept.contains(row.process)) ending.push_back(row.process);
  }
  for (const ProcessId process : ending) process_gone(process, false);
  ended_jobs_[job] = kept;
  if (lingers) return;
  std::erase_if(entrusted_, [job](const auto& each) { return each.second.job == job; });
  // Other nodes release their holds on the same event there.
  std::vector<ObjectId> left;
  for (const auto& [object, row] : table_.objects()) {
    if (row.job == job && !row.exported) left.push_back(object);
  }
  for (const ObjectId object : left) {
    const ObjectRow* row = table_.find(object);
    if (row == nullptr) continue;
    const std::set<NodeId> nodes = row->nodes;
    for (const NodeId node : nodes) apply(table_.release_node(node, object));
    settle(object);
  }
}

void Objects::finish_step() {
  if (!blocked_writers_.empty()) retry_blocked_writers();
  do {
    if (std::exchange(retry_due_, false)) retry_waiting();
    make_room();
  } while (retry_due_);
  for (auto at = ended_jobs_.begin(); at != ended_jobs_.end();) {
    if (!at->second.empty() || table_.jobs().contains(at->first)) {
      ++at;
      continue;
    }
    const JobId job = at->first;
    at = ended_jobs_.erase(at);
    apply(table_.drop_job(job));
  }
}

std::set<JobId> Objects::jobs() const {
  // Slabs of the agent, empty or not, remain until their job has ended.
  std::set<JobId> out = table_.space().jobs();
  for (const auto& [job, use] : table_.jobs()) out.insert(job);
  out.erase(JobId{});
  return out;
}

// ---- time ---------------------------------------------------------------------------------------

Time Objects::start_timer(ObjectId object, TimerKind kind, Duration after) {
  const Time at = outbox_.now() + after;
  timers_.insert({at, kind, object});
  return at;
}

void Objects::tick() {
  const Time now = outbox_.now();
  while (!timers_.empty() && timers_.begin()->at <= now) {
    const Timer timer = *timers_.begin();
    timers_.erase(timers_.begin());
    fire(timer);
  }
  refuse_overdue();
  if (look_at_ && *look_at_ <= now) {
    look_at_.reset();
    room_due_ = true;
  }
  if (idle_look_at_ && *idle_look_at_ <= now) give_back_idle_memory();
  if (!report_copies_at_ || *report_copies_at_ > now) return;
  report_copies_at_.reset();
  if (copies_added_.empty() && copies_removed_.empty()) return;
  head_.tell(ObjectCopies{{copies_added_.begin(), copies_added_.end()},
                          {copies_removed_.begin(), copies_removed_.end()}});
  copies_added_.clear();
  copies_removed_.clear();
}

void Objects::fire(const Timer& timer) {
  ObjectEntry* entry = find(timer.object);
  if (entry == nullptr) return;
  switch (timer.kind) {
    case TimerKind::claim:
      if (entry->claim_by != timer.at) return;
      give_up(timer.object,
              failure(ErrorCode::unavailable,
                      fmt::format("object {} is not known on its home node {} (any more)",
                                  timer.object.brief(), self_.brief())));
      return;
    case TimerKind::locate:
      if (entry->locate_by == timer.at) located(LocateObjectReply{timer.object, {}});
      return;
    case TimerKind::orphan:
      if (entry->orphan_until != timer.at) return;
      entry->orphan_until.reset();
      unpin(timer.object);
      return;
  }
}

std::optional<Time> Objects::next_deadline() const {
  std::optional<Time> first = report_copies_at_;
  if (!timers_.empty()) take_earlier(first, timers_.begin()->at);
  // In order of `since`: the first reader and the first writer have the earliest deadlines.
  bool reads = false, writes = false;
  for (const Waiting& each : waiting_) {
    bool& seen = each.request.writer == agent_ ? reads : writes;
    if (!std::exchange(seen, true)) take_earlier(first, patience_ends(each));
    if (reads && writes) break;
  }
  if (!blocked_writers_.empty())
    take_earlier(first, blocked_writers_.front().since + options_.read_capacity_timeout);
  take_earlier(first, look_at_);
  take_earlier(first, idle_look_at_);
  if (room_due_) take_earlier(first, look_not_before());
  return first;
}

void Objects::report_copy(ObjectId object, bool present) {
  if (ObjectEntry* entry = find(object)) entry->copy_reported = present;
  if ((present ? copies_removed_ : copies_added_).erase(object) == 0) {
    (present ? copies_added_ : copies_removed_).insert(object);
  }
  if (!report_copies_at_) report_copies_at_ = outbox_.now() + options_.copies_delay;
}

void Objects::restate() {
  copies_added_.clear();
  copies_removed_.clear();
  report_copies_at_.reset();
  ObjectCopies copies;
  for (const auto& [object, entry] : entries_) {
    if (entry.copy_reported) copies.added.push_back(object);
    if (entry.locate_by) head_.tell(LocateObjectRequest{object});
  }
  if (!copies.added.empty()) head_.tell(std::move(copies));
}

}  // namespace mobula::internal::worker
