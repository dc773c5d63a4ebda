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

Objects::Objects(const Parts& parts, const WorkerOptions& options, const Started& self)
    : context_{parts.outbox,
               options,
               parts.head,
               parts.processes,
               parts.peers,
               parts.transfers,
               self.address.node,
               self.address.incarnation,
               ObjectTable(table_options(options, self.address.incarnation)),
               ObjectTimers(parts.outbox)} {}

// ---- requests of processes ----------------------------------------------------------------------

void Objects::export_object(ProcessId process, const ExportObject& message) {
  const ObjectId object = message.object;
  if (!context_.table.hold(process, object)) return;  // readers fail: the object is unknown
  HeldObject& held = holds_.add(object);
  if (held.home.empty()) held.home = context_.self;
  directory_.exported(object, message.is_tensor, message.stream);
  context_.table.export_object(object);
  if (!message.entrusted.empty()) entrusted_.entrust(object, process, message.entrusted);
  directory_.claim(object, process);
}

HeldObject* Objects::hold_for(ProcessId process, const RefRecord& ref, Failure& why) {
  const auto outcome = context_.table.hold(process, ref.object);
  if (!outcome) {
    why = outcome.error();
    return nullptr;
  }
  HeldObject& held = holds_.add(ref.object);
  holds_.learn(held, ref);
  const ObjectRow& row = *context_.table.find(ref.object);
  if (row.state == ObjectState::reserved && row.writer == process) held.writer_borrows = true;
  if (holds_.at_home(held)) {
    if (held.owner == process) directory_.owner_holds(ref.object, true);
    if (!held.failure) directory_.await_claim(ref.object);
  } else {
    holds_.request_node_hold(ref.object, held);
  }
  return &held;
}

void Objects::hold(ProcessId process, const HoldObjectRequest& message) {
  Failure why;
  HeldObject* held = hold_for(process, message.ref, why);
  // A rejected hold shows at the next read. The protocol of holds continues.
  if (held == nullptr || holds_.at_home(*held) || held->node_hold != NodeHoldState::requested) {
    return context_.processes.send(process, HoldObjectReply{message.ref.object});
  }
  held->hold_waiters.insert(process);
}

void Objects::release(ProcessId process, ObjectId object) {
  if (HeldObject* held = holds_.find(object)) {
    const bool owns = held->owner == process;
    reads_.forget_reader(process, object);
    // The owner of an exported object keeps its location and the entry, for a next agent.
    if (!owns || !directory_.is_exported(object)) memory_.unmap(process, object);
    held->hold_waiters.erase(process);
    held->writer_borrows = false;
    if (owns && holds_.at_home(*held)) directory_.owner_holds(object, false);
  }
  holds_.apply(context_.table.release(process, object));
  holds_.settle(object);
}

void Objects::fetch(ProcessId process, const FetchObjectRequest& message) {
  Failure why;
  HeldObject* held = hold_for(process, message.ref, why);
  reads_.fetch(process, message, held, std::move(why));
}

// ---- requests of other nodes --------------------------------------------------------------------

void Objects::from_peer(NodeId node, const StoreResultReply& message) {
  writes_.finish_sealers(message.object);
  if (message.wanted) return;
  holds_.apply(context_.table.release_node(node, message.object));
  holds_.settle(message.object);
}

// A node of the previous release reports no reader.
void Objects::from_peer(NodeId node, const NodeHoldRequest& message) {
  directory_.on(node, message);
  const ObjectId stream = directory_.stream_of(message.object);
  if (!stream.empty() && !context_.peers.address(node).takes_readers)
    readers_.unreported(stream, holds_.at(message.object).owner);
}

void Objects::from_peer(NodeId, const NodeHoldReply& message) {
  if (holds_.on(message)) drain_.check(message.object);
}

void Objects::from_peer(NodeId node, const PullRequest& message) {
  if (message.object.empty())
    return context_.transfers.offer_file(node, message.pull, message.file);
  const ObjectRow* row = context_.table.find(message.object);
  if (row != nullptr && row->on_disk && row->state != ObjectState::sealed)
    return spill_.restore_for(node, message.pull, message.object);
  if (!offer_partial(node, message.pull, message.object)) offer(node, message.pull, message.object);
}

void Objects::from_peer(NodeId node, const PullComplete& message) {
  spill_.pull_ended(message.object, node, message.pull);
  context_.transfers.over(node, message.pull);
}

// A pulling node lets peers read its available chunks, and reads from them in turn.
bool Objects::offer_partial(NodeId reader, std::uint64_t request, ObjectId object) {
  const transfer::PullId pull = reads_.pull_of(object);
  if (pull == 0 || context_.sealed(object)) return false;
  context_.transfers.add_source(pull, reader);
  if (!context_.transfers.is_placed(pull)) {
    context_.transfers.refuse(
        reader, request,
        failure(ErrorCode::resource_exhausted, "the object waits for its turn to be pulled here"));
    return true;
  }
  if (!holds_.pin(object)) return false;
  const ObjectLocation location = context_.transfers.location_of(pull);
  if (context_.transfers.offer_object(reader, request, object, location, pull)) {
    memory_.begin_partial_offer(object);
  } else {
    holds_.unpin(object);
  }
  return true;
}

void Objects::offer(NodeId reader, std::uint64_t request, ObjectId object) {
  if (!context_.sealed(object) || !holds_.pin(object)) {
    return context_.transfers.refuse(
        reader, request,
        failure(ErrorCode::not_found, fmt::format("node {} has no copy of object {}",
                                                  context_.self.brief(), object.brief())));
  }
  const ObjectLocation location = context_.table.find(object)->location;
  context_.transfers.offer_object(reader, request, object, location) ? memory_.begin_offer(object)
                                                                     : holds_.unpin(object);
}

void Objects::offer_over(ObjectId object) {
  memory_.end_offer(object);
  holds_.unpin(object);
}

// ---- effects of the components ------------------------------------------------------------------

void Objects::erased(ObjectId object, const HeldObject& last) {
  spill_.erase(object);
  reports_.remove(object);
  reads_.erase(object);
  directory_.erase(object, last);
  entrusted_.erase(object);
  if (!holds_.at_home(last) && last.node_hold != NodeHoldState::none)
    context_.peers.send(last.home, NodeRelease{object});
  writes_.erase(object);
  memory_.erase(object);
}

void Objects::only_pinned(ObjectId object) {
  if (!directory_.has_waiters(object)) reads_.release_pull(object);
}

void Objects::sealed(ObjectId object) {
  HeldObject& held = holds_.at(object);
  held.failure.reset();
  reads_.found(object);
  holds_.pin_contained(object);
  reads_.answer_readers(object);
  if (holds_.at_home(held)) {
    directory_.reply_to_waiters(object);
    drain_.release_kept_results(object);
  } else {
    reports_.add(object);
  }
}

void Objects::failed(ObjectId object, const Failure& why) {
  reads_.end_query(object);
  reads_.fail_readers(object, why);
}

void Objects::location_added(ObjectId object) {
  reads_.seek_for_readers(object);
  drain_.check(object);
}

void Objects::reserve_restore(const ReserveRequest& request) {
  const auto location = memory_.allocate(request);
  if (!location) return allocation_refused(request, location.error());
  if (*location) return spill_.start_restore(request.object, **location);
  if (!memory_.wait(request)) {
    allocation_refused(request, failure(ErrorCode::resource_exhausted,
                                        "too many objects wait for space in this node's store"));
  }
}

void Objects::allocated(const ReserveRequest& request, const ObjectLocation& location) {
  if (request.writer != context_.agent) return writes_.allocated(request);
  const bool pulls = reads_.pull_of(request.object) != 0;
  pulls ? reads_.allocated(request.object, location)
        : spill_.start_restore(request.object, location);
}

void Objects::allocation_refused(const ReserveRequest& request, const Failure& why) {
  const ObjectId object = request.object;
  if (request.writer != context_.agent) return writes_.allocation_refused(request, why);
  if (reads_.refuse_pull(object, why)) return;
  const ObjectRow* row = context_.table.find(object);
  if (row != nullptr && row->has_location()) return holds_.unpin(object);
  spill_.refuse_pullers(object, why);
  reads_.abandon(object, why);
}

void Objects::restored(ObjectId object) {
  memory_.touch(object);
  sealed(object);
}

void Objects::restore_failed(ObjectId object, const Failure& why) {
  memory_.touch(object);
  memory_.retry();
  reads_.fail_readers(object, why);
}

void Objects::lost_on_disk(ObjectId object, const std::string& cause) {
  memory_.touch(object);
  memory_.retry();
  memory_.set_primary(object);
  reports_.remove(object);
  const NodeId home = holds_.at(object).home;
  if (home != context_.self && !context_.peers.is_dead(home))
    context_.peers.send(home, ReplicaLost{object, cause});
  directory_.location_removed(object, cause);
  const HeldObject* held = holds_.find(object);
  if (held == nullptr) return;
  if (!holds_.at_home(*held) || directory_.has_bytes_somewhere(object))
    reads_.seek_for_readers(object);
}

bool Objects::stored_elsewhere(ObjectId object, const ObjectRow& row) const {
  const HeldObject& held = holds_.at(object);
  if (holds_.at_home(held)) return directory_.has_kept_results(object);
  const bool home_stays = !context_.peers.is_dead(held.home) && !drain_.is_drained(held.home);
  return home_stays && !row.nodes.contains(held.home);
}

void Objects::replica_evicted(ObjectId object) {
  reports_.remove(object);
  const HeldObject& held = holds_.at(object);
  if (!holds_.at_home(held) && !context_.peers.is_dead(held.home))
    context_.peers.send(held.home, ReplicaLost{object, "the copy left its node's memory"});
}

void Objects::evicted(ObjectId object) {
  directory_.location_removed(object, "its node needed the memory");
}

// ---- ends ---------------------------------------------------------------------------------------

void Objects::process_gone(ProcessId process, bool sudden) {
  std::vector<ObjectId> held, owned, found;
  for (const auto& [object, each] : holds_.all()) {
    if (writes_.forget_sealer(process, object)) found.push_back(object);
    const ObjectRow* row = context_.table.find(object);
    if (row != nullptr && row->processes.contains(process)) held.push_back(object);
    const bool owns = holds_.at_home(each) && each.owner == process && !entrusted_.contains(object);
    if (owns && !directory_.has_bytes_somewhere(object)) owned.push_back(object);
  }
  holds_.process_ended(process);
  reads_.process_ended(process);
  memory_.process_ended(process);
  writes_.process_ended(process);
  readers_.process_ended(process);
  for (const ObjectId object : owned) {
    directory_.give_up(
        object, failure(ErrorCode::unavailable,
                        fmt::format("object {} is lost: its owner, process {}, died before it "
                                    "was made",
                                    object.brief(), process.brief())));
  }
  // A ref in the last messages of the process may reach its new holder, and the new hold its home,
  // after this event.
  for (const ObjectId object : held) {
    const HeldObject* each = sudden ? holds_.find(object) : nullptr;
    if (each == nullptr || each->failure) continue;
    const ObjectRow& row = *context_.table.find(object);
    const bool unmade = row.state == ObjectState::reserved && row.writer == process;
    const bool its_secret = each->owner == process && !directory_.is_exported(object);
    if (!unmade && !its_secret) holds_.keep_for(object, context_.options.unclaimed_delay);
  }
  holds_.apply(context_.table.drop_process(process));
  for (const ObjectId object : held) holds_.settle(object);
  for (const ObjectId object : found) holds_.unpin(object);
  for (auto& [job, survivors] : ended_jobs_) survivors.erase(process);
}

void Objects::home_died(ObjectId object, const std::string& cause) {
  HeldObject& held = holds_.at(object);
  held.node_hold = NodeHoldState::none;
  reads_.home_died(object, cause);
  holds_.confirm_waiters(object);
  writes_.finish_sealers(object);
  const ObjectRow& row = *context_.table.find(object);
  if (row.here()) {
    // Unknown holders on other nodes may still request it.
    if (row.nodes.contains(held.home)) holds_.keep_for(object, context_.options.orphan_delay);
  } else if (row.state != ObjectState::reserved && reads_.pull_of(object) == 0) {
    reads_.locate(object);
  }
}

void Objects::node_dead(NodeId node, const std::string& cause) {
  drain_.end(node);
  std::vector<ObjectId> homeless, kept, touched, requested;
  for (const auto& [object, held] : holds_.all()) {
    if (held.home == node) {
      homeless.push_back(object);
      continue;
    }
    if (reads_.queries(object, node)) requested.push_back(object);
    if (context_.table.find(object)->nodes.contains(node)) touched.push_back(object);
    if (directory_.has_location(object, node)) kept.push_back(object);
  }
  holds_.node_died(node);
  for (const ObjectId object : homeless) home_died(object, cause);
  holds_.apply(context_.table.drop_node(node));
  directory_.node_died(node);
  reads_.forget_candidate(node);
  spill_.node_died(node);
  memory_.node_died(node);
  readers_.node_died(node);
  for (const ObjectId object : kept) directory_.location_removed(object, cause);
  reads_.node_died(node, requested);
  for (const ObjectId object : homeless) holds_.settle(object);
  for (const ObjectId object : touched) {
    writes_.finish_sealers(object);
    holds_.settle(object);
  }
}

void Objects::job_ended(JobId job, const std::set<ProcessId>& survivors, bool lingers) {
  std::vector<ProcessId> ending;
  for (const auto& [link, row] : context_.processes.rows()) {
    if (row.process.empty() || row.principal.job != job) continue;
    if (!survivors.contains(row.process)) ending.push_back(row.process);
  }
  for (const ProcessId process : ending) process_gone(process, false);
  ended_jobs_[job] = survivors;
  if (lingers) return;
  entrusted_.job_ended(job);
  // Other nodes release their holds on the same event there.
  std::vector<ObjectId> left;
  for (const auto& [object, row] : context_.table.objects()) {
    if (row.job == job && !row.exported) left.push_back(object);
  }
  for (const ObjectId object : left) {
    const ObjectRow* row = context_.table.find(object);
    if (row == nullptr) continue;
    // The owner of a result is a caller, maybe of another job. Its home releases the result when
    // the owner ends.
    const HeldObject* held = holds_.find(object);
    const NodeId home = held == nullptr ? NodeId() : held->home;
    const std::set<NodeId> nodes = row->nodes;
    for (const NodeId node : nodes) {
      if (node != home) holds_.apply(context_.table.release_node(node, object));
    }
    holds_.settle(object);
  }
}

// ---- time ---------------------------------------------------------------------------------------

void Objects::finish_step() {
  writes_.retry_blocked();
  memory_.finish_step();
  for (auto at = ended_jobs_.begin(); at != ended_jobs_.end();) {
    if (!at->second.empty() || context_.table.jobs().contains(at->first)) {
      ++at;
      continue;
    }
    const JobId job = at->first;
    at = ended_jobs_.erase(at);
    holds_.apply(context_.table.drop_job(job));
  }
}

void Objects::tick() {
  while (const auto timer = context_.timers.take_due()) {
    switch (timer->kind) {
      case ObjectTimers::Kind::claim: directory_.claim_expired(timer->object, timer->at); break;
      case ObjectTimers::Kind::locate: reads_.locate_expired(timer->object, timer->at); break;
      case ObjectTimers::Kind::orphan: holds_.orphan_expired(timer->object, timer->at); break;
    }
  }
  memory_.tick();
  reports_.tick();
}

void Objects::shift_deadlines(Duration gap) {
  memory_.shift_deadlines(gap);
  writes_.shift_deadlines(gap);
  spill_.shift_deadlines(gap);
}

std::optional<Time> Objects::next_deadline() const {
  std::optional<Time> first = context_.timers.next_deadline();
  take_earlier(first, reports_.next_deadline());
  take_earlier(first, writes_.next_deadline());
  take_earlier(first, memory_.next_deadline());
  return first;
}

void Objects::restate() {
  std::vector<ObjectId> present;
  for (const auto& [object, held] : holds_.all()) {
    if (reports_.contains(object)) present.push_back(object);
    if (reads_.queries_head(object)) context_.head.tell(LocateObjectRequest{object});
  }
  reports_.restate(std::move(present));
}

}  // namespace mobula::internal::worker
