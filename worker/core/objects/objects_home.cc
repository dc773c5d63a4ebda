// Decisions of an object's home: claims, holds of nodes, and results that other nodes store.
#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"
#include "worker/core/objects/objects.h"

namespace mobula::internal::worker {
namespace {

const CoverageMark mark_relayed("worker.home_reads_what_an_asker_cannot");

}  // namespace

bool Objects::has_bytes_somewhere(ObjectId object, const ObjectEntry& entry) const {
  return here(object) || !entry.replica_nodes.empty() || !entry.copies.empty();
}

// ---- claims -------------------------------------------------------------------------------------

// A ref may arrive before the owner's claim of its object: pins the object and waits for the claim.
void Objects::wait_for_claim(ObjectId object) {
  ObjectEntry& entry = entries_.at(object);
  if (entry.claimed || entry.claim_by || !pin(object)) return;
  entry.claim_by = start_timer(object, TimerKind::claim, options_.unclaimed_delay);
}

ObjectEntry& Objects::placeholder(ObjectId object) {
  if (ObjectEntry* entry = find(object)) {
    if (entry->home.empty()) entry->home = self_;
    return *entry;
  }
  MOBULA_CHECK(pin(object), "the agent may hold no more objects");
  ObjectEntry& entry = entries_.at(object);
  entry.home = self_;
  entry.claim_by = start_timer(object, TimerKind::claim, options_.unclaimed_delay);
  return entry;
}

void Objects::claim(ObjectId object, ProcessId owner) {
  ObjectEntry& entry = entries_.at(object);
  entry.claimed = true;
  entry.owner = owner;
  for (const NodeId node : std::exchange(entry.unconfirmed, {})) {
    peers_.send(node, NodeHoldReply{object, true});
  }
  if (!entry.claim_by) return;
  entry.claim_by.reset();
  unpin(object);
}

// Records a final failure. Present and later readers receive it.
void Objects::give_up(ObjectId object, Failure why) {
  ObjectEntry* entry = find(object);
  if (entry == nullptr || !pin(object)) return;  // pinned, because only the failure may hold it
  entry->failure = why;
  entry->locate_by.reset();
  fail_readers(object, why);
  answer_askers(object);
  for (const NodeId node : std::exchange(entry->unconfirmed, {})) {
    peers_.send(node, NodeHoldReply{object, entry->claimed});
    if (!entry->claimed) apply(table_.release_node(node, object));
  }
  if (std::exchange(entry->claim_by, std::nullopt)) unpin(object);
  unpin(object);
}

// ---- holds of nodes -----------------------------------------------------------------------------

void Objects::from_peer(NodeId node, const NodeHoldRequest& message) {
  ObjectEntry& entry = placeholder(message.object);
  const bool unknown = !at_home(entry) || (!entry.claimed && entry.failure);
  if (unknown) return peers_.send(node, NodeHoldReply{message.object, false});
  MOBULA_CHECK(table_.hold_node(node, message.object).ok(), "an entry without a row");
  if (entry.claimed) return peers_.send(node, NodeHoldReply{message.object, true});
  entry.unconfirmed.insert(node);
  wait_for_claim(message.object);
}

// From a holder to the home, or from the home to a node that stores the bytes for it.
void Objects::from_peer(NodeId node, const NodeRelease& message) {
  bool had_bytes = false;
  if (ObjectEntry* entry = find(message.object)) {
    had_bytes = at_home(*entry) && erase_location(message.object, *entry, node, Location::replica);
    entry->askers.erase(node);
    entry->unconfirmed.erase(node);
  }
  apply(table_.release_node(node, message.object));
  settle(message.object);
  // Other holders may remain, and the node that released the object may have had the last bytes.
  if (had_bytes)
    location_removed(message.object, fmt::format("node {} released the last copy", node.brief()));
}

void Objects::from_peer(NodeId node, const ObjectStatusRequest& message) {
  const ObjectId object = message.object;
  // A node that asks for the bytes does not have them, whatever the list of locations states.
  if (const ObjectEntry* known = find(object); known != nullptr && at_home(*known)) {
    remove_location(object, node, Location::any,
                    fmt::format("node {} does not have its copy any more", node.brief()));
  }
  ObjectEntry& entry = placeholder(object);
  const bool ready =
      here(object) || (at_home(entry) && (entry.failure || has_bytes_somewhere(object, entry)));
  if (ready) {
    ObjectStatusReply status = status_for(node, object, entry, message.unread);
    if (!status.locations.empty() || status.failure || !at_home(entry))
      return peers_.send(node, std::move(status));
    // The asker reads from none of the locations. This node reads from them instead, or finds out
    // that the bytes are lost.
    mark_relayed.hit();
    entry.askers.insert(node);
    return seek(object);
  }
  if (at_home(entry) && !entry.is_tensor) {
    entry.askers.insert(node);
    if (!entry.claimed) wait_for_claim(object);
    return;
  }
  ObjectStatusReply status;
  status.object = object;
  status.failure =
      entry.is_tensor
          ? tensor_not_here()
          : failure(ErrorCode::not_found,
                    fmt::format("node {} has no copy of object {}", self_.brief(), object.brief()));
  peers_.send(node, std::move(status));
}

// Each asker gets another order of the locations, so that not all begin with the same node.
// Nodes in `unread` are left out: the asker failed to read from them.
ObjectStatusReply Objects::status_for(NodeId asker, ObjectId object, ObjectEntry& entry,
                                      const std::vector<NodeId>& unread) const {
  ObjectStatusReply status;
  status.object = object;
  status.size_bytes = static_cast<std::int64_t>(entry.size_bytes);
  status.is_error = entry.is_error;
  status.contained = entry.contained;
  if (here(object)) status.locations.push_back(self_);
  status.locations.insert(status.locations.end(), entry.replica_nodes.begin(),
                          entry.replica_nodes.end());
  status.locations.insert(status.locations.end(), entry.copies.begin(), entry.copies.end());
  std::erase(status.locations, asker);
  std::erase_if(status.locations, [&](NodeId node) {
    return node != self_ && std::ranges::find(unread, node) != unread.end();
  });
  if (status.locations.empty()) {
    status.failure = entry.failure;
    return status;
  }
  const std::uint64_t first = entry.answers++ % status.locations.size();
  std::rotate(status.locations.begin(),
              status.locations.begin() + static_cast<std::ptrdiff_t>(first),
              status.locations.end());
  if (!at_home(entry)) return status;
  fetches_no_more(entry, asker);
  for (auto at = entry.fetchers.rbegin(); at != entry.fetchers.rend(); ++at) {
    if (status.fetching.size() < max_reported_fetchers) status.fetching.push_back(*at);
  }
  if (entry.fetchers.size() >= max_fetchers) entry.fetchers.erase(entry.fetchers.begin());
  entry.fetchers.push_back(asker);
  return status;
}

void Objects::answer_askers(ObjectId object) {
  ObjectEntry& entry = entries_.at(object);
  for (const NodeId node : std::exchange(entry.askers, {})) {
    peers_.send(node, status_for(node, object, entry));
  }
}

// Only from a node with its own hold, because such a node also reports the end of its replica.
void Objects::from_peer(NodeId node, const ReplicaAdded& message) {
  ObjectEntry* entry = find(message.object);
  if (entry == nullptr || !at_home(*entry)) return;
  fetches_no_more(*entry, node);
  const ObjectRow* row = table_.find(message.object);
  if (!row->nodes.contains(node) || entry->replica_nodes.contains(node)) return;
  if (entry->copies.insert(node).second) location_added(message.object);
}

// ---- results that other nodes store for owners here ---------------------------------------------

void Objects::from_peer(NodeId node, const StoreResultRequest& message) {
  const ObjectId object = message.object;
  const ObjectEntry* known = find(object);
  bool wanted = !here(object);
  if (wanted && (known == nullptr || !known->owner_released)) {
    // Results of a dead owner are not kept, unless other holders requested them before.
    const bool owner_holds =
        processes_.attached(message.owner) && table_.hold(message.owner, object).ok();
    wanted = owner_holds || (known != nullptr && known->claimed && !known->failure);
  }
  if (!wanted) return peers_.send(node, StoreResultReply{object, false});
  ObjectEntry& entry = entries_[object];
  pin(object);
  entry.home = self_;
  entry.size_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(message.size_bytes, 0));
  entry.is_error = message.is_error;
  entry.contained = message.contained;
  entry.failure.reset();
  entry.locate_by.reset();
  entry.replica_nodes.insert(node);
  claim(object, message.owner);
  peers_.send(node, StoreResultReply{object, true});
  location_added(object);
  unpin(object);
}

// ---- losses -------------------------------------------------------------------------------------

void Objects::from_peer(NodeId node, const ReplicaLost& message) {
  const ObjectEntry* entry = find(message.object);
  if (entry == nullptr || !at_home(*entry)) return;
  remove_location(message.object, node, Location::any, message.cause);
}

void Objects::remove_location(ObjectId object, NodeId node, Location which,
                              const std::string& cause) {
  ObjectEntry* entry = find(object);
  if (entry != nullptr && erase_location(object, *entry, node, which))
    location_removed(object, cause);
}

// True if the node was a location.
bool Objects::erase_location(ObjectId object, ObjectEntry& entry, NodeId node, Location which) {
  fetches_no_more(entry, node);
  const bool replica = which != Location::kept_result && entry.copies.erase(node) > 0;
  const bool kept = which != Location::replica && entry.replica_nodes.erase(node) > 0;
  if (kept) peers_.send(node, NodeRelease{object});
  return replica || kept;
}

void Objects::location_removed(ObjectId object, const std::string& cause) {
  const ObjectEntry* entry = find(object);
  if (entry == nullptr || !at_home(*entry) || !entry->claimed || entry->failure) return;
  has_bytes_somewhere(object, *entry) ? save_if_it_goes(object) : lost(object, cause);
}

void Objects::remove_all_locations(ObjectId object, const std::string& cause) {
  ObjectEntry& entry = entries_.at(object);
  for (const NodeId node : std::exchange(entry.replica_nodes, {}))
    peers_.send(node, NodeRelease{object});
  entry.copies.clear();
  entry.fetchers.clear();
  location_removed(object, cause);
}

// Readers of this node and of other nodes may wait for it.
void Objects::location_added(ObjectId object) {
  answer_askers(object);
  if (!entries_.at(object).readers.empty()) seek(object);
  save_if_it_goes(object);
}

std::vector<std::pair<ObjectId, ProcessId>> Objects::awaited_without_bytes() const {
  std::vector<std::pair<ObjectId, ProcessId>> awaited;
  for (const auto& [object, entry] : entries_) {
    const bool waits = at_home(entry) && (!entry.readers.empty() || !entry.askers.empty());
    const bool hopeless =
        entry.claimed && !entry.failure && !entry.locate_by && !has_bytes_somewhere(object, entry);
    if (waits && hopeless) awaited.emplace_back(object, entry.owner);
  }
  return awaited;
}

// The home has no known location of the bytes left. Holders may have unreported replicas.
void Objects::lost(ObjectId object, const std::string& cause) {
  ObjectEntry& entry = entries_.at(object);
  const ObjectRow* row = table_.find(object);
  entry.lost_cause = cause;
  if (!row->nodes.empty()) {
    locate(object);
  } else {
    nothing_left(object, cause);
  }
}

// A living owner recomputes the object, or seals an error instead; readers continue to wait.
void Objects::nothing_left(ObjectId object, const std::string& cause) {
  ObjectEntry& entry = entries_.at(object);
  const bool owner_knows = entry.exported || table_.find(object)->processes.contains(entry.owner);
  if (processes_.attached(entry.owner) && owner_knows) {
    entry.contained.clear();
    processes_.send(entry.owner, ObjectGone{object, cause});
    return;
  }
  give_up(object, failure(ErrorCode::unavailable,
                          fmt::format("object {} is lost: {}, and its owner is gone as well",
                                      object.brief(), cause)));
}

}  // namespace mobula::internal::worker
