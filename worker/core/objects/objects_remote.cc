// Objects with a home on another node, and pulls of bytes to this node.
#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"
#include "worker/core/objects/objects.h"

namespace mobula::internal::worker {
namespace {

const CoverageMark mark_unreadable("worker.locations_of_an_object_given_up");

}  // namespace

// ---- holds --------------------------------------------------------------------------------------

void Objects::want_node_hold(ObjectId object, ObjectEntry& entry) {
  if (entry.node_hold != NodeHoldState::none || peers_.is_dead(entry.home)) return;
  entry.node_hold = NodeHoldState::asked;
  HoldsAsked& asked = holds_asked_[object];
  asked.home = entry.home;
  ++asked.count;
  peers_.send(entry.home, NodeHoldRequest{object, table_.find(object)->job});
}

// A hold may be requested, released and requested again before the first reply: only the last reply
// counts.
void Objects::from_peer(NodeId, const NodeHoldReply& message) {
  const auto asked = holds_asked_.find(message.object);
  if (asked == holds_asked_.end()) return;
  if (--asked->second.count > 0) return;
  holds_asked_.erase(asked);
  ObjectEntry* entry = find(message.object);
  if (entry == nullptr || entry->node_hold != NodeHoldState::asked) return;
  entry->node_hold = message.known ? NodeHoldState::confirmed : NodeHoldState::none;
  confirm_waiters(message.object);
  save_if_it_goes(message.object);
}

void Objects::confirm_waiters(ObjectId object) {
  for (const ProcessId process : std::exchange(entries_.at(object).hold_waiters, {})) {
    processes_.send(process, HoldObjectReply{object});
  }
}

void Objects::from_peer(NodeId node, const StoreResultReply& message) {
  finish_sealers(message.object);
  if (message.wanted) return;
  apply(table_.release_node(node, message.object));
  settle(message.object);
}

void Objects::finish_sealers(ObjectId object) {
  ObjectEntry* entry = find(object);
  if (entry == nullptr) return;
  for (const ProcessId sealer : std::exchange(entry->sealers, {})) {
    processes_.send(sealer, SealObjectReply{object});
  }
}

// ---- pulls --------------------------------------------------------------------------------------

void Objects::seek(ObjectId object) {
  ObjectEntry& entry = entries_.at(object);
  const bool under_way =
      entry.pull != 0 || entry.locate_by || !entry.asked.empty() || entry.waits_for_room;
  const ObjectRow& row = *table_.find(object);
  if (under_way || row.has_place()) return;
  if (row.state == ObjectState::spilled) return restore(object);
  if (!at_home(entry)) {
    peers_.is_dead(entry.home) ? locate(object) : ask(object, entry.home);
  } else if (has_bytes_somewhere(object, entry)) {
    entry.sources.assign(entry.replica_nodes.begin(), entry.replica_nodes.end());
    entry.sources.insert(entry.sources.end(), entry.copies.begin(), entry.copies.end());
    begin_pull(object);
  } else if (entry.is_tensor) {
    fail_readers(object, tensor_not_here());
  }
}

// Bytes in this store were written before any reader was notified.
Failure Objects::tensor_not_here() const {
  return failure(ErrorCode::not_found,
                 fmt::format("the elements are not in the store of node {} either", self_.brief()));
}

void Objects::ask(ObjectId object, NodeId node) {
  ObjectEntry& entry = entries_.at(object);
  entry.asked = node;
  peers_.send(node, ObjectStatusRequest{object, std::exchange(entry.unread, {})});
}

void Objects::from_peer(NodeId node, const ObjectStatusReply& message) {
  const ObjectId object = message.object;
  ObjectEntry* entry = find(object);
  if (entry == nullptr || entry->asked != node) return;
  entry->asked = NodeId{};
  const bool of_home = node == entry->home;
  if (table_.find(object)->has_place() || here(object)) return;
  entry->sources.clear();
  entry->origins = {message.locations.begin(), message.locations.end()};
  for (const NodeId location : message.locations) {
    if (location != self_ && !peers_.is_dead(location)) entry->sources.push_back(location);
  }
  // A pull asks few nodes at once: the first two holders and the fetching nodes come first.
  if (!entry->sources.empty()) {
    const auto after = std::min<std::size_t>(2, entry->sources.size());
    const auto where = entry->sources.begin() + static_cast<std::ptrdiff_t>(after);
    entry->sources.insert(where, message.fetching.begin(), message.fetching.end());
  }
  const bool all_dead = !message.failure && !message.locations.empty() && entry->sources.empty();
  if (all_dead && of_home && ++entry->tries < max_tries) {
    // The home does not know about these deaths yet.
    entry->unread = message.locations;
    return ask(object, node);
  }
  if (message.failure || entry->sources.empty()) {
    if (!of_home) return ask_candidate(object);
    const Failure unknown = failure(ErrorCode::unavailable,
                                    fmt::format("object {}: its home node {} knows no node that "
                                                "has it",
                                                object.brief(), node.brief()));
    return fail_readers(object, message.failure.value_or(unknown));
  }
  entry->size_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(message.size_bytes, 0));
  entry->is_error = message.is_error;
  entry->contained = message.contained;
  // If the home has died, the bytes are pulled for all holders, with or without readers.
  if (!of_home || !entry->readers.empty() || saves(object, *entry)) begin_pull(object);
}

// Needs `sources` and `size_bytes`.
void Objects::begin_pull(ObjectId object) {
  if (!pin(object))
    return fail_readers(
        object, failure(ErrorCode::resource_exhausted, "the agent may hold no more objects"));
  ObjectEntry& entry = entries_.at(object);
  std::vector<NodeId> sources = std::exchange(entry.sources, {});
  std::erase_if(sources, [&](NodeId node) { return peers_.is_dead(node); });
  entry.unread = sources;
  const auto pull = transfers_.pull_object(object, entry.size_bytes, sources, entry.argument);
  if (!pull) return abandon(object, pull.error());
  entry.pull = *pull;
}

void Objects::pull_begins(const transfer::BeginPull& begin) {
  const ObjectId object = begin.key.object;
  ObjectEntry* entry = find(object);
  if (entry == nullptr || entry->pull != begin.pull) {
    return transfers_.refused(begin.pull,
                              failure(ErrorCode::cancelled, "no process needs it any more"));
  }
  ReserveRequest request;
  request.object = object;
  request.size_bytes = begin.size_bytes;
  request.writer = agent_;
  request.exported = true;  // any holder of a ref may read it, whatever job owns the replica
  request.job = table_.find(object)->job;
  for (const ProcessId process : table_.find(object)->processes) {
    const ProcessRow* holder = processes_.find(process);
    if (request.job.empty() && holder != nullptr) request.job = holder->principal.job;
  }
  const auto found = place(request);
  if (!found) return transfers_.refused(begin.pull, found.error());
  if (*found) return transfers_.placed(begin.pull, **found);
  entry->waits_for_room = true;
  transfers_.waits_for_room(begin.pull);
  if (wait_for_room(request)) return;
  refuse_place(request, failure(ErrorCode::resource_exhausted,
                                "too many pulls wait for space in this node's store"));
}

// Returns the location and the pin.
void Objects::abandon(ObjectId object, const Failure& why) {
  if (find(object) == nullptr) return;
  apply(table_.fail(object, why));
  retry_due_ = true;
  fail_readers(object, why);
  answer_askers(object);
  unpin(object);
}

void Objects::pulled(const transfer::PullDone& done) {
  const ObjectId object = done.key.object;
  ObjectEntry* entry = find(object);
  if (entry == nullptr || entry->pull != done.pull) return;
  entry->pull = 0;
  if (std::exchange(entry->waits_for_room, false)) {
    std::erase_if(waiting_, [&](const Waiting& each) {
      return each.request.object == object && each.request.writer == agent_;
    });
  }
  const ObjectRow& row = *table_.find(object);
  if (!done.failure && table_.seal(object, agent_)) {
    entry->pulled = true;
    entry->last_use = outbox_.now();
    room_due_ = true;
    if (!at_home(*entry) && !peers_.is_dead(entry->home)) {
      peers_.send(entry->home, ReplicaAdded{object});
    }
    became_sealed(object);
    return unpin(object);
  }
  // A local process has begun to write the object in the meantime: its bytes serve all readers.
  if (row.has_place() && row.writer != agent_) return unpin(object);
  const Failure why =
      done.failure.value_or(failure(ErrorCode::unavailable, "the place of the copy was lost"));
  apply(table_.fail(object, why));
  retry_due_ = true;
  const bool cancelled = why.code == ErrorCode::cancelled;
  const bool no_room = why.code == ErrorCode::resource_exhausted;
  const bool given_up = !cancelled && !no_room && ++entry->tries >= max_tries;
  const bool awaited = !entry->readers.empty() || !entry->askers.empty();
  if (at_home(*entry) && ((given_up && awaited) || why.code == ErrorCode::not_found)) {
    // No listed node has, or sends, the bytes. Readers wait until they are recomputed.
    mark_unreadable.hit();
    entry->tries = 0;
    remove_all_locations(object, why.text);
    return unpin(object);
  }
  const bool wanted = awaited || (!cancelled && peers_.is_dead(entry->home));
  if (no_room || given_up) {
    entry->tries = 0;
    // Bytes that no node sends are lost. A timeout belongs to a node, not to the readers.
    const bool silent = why.code == ErrorCode::timed_out || why.code == ErrorCode::not_found;
    fail_readers(object, silent ? failure(ErrorCode::unavailable, why.text) : why);
    answer_askers(object);
  } else if (wanted) {
    seek(object);
  }
  unpin(object);
}

void Objects::from_peer(NodeId node, const PullRequest& message) {
  if (message.object.empty()) return transfers_.offer_file(node, message.pull, message.file);
  const ObjectRow* row = table_.find(message.object);
  if (row != nullptr && row->on_disk && row->state != ObjectState::sealed) {
    restore(message.object);
    ObjectEntry& entry = entries_.at(message.object);
    entry.pullers.emplace_back(node, message.pull);
    // A peer does not wait for memory here: it must retry.
    if (entry.restore == 0) {
      refuse_pullers(message.object, failure(ErrorCode::resource_exhausted,
                                             "the object waits for space to be read from disk"));
    }
    return;
  }
  if (offer_partial(node, message.pull, message.object)) return;
  offer(node, message.pull, message.object);
}

// A pulling node lets peers read its available chunks, and reads from them in turn.
bool Objects::offer_partial(NodeId reader, std::uint64_t ask, ObjectId object) {
  const ObjectEntry* entry = find(object);
  if (entry == nullptr || entry->pull == 0 || sealed(object)) return false;
  transfers_.add_source(entry->pull, reader);
  entry = find(object);
  if (!transfers_.is_placed(entry->pull)) {
    transfers_.refuse(
        reader, ask,
        failure(ErrorCode::resource_exhausted, "the object waits for its turn to be pulled here"));
    return true;
  }
  if (!pin(object)) return false;
  const Place place = transfers_.place_of(entry->pull);
  if (transfers_.offer_object(reader, ask, object, place, entry->pull)) {
    ++entries_.at(object).offers;
  } else {
    unpin(object);
  }
  return true;
}

void Objects::from_peer(NodeId node, const PullComplete& message) {
  if (ObjectEntry* entry = find(message.object)) {
    std::erase(entry->pullers, std::pair{node, message.pull});
  }
  transfers_.over(node, message.pull);
}

void Objects::offer(NodeId reader, std::uint64_t ask, ObjectId object) {
  if (!sealed(object) || !pin(object)) {
    return transfers_.refuse(
        reader, ask,
        failure(ErrorCode::not_found,
                fmt::format("node {} has no copy of object {}", self_.brief(), object.brief())));
  }
  if (!transfers_.offer_object(reader, ask, object, table_.find(object)->place)) {
    return unpin(object);
  }
  ObjectEntry& entry = entries_.at(object);
  ++entry.offers;
  entry.last_use = outbox_.now();
}

void Objects::offer_over(ObjectId object) {
  if (ObjectEntry* entry = find(object); entry != nullptr && entry->offers > 0) --entry->offers;
  room_due_ = true;
  unpin(object);
}

// ---- without a home -----------------------------------------------------------------------------

void Objects::locate(ObjectId object) {
  ObjectEntry& entry = entries_.at(object);
  if (entry.locate_by || entry.failure) return;
  entry.locate_by = start_timer(object, TimerKind::locate, options_.locate_timeout);
  head_.tell(LocateObjectRequest{object});
}

void Objects::located(const LocateObjectReply& message) {
  ObjectEntry* entry = find(message.object);
  if (entry == nullptr || !entry->locate_by) return;
  entry->locate_by.reset();
  std::vector<NodeId> nodes = message.nodes;
  std::erase_if(nodes, [&](NodeId node) { return node == self_ || peers_.is_dead(node); });
  if (!at_home(*entry)) {
    entry->candidates = std::move(nodes);
    return ask_candidate(message.object);
  }
  if (has_bytes_somewhere(message.object, *entry)) return;
  // A node without a hold here does not report the end of its replica.
  const ObjectRow& row = *table_.find(message.object);
  std::erase_if(nodes, [&](NodeId node) { return !row.nodes.contains(node); });
  if (nodes.empty()) return nothing_left(message.object, entry->lost_cause);
  entry->copies.insert(nodes.begin(), nodes.end());
  location_added(message.object);
}

void Objects::ask_candidate(ObjectId object) {
  ObjectEntry& entry = entries_.at(object);
  if (entry.candidates.empty()) {
    return give_up(
        object,
        failure(ErrorCode::unavailable,
                fmt::format("object {} is lost: {}, and no other node has a copy", object.brief(),
                            entry.lost_cause.empty()
                                ? fmt::format("its home node {} died", entry.home.brief())
                                : entry.lost_cause)));
  }
  const NodeId node = entry.candidates.front();
  entry.candidates.erase(entry.candidates.begin());
  ask(object, node);
}

void Objects::home_died(ObjectId object, const std::string& cause) {
  ObjectEntry& entry = entries_.at(object);
  entry.node_hold = NodeHoldState::none;
  entry.asked = NodeId{};
  entry.lost_cause = fmt::format("its home, {}", cause);
  confirm_waiters(object);
  finish_sealers(object);
  const ObjectRow& row = *table_.find(object);
  if (row.here()) {
    // Unknown holders on other nodes may still request it.
    if (row.nodes.contains(entry.home)) keep_for(object, options_.orphan_delay);
  } else if (row.state != ObjectState::reserved && entry.pull == 0) {
    locate(object);
  }
}

void Objects::node_dead(NodeId node, const std::string& cause) {
  drained_.erase(node);
  std::vector<ObjectId> homeless, kept, touched, asked;
  for (const auto& [object, entry] : entries_) {
    if (entry.home == node) {
      homeless.push_back(object);
      continue;
    }
    if (entry.asked == node) asked.push_back(object);
    const ObjectRow* row = table_.find(object);
    if (row->nodes.contains(node)) touched.push_back(object);
    if (entry.replica_nodes.contains(node) || entry.copies.contains(node)) kept.push_back(object);
  }
  std::erase_if(holds_asked_, [&](const auto& each) { return each.second.home == node; });
  for (const ObjectId object : homeless) home_died(object, cause);
  apply(table_.drop_node(node));
  for (auto& [object, entry] : entries_) {
    erase_location(object, entry, node, Location::any);
    entry.askers.erase(node);
    entry.unconfirmed.erase(node);
    std::erase(entry.candidates, node);
    std::erase_if(entry.pullers, [&](const auto& each) { return each.first == node; });
    // A source has died, so this replica may be the last one.
    if (entry.origins.erase(node) > 0) entry.pulled = false;
  }
  for (const ObjectId object : kept) location_removed(object, cause);
  for (const ObjectId object : asked) {
    ObjectEntry* entry = find(object);
    if (entry == nullptr || entry->asked != node) continue;
    entry->asked = NodeId{};
    ask_candidate(object);
  }
  for (const ObjectId object : homeless) settle(object);
  for (const ObjectId object : touched) {
    finish_sealers(object);
    settle(object);
  }
}

}  // namespace mobula::internal::worker
