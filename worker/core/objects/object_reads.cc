#include "worker/core/objects/object_reads.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/coverage_mark.h"

namespace mobula::internal::worker {
namespace {

const CoverageMark mark_unreadable("worker.locations_of_an_object_given_up");
const CoverageMark mark_owner_knows("worker.location_known_to_owner_only");

}  // namespace

// ---- readers ------------------------------------------------------------------------------------

void ObjectReads::fetch(ProcessId process, const FetchObjectRequest& message, HeldObject* held,
                        Failure why) {
  const ObjectId object = message.ref.object;
  const bool away = held != nullptr && !holds_.at_home(*held);
  // The home of an object decides whether it is lost. A failure that was recorded while the home
  // was dead is void once the node has another agent.
  if (away && !context_.peers.is_dead(held->home)) held->failure.reset();
  if (held != nullptr && held->failure) why = *held->failure;
  const bool flooded =
      away && context_.peers.backlog(held->home) >= context_.options.max_peer_backlog;
  if (flooded) {
    why = failure(ErrorCode::resource_exhausted,
                  fmt::format("{} messages for node {} wait already: it is not reached",
                              context_.peers.backlog(held->home), held->home.brief()));
  }
  if (held != nullptr && context_.sealed(object))
    return answer_readable(process, object, message.fetch);
  if (held == nullptr || held->failure || flooded) {
    FetchObjectReply answer;
    answer.object = object;
    answer.fetch = message.fetch;
    answer.failure = std::move(why);
    return context_.processes.send(process, std::move(answer));
  }
  Row& row = rows_[object];
  row.readers[process] = message.fetch;
  if (message.argument) {
    row.argument = true;
    if (row.pull != 0) context_.transfers.hurry(row.pull);
  }
  const bool of_owner = held->owner == process && directory_.claimed(object);
  if (of_owner && !directory_.has_bytes_somewhere(object) && !message.location.empty())
    return seek_at(object, message.location);
  seek(object);
}

// The owner knows a location that this home, which has replaced a dead one, does not know.
void ObjectReads::seek_at(ObjectId object, NodeId node) {
  Row& row = rows_.at(object);
  if (row.locate_by || !row.requested.empty() || node == context_.self) return;
  mark_owner_knows.hit();
  row.lost_cause =
      fmt::format("the agent of its owner died, and node {} has no copy", node.brief());
  if (!context_.peers.is_dead(node)) row.candidates.push_back(node);
  query_candidate(object);
}

void ObjectReads::cancel_fetch(ProcessId process, ObjectId object) {
  Row* row = rows_.find(object);
  if (row == nullptr || row->readers.erase(process) == 0) return;
  const bool unread = row->readers.empty() && !directory_.has_waiters(object);
  if (unread && !port_.is_saving(object)) release_pull(object);
}

void ObjectReads::forget_reader(ProcessId process, ObjectId object) {
  if (Row* row = rows_.find(object)) row->readers.erase(process);
}

void ObjectReads::answer_readable(ProcessId process, ObjectId object, std::uint64_t fetch) {
  const ObjectLocation location = context_.table.find(object)->location;
  memory_.map(process, object, fetch);
  const HeldObject& held = holds_.at(object);
  const auto slab_bytes =
      static_cast<std::int64_t>(context_.table.space().owner_of(location.slab)->size_bytes);
  context_.processes.send_with_slab(process, location.slab, [&](bool given) {
    FetchObjectReply answer;
    answer.object = object;
    answer.location = {slab_number(location.slab), static_cast<std::int64_t>(location.offset),
                       static_cast<std::int64_t>(location.size_bytes)};
    answer.new_slab = given;
    answer.slab_bytes = slab_bytes;
    answer.is_error = held.is_error;
    answer.contained = held.contained;
    answer.fetch = fetch;
    return answer;
  });
}

void ObjectReads::fail_readers(ObjectId object, const Failure& why) {
  Row* row = rows_.find(object);
  if (row == nullptr) return;
  for (const auto& [reader, fetch] : std::exchange(row->readers, {})) {
    FetchObjectReply answer;
    answer.object = object;
    answer.failure = why;
    answer.fetch = fetch;
    context_.processes.send(reader, std::move(answer));
  }
}

void ObjectReads::answer_readers(ObjectId object) {
  Row* row = rows_.find(object);
  if (row == nullptr) return;
  for (const auto& [reader, fetch] : std::exchange(row->readers, {}))
    answer_readable(reader, object, fetch);
}

void ObjectReads::process_ended(ProcessId process) {
  for (auto& [object, row] : rows_) row.readers.erase(process);
}

// ---- search -------------------------------------------------------------------------------------

void ObjectReads::seek(ObjectId object) {
  Row& row = rows_[object];
  const bool under_way =
      row.pull != 0 || row.locate_by || !row.requested.empty() || memory_.awaits(object);
  const ObjectRow& stored = *context_.table.find(object);
  if (under_way || stored.has_location()) return;
  if (stored.state == ObjectState::spilled) return spill_.restore(object);
  const HeldObject& held = holds_.at(object);
  if (!holds_.at_home(held)) {
    context_.peers.is_dead(held.home) ? locate(object) : request_status(object, held.home);
  } else if (directory_.has_bytes_somewhere(object)) {
    row.sources = directory_.locations(object);
    begin_pull(object);
  } else if (directory_.is_tensor(object)) {
    fail_readers(object, directory_.tensor_not_here());
  }
}

void ObjectReads::seek_for_readers(ObjectId object) {
  if (has_readers(object)) seek(object);
}

void ObjectReads::request_status(ObjectId object, NodeId node) {
  Row& row = rows_[object];
  row.requested = node;
  context_.peers.send(node, ObjectStatusRequest{object, std::exchange(row.unread, {})});
}

void ObjectReads::on(NodeId node, const ObjectStatusReply& message) {
  const ObjectId object = message.object;
  Row* row = rows_.find(object);
  if (row == nullptr || row->requested != node) return;
  row->requested = NodeId{};
  HeldObject& held = holds_.at(object);
  const bool of_home = node == held.home;
  if (context_.table.find(object)->has_location() || context_.here(object)) return;
  row->sources.clear();
  memory_.set_origins(object, message.locations);
  for (const NodeId location : message.locations) {
    if (location != context_.self && !context_.peers.is_dead(location))
      row->sources.push_back(location);
  }
  // A pull queries few nodes at once: the first two holders and the fetching nodes come first.
  if (!row->sources.empty()) {
    const auto after = std::min<std::size_t>(2, row->sources.size());
    const auto where = row->sources.begin() + static_cast<std::ptrdiff_t>(after);
    row->sources.insert(where, message.fetching.begin(), message.fetching.end());
  }
  const bool all_dead = !message.failure && !message.locations.empty() && row->sources.empty();
  if (all_dead && of_home && ++row->tries < max_tries) {
    // The home does not know about these deaths yet.
    row->unread = message.locations;
    return request_status(object, node);
  }
  if (message.failure || row->sources.empty()) {
    if (!of_home) return query_candidate(object);
    const Failure unknown = failure(ErrorCode::unavailable,
                                    fmt::format("object {}: its home node {} knows no node that "
                                                "has it",
                                                object.brief(), node.brief()));
    return fail_readers(object, message.failure.value_or(unknown));
  }
  held.size_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(message.size_bytes, 0));
  held.is_error = message.is_error;
  held.contained = message.contained;
  // If the home has died, the bytes are pulled for all holders, with or without readers.
  if (!of_home || !row->readers.empty() || port_.must_save(object)) begin_pull(object);
}

void ObjectReads::locate(ObjectId object) {
  Row& row = rows_[object];
  if (row.locate_by || holds_.at(object).failure) return;
  row.locate_by =
      context_.timers.start(object, ObjectTimers::Kind::locate, context_.options.locate_timeout);
  context_.head.tell(LocateObjectRequest{object});
}

void ObjectReads::locate_expired(ObjectId object, Time at) {
  const Row* row = rows_.find(object);
  if (row != nullptr && row->locate_by == at) on(LocateObjectReply{object, {}});
}

void ObjectReads::on(const LocateObjectReply& message) {
  const ObjectId object = message.object;
  Row* row = rows_.find(object);
  if (row == nullptr || !row->locate_by) return;
  row->locate_by.reset();
  std::vector<NodeId> nodes = message.nodes;
  std::erase_if(nodes,
                [&](NodeId node) { return node == context_.self || context_.peers.is_dead(node); });
  if (!holds_.at_home(holds_.at(object))) {
    row->candidates = std::move(nodes);
    return query_candidate(object);
  }
  if (directory_.has_bytes_somewhere(object)) return;
  // A node without a hold here does not report the end of its replica.
  const ObjectRow& stored = *context_.table.find(object);
  std::erase_if(nodes, [&](NodeId node) { return !stored.nodes.contains(node); });
  nodes.empty() ? directory_.nothing_left(object, row->lost_cause)
                : directory_.add_replicas(object, nodes);
}

void ObjectReads::query_candidate(ObjectId object) {
  Row& row = rows_[object];
  const bool at_home = holds_.at_home(holds_.at(object));
  if (at_home && directory_.has_bytes_somewhere(object)) return seek(object);
  if (at_home && row.candidates.empty()) return directory_.nothing_left(object, row.lost_cause);
  if (row.candidates.empty()) {
    const std::string cause = row.lost_cause.empty() ? fmt::format("its home node {} died",
                                                                   holds_.at(object).home.brief())
                                                     : row.lost_cause;
    return directory_.give_up(
        object, failure(ErrorCode::unavailable,
                        fmt::format("object {} is lost: {}, and no other node has a copy",
                                    object.brief(), cause)));
  }
  const NodeId node = row.candidates.front();
  row.candidates.erase(row.candidates.begin());
  request_status(object, node);
}

void ObjectReads::last_location_removed(ObjectId object, const std::string& cause) {
  rows_[object].lost_cause = cause;
  const bool held_elsewhere = !context_.table.find(object)->nodes.empty();
  held_elsewhere ? locate(object) : directory_.nothing_left(object, cause);
}

void ObjectReads::home_died(ObjectId object, const std::string& cause) {
  Row& row = rows_[object];
  row.requested = NodeId{};
  row.lost_cause = fmt::format("its home, {}", cause);
}

void ObjectReads::node_died(NodeId node, const std::vector<ObjectId>& requested) {
  for (const ObjectId object : requested) {
    Row* row = rows_.find(object);
    if (row == nullptr || row->requested != node) continue;
    row->requested = NodeId{};
    query_candidate(object);
  }
}

void ObjectReads::forget_candidate(NodeId node) {
  for (auto& [object, row] : rows_) std::erase(row.candidates, node);
}

void ObjectReads::end_query(ObjectId object) {
  if (Row* row = rows_.find(object)) row->locate_by.reset();
}

void ObjectReads::found(ObjectId object) {
  Row* row = rows_.find(object);
  if (row == nullptr) return;
  row->argument = false;
  row->tries = 0;
  row->unread.clear();
  row->locate_by.reset();
  row->candidates.clear();
}

// ---- pulls --------------------------------------------------------------------------------------

// Needs `sources` and the size of the object.
void ObjectReads::begin_pull(ObjectId object) {
  if (!holds_.pin(object))
    return fail_readers(
        object, failure(ErrorCode::resource_exhausted, "the agent may hold no more objects"));
  Row& row = rows_.at(object);
  std::vector<NodeId> sources = std::exchange(row.sources, {});
  std::erase_if(sources, [&](NodeId node) { return context_.peers.is_dead(node); });
  row.unread = sources;
  const auto pull =
      context_.transfers.pull_object(object, holds_.at(object).size_bytes, sources, row.argument);
  if (!pull) return abandon(object, pull.error());
  row.pull = *pull;
}

void ObjectReads::on(const transfer::BeginPull& begin) {
  const ObjectId object = begin.key.object;
  if (pull_of(object) != begin.pull) {
    return context_.transfers.refused(
        begin.pull, failure(ErrorCode::cancelled, "no process needs it any more"));
  }
  ReserveRequest request;
  request.object = object;
  request.size_bytes = begin.size_bytes;
  request.writer = context_.agent;
  request.exported = true;  // any holder of a ref may read it, whatever job owns the replica
  const ObjectRow& stored = *context_.table.find(object);
  request.job = stored.job;
  for (const ProcessId process : stored.processes) {
    const ProcessRow* holder = context_.processes.find(process);
    if (request.job.empty() && holder != nullptr) request.job = holder->principal.job;
  }
  const auto location = memory_.allocate(request);
  if (!location) return context_.transfers.refused(begin.pull, location.error());
  if (*location) return context_.transfers.placed(begin.pull, **location);
  context_.transfers.waits_for_space(begin.pull);
  if (memory_.wait(request)) return;
  refuse_pull(object, failure(ErrorCode::resource_exhausted,
                              "too many pulls wait for space in this node's store"));
}

void ObjectReads::allocated(ObjectId object, const ObjectLocation& location) {
  context_.transfers.placed(rows_.at(object).pull, location);
}

bool ObjectReads::refuse_pull(ObjectId object, const Failure& why) {
  const transfer::PullId pull = pull_of(object);
  if (pull == 0) return false;
  context_.transfers.refused(pull, why);
  return true;
}

// Returns the location and the pin.
void ObjectReads::abandon(ObjectId object, const Failure& why) {
  if (holds_.find(object) == nullptr) return;
  holds_.apply(context_.table.fail(object, why));
  memory_.retry();
  fail_readers(object, why);
  directory_.reply_to_waiters(object);
  holds_.unpin(object);
}

void ObjectReads::on(const transfer::PullDone& done) {
  const ObjectId object = done.key.object;
  Row* row = rows_.find(object);
  if (row == nullptr || row->pull != done.pull) return;
  row->pull = 0;
  memory_.cancel_wait(object);
  const ObjectRow& stored = *context_.table.find(object);
  if (!done.failure && context_.table.seal(object, context_.agent)) {
    memory_.sealed(object, true);
    memory_.check();
    const HeldObject& held = holds_.at(object);
    if (!holds_.at_home(held) && !context_.peers.is_dead(held.home)) {
      context_.peers.send(held.home, ReplicaAdded{object});
    }
    port_.sealed(object);
  } else if (!stored.has_location() || stored.writer == context_.agent) {
    pull_failed(object, done.failure.value_or(
                            failure(ErrorCode::unavailable, "the place of the copy was lost")));
  }
  // Otherwise a local process has begun to write the object: its bytes serve all readers.
  holds_.unpin(object);
}

void ObjectReads::pull_failed(ObjectId object, const Failure& why) {
  holds_.apply(context_.table.fail(object, why));
  memory_.retry();
  Row& row = rows_.at(object);
  const HeldObject& held = holds_.at(object);
  const bool cancelled = why.code == ErrorCode::cancelled;
  const bool full = why.code == ErrorCode::resource_exhausted;
  const bool given_up = !cancelled && !full && ++row.tries >= max_tries;
  const bool awaited = !row.readers.empty() || directory_.has_waiters(object);
  if (holds_.at_home(held) && ((given_up && awaited) || why.code == ErrorCode::not_found)) {
    // No listed node has, or sends, the bytes. Readers wait until they are recomputed.
    mark_unreadable.hit();
    row.tries = 0;
    return directory_.remove_all_locations(object, why.text);
  }
  const bool wanted = awaited || (!cancelled && context_.peers.is_dead(held.home));
  if (full || given_up) {
    row.tries = 0;
    // Bytes that no node sends are lost. A timeout belongs to a node, not to the readers.
    const bool silent = why.code == ErrorCode::timed_out || why.code == ErrorCode::not_found;
    fail_readers(object, silent ? failure(ErrorCode::unavailable, why.text) : why);
    directory_.reply_to_waiters(object);
  } else if (wanted) {
    seek(object);
  }
}

void ObjectReads::cancel_pull(ObjectId object) {
  if (const transfer::PullId pull = pull_of(object)) context_.transfers.cancel(pull);
}

void ObjectReads::release_pull(ObjectId object) {
  if (const transfer::PullId pull = pull_of(object)) context_.transfers.unwant(pull);
}

void ObjectReads::erase(ObjectId object) {
  release_pull(object);
  rows_.erase(object);
}

// ---- queries ------------------------------------------------------------------------------------

transfer::PullId ObjectReads::pull_of(ObjectId object) const {
  const Row* row = rows_.find(object);
  return row == nullptr ? 0 : row->pull;
}

bool ObjectReads::has_readers(ObjectId object) const {
  const Row* row = rows_.find(object);
  return row != nullptr && !row->readers.empty();
}

bool ObjectReads::queries_head(ObjectId object) const {
  const Row* row = rows_.find(object);
  return row != nullptr && row->locate_by.has_value();
}

bool ObjectReads::queries(ObjectId object, NodeId node) const {
  const Row* row = rows_.find(object);
  return row != nullptr && row->requested == node;
}

}  // namespace mobula::internal::worker
