#include "worker/core/objects/home_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/coverage_mark.h"

namespace mobula::internal::worker {
namespace {

const CoverageMark mark_home_relayed("worker.home_reads_for_requester");

}  // namespace

// ---- queries ------------------------------------------------------------------------------------

bool HomeDirectory::claimed(ObjectId object) const {
  const Row* row = rows_.find(object);
  return row != nullptr && row->claimed;
}

bool HomeDirectory::is_tensor(ObjectId object) const {
  const Row* row = rows_.find(object);
  return row != nullptr && row->is_tensor;
}

ObjectId HomeDirectory::stream_of(ObjectId object) const {
  const Row* row = rows_.find(object);
  return row == nullptr ? ObjectId() : row->stream;
}

bool HomeDirectory::is_exported(ObjectId object) const {
  const Row* row = rows_.find(object);
  return row != nullptr && row->exported;
}

bool HomeDirectory::released_by_owner(ObjectId object) const {
  const Row* row = rows_.find(object);
  return row != nullptr && row->exported && row->owner_released;
}

bool HomeDirectory::has_waiters(ObjectId object) const {
  const Row* row = rows_.find(object);
  return row != nullptr && !row->waiters.empty();
}

bool HomeDirectory::has_location(ObjectId object, NodeId node) const {
  const Row* row = rows_.find(object);
  return row != nullptr && (row->kept_results.contains(node) || row->replicas.contains(node));
}

bool HomeDirectory::keeps_result(ObjectId object, NodeId node) const {
  const Row* row = rows_.find(object);
  return row != nullptr && row->kept_results.contains(node);
}

bool HomeDirectory::has_kept_results(ObjectId object) const {
  const Row* row = rows_.find(object);
  return row != nullptr && !row->kept_results.empty();
}

bool HomeDirectory::has_bytes_somewhere(ObjectId object) const {
  if (context_.here(object)) return true;
  const Row* row = rows_.find(object);
  return row != nullptr && (!row->kept_results.empty() || !row->replicas.empty());
}

std::vector<NodeId> HomeDirectory::kept_results(ObjectId object) const {
  const Row* row = rows_.find(object);
  if (row == nullptr) return {};
  return {row->kept_results.begin(), row->kept_results.end()};
}

std::vector<NodeId> HomeDirectory::replicas(ObjectId object) const {
  const Row* row = rows_.find(object);
  if (row == nullptr) return {};
  return {row->replicas.begin(), row->replicas.end()};
}

std::vector<NodeId> HomeDirectory::locations(ObjectId object) const {
  std::vector<NodeId> nodes = kept_results(object);
  if (const Row* row = rows_.find(object))
    nodes.insert(nodes.end(), row->replicas.begin(), row->replicas.end());
  return nodes;
}

// Bytes in this store were written before any reader was notified.
Failure HomeDirectory::tensor_not_here() const {
  return failure(
      ErrorCode::not_found,
      fmt::format("the elements are not in the store of node {} either", context_.self.brief()));
}

// ---- owners -------------------------------------------------------------------------------------

void HomeDirectory::await_claim(ObjectId object) {
  Row& row = rows_[object];
  if (row.claimed || row.claim_by || !holds_.pin(object)) return;
  row.claim_by =
      context_.timers.start(object, ObjectTimers::Kind::claim, context_.options.unclaimed_delay);
}

// The row of an object that another node mentions: if it is unknown, waits for its claim.
HeldObject& HomeDirectory::placeholder(ObjectId object) {
  if (HeldObject* held = holds_.find(object)) {
    if (held->home.empty()) held->home = context_.self;
    return *held;
  }
  MOBULA_CHECK(holds_.pin(object), "the agent may hold no more objects");
  HeldObject& held = holds_.at(object);
  held.home = context_.self;
  rows_[object].claim_by =
      context_.timers.start(object, ObjectTimers::Kind::claim, context_.options.unclaimed_delay);
  return held;
}

void HomeDirectory::claim(ObjectId object, ProcessId owner) {
  Row& row = rows_[object];
  row.claimed = true;
  holds_.at(object).owner = owner;
  for (const NodeId node : std::exchange(row.unconfirmed, {})) {
    context_.peers.send(node, NodeHoldReply{object, true});
  }
  if (!row.claim_by) return;
  row.claim_by.reset();
  holds_.unpin(object);
}

// Beyond its limit of holds, the owner cannot keep the object, which then counts as released.
void HomeDirectory::claim_sealed(ObjectId object, ProcessId owner) {
  claim(object, owner);
  if (released_by_owner(object) || !context_.processes.attached(owner)) return;
  if (!context_.table.hold(owner, object)) owner_holds(object, false);
}

void HomeDirectory::claim_expired(ObjectId object, Time at) {
  const Row* row = rows_.find(object);
  if (row == nullptr || row->claim_by != at) return;
  give_up(object, failure(ErrorCode::unavailable,
                          fmt::format("object {} is not known on its home node {} (any more)",
                                      object.brief(), context_.self.brief())));
}

void HomeDirectory::exported(ObjectId object, bool is_tensor, ObjectId stream) {
  Row& row = rows_[object];
  row.exported = true;
  row.is_tensor = is_tensor;
  row.stream = stream;
  row.owner_released = false;
}

void HomeDirectory::owner_holds(ObjectId object, bool holds) {
  rows_[object].owner_released = !holds;
}

void HomeDirectory::give_up(ObjectId object, const Failure& why) {
  HeldObject* held = holds_.find(object);
  // Pinned, because only the failure may hold it.
  if (held == nullptr || !holds_.pin(object)) return;
  held->failure = why;
  port_.failed(object, why);
  reply_to_waiters(object);
  Row& row = rows_[object];
  for (const NodeId node : std::exchange(row.unconfirmed, {})) {
    context_.peers.send(node, NodeHoldReply{object, row.claimed});
    if (!row.claimed) holds_.apply(context_.table.release_node(node, object));
  }
  if (std::exchange(row.claim_by, std::nullopt)) holds_.unpin(object);
  holds_.unpin(object);
}

void HomeDirectory::nothing_left(ObjectId object, const std::string& cause) {
  HeldObject& held = holds_.at(object);
  const bool owner_knows =
      is_exported(object) || context_.table.find(object)->processes.contains(held.owner);
  if (context_.processes.attached(held.owner) && owner_knows) {
    held.contained.clear();
    context_.processes.send(held.owner, ObjectGone{object, cause});
    return;
  }
  give_up(object, failure(ErrorCode::unavailable,
                          fmt::format("object {} is lost: {}, and its owner has exited",
                                      object.brief(), cause)));
}

// ---- holds of nodes -----------------------------------------------------------------------------

void HomeDirectory::on(NodeId node, const NodeHoldRequest& message) {
  const HeldObject& held = placeholder(message.object);
  const bool is_claimed = claimed(message.object);
  const bool unknown = !holds_.at_home(held) || (!is_claimed && held.failure);
  if (unknown) return context_.peers.send(node, NodeHoldReply{message.object, false});
  MOBULA_CHECK(context_.table.hold_node(node, message.object).ok(), "an entry without a row");
  if (is_claimed) return context_.peers.send(node, NodeHoldReply{message.object, true});
  rows_[message.object].unconfirmed.insert(node);
  await_claim(message.object);
}

// From a holder to the home, or from the home to a node that stores the bytes for it.
void HomeDirectory::on(NodeId node, const NodeRelease& message) {
  const ObjectId object = message.object;
  bool had_bytes = false;
  if (Row* row = rows_.find(object)) {
    had_bytes =
        holds_.at_home(holds_.at(object)) && erase_location(object, *row, node, Location::replica);
    row->waiters.erase(node);
    row->unconfirmed.erase(node);
  }
  holds_.apply(context_.table.release_node(node, object));
  holds_.settle(object);
  // Other holders may remain, and the node that released the object may have had the last bytes.
  if (had_bytes)
    location_removed(object, fmt::format("node {} released the last copy", node.brief()));
}

void HomeDirectory::on(NodeId node, const ObjectStatusRequest& message) {
  const ObjectId object = message.object;
  // A node that requests the bytes does not have them, whatever the list of locations states.
  if (const HeldObject* known = holds_.find(object); known != nullptr && holds_.at_home(*known)) {
    remove_location(object, node, Location::any,
                    fmt::format("node {} does not have its copy any more", node.brief()));
  }
  const HeldObject& held = placeholder(object);
  const bool at_home = holds_.at_home(held);
  const bool ready =
      context_.here(object) || (at_home && (held.failure || has_bytes_somewhere(object)));
  if (ready) {
    ObjectStatusReply status = status_for(node, object, message.unread);
    if (!status.locations.empty() || status.failure || !at_home)
      return context_.peers.send(node, std::move(status));
    // The requester reads from none of the locations. This node reads from them instead, or finds
    // out that the bytes are lost.
    mark_home_relayed.hit();
    rows_[object].waiters.insert(node);
    return port_.relay(object);
  }
  if (at_home && !is_tensor(object)) {
    rows_[object].waiters.insert(node);
    return await_claim(object);
  }
  ObjectStatusReply status;
  status.object = object;
  status.failure = is_tensor(object) ? tensor_not_here()
                                     : failure(ErrorCode::not_found,
                                               fmt::format("node {} has no copy of object {}",
                                                           context_.self.brief(), object.brief()));
  context_.peers.send(node, std::move(status));
}

// Each requester gets another order of the locations, so that not all begin with one node.
// Nodes in `unread` are left out: the requester failed to read from them.
ObjectStatusReply HomeDirectory::status_for(NodeId requester, ObjectId object,
                                            const std::vector<NodeId>& unread) {
  const HeldObject& held = holds_.at(object);
  Row& row = rows_[object];
  ObjectStatusReply status;
  status.object = object;
  status.size_bytes = static_cast<std::int64_t>(held.size_bytes);
  status.is_error = held.is_error;
  status.contained = held.contained;
  if (context_.here(object)) status.locations.push_back(context_.self);
  for (const auto* nodes : {&row.kept_results, &row.replicas})
    status.locations.insert(status.locations.end(), nodes->begin(), nodes->end());
  std::erase(status.locations, requester);
  std::erase_if(status.locations, [&](NodeId node) {
    return node != context_.self && std::ranges::find(unread, node) != unread.end();
  });
  if (status.locations.empty()) {
    status.failure = held.failure;
    return status;
  }
  const std::uint64_t first = row.replies++ % status.locations.size();
  std::rotate(status.locations.begin(),
              status.locations.begin() + static_cast<std::ptrdiff_t>(first),
              status.locations.end());
  if (!holds_.at_home(held)) return status;
  std::erase(row.fetchers, requester);
  for (auto at = row.fetchers.rbegin(); at != row.fetchers.rend(); ++at) {
    if (status.fetching.size() < max_reported_fetchers) status.fetching.push_back(*at);
  }
  if (row.fetchers.size() >= max_fetchers) row.fetchers.erase(row.fetchers.begin());
  row.fetchers.push_back(requester);
  return status;
}

void HomeDirectory::reply_to_waiters(ObjectId object) {
  Row* row = rows_.find(object);
  if (row == nullptr) return;
  for (const NodeId node : std::exchange(row->waiters, {})) {
    context_.peers.send(node, status_for(node, object));
  }
}

// Only from a node with its own hold, because such a node also reports the end of its replica.
void HomeDirectory::on(NodeId node, const ReplicaAdded& message) {
  const HeldObject* held = holds_.find(message.object);
  if (held == nullptr || !holds_.at_home(*held)) return;
  Row& row = rows_[message.object];
  std::erase(row.fetchers, node);
  const bool holds = context_.table.find(message.object)->nodes.contains(node);
  if (!holds || row.kept_results.contains(node)) return;
  if (row.replicas.insert(node).second) added(message.object);
}

// ---- results that other nodes store for owners here ---------------------------------------------

void HomeDirectory::on(NodeId node, const StoreResultRequest& message) {
  const ObjectId object = message.object;
  const HeldObject* known = holds_.find(object);
  const Row* known_row = rows_.find(object);
  bool wanted = !context_.here(object);
  if (wanted && (known_row == nullptr || !known_row->owner_released)) {
    // Results of a dead owner are not kept, unless other holders requested them before.
    const bool owner_holds = context_.processes.attached(message.owner) &&
                             context_.table.hold(message.owner, object).ok();
    wanted = owner_holds || (claimed(object) && !known->failure);
  }
  if (!wanted) return context_.peers.send(node, StoreResultReply{object, false});
  HeldObject& held = holds_.add(object);
  holds_.pin(object);
  held.home = context_.self;
  held.size_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(message.size_bytes, 0));
  held.is_error = message.is_error;
  held.contained = message.contained;
  held.failure.reset();
  port_.end_search(object);
  rows_[object].kept_results.insert(node);
  claim(object, message.owner);
  context_.peers.send(node, StoreResultReply{object, true});
  added(object);
  holds_.unpin(object);
}

// ---- locations ----------------------------------------------------------------------------------

void HomeDirectory::on(NodeId node, const ReplicaLost& message) {
  const HeldObject* held = holds_.find(message.object);
  if (held == nullptr || !holds_.at_home(*held)) return;
  remove_location(message.object, node, Location::any, message.cause);
}

void HomeDirectory::add_replicas(ObjectId object, const std::vector<NodeId>& nodes) {
  rows_[object].replicas.insert(nodes.begin(), nodes.end());
  added(object);
}

// Readers of this node and of other nodes may wait for it.
void HomeDirectory::added(ObjectId object) {
  reply_to_waiters(object);
  port_.location_added(object);
}

void HomeDirectory::remove_location(ObjectId object, NodeId node, Location which,
                                    const std::string& cause) {
  Row* row = rows_.find(object);
  if (row != nullptr && erase_location(object, *row, node, which)) location_removed(object, cause);
}

// True if the node was a location.
bool HomeDirectory::erase_location(ObjectId object, Row& row, NodeId node, Location which) {
  std::erase(row.fetchers, node);
  const bool replica = which != Location::kept_result && row.replicas.erase(node) > 0;
  const bool kept = which != Location::replica && row.kept_results.erase(node) > 0;
  if (kept) context_.peers.send(node, NodeRelease{object});
  return replica || kept;
}

void HomeDirectory::location_removed(ObjectId object, const std::string& cause) {
  const HeldObject* held = holds_.find(object);
  if (held == nullptr || !holds_.at_home(*held) || !claimed(object) || held->failure) return;
  has_bytes_somewhere(object) ? port_.location_left(object)
                              : port_.last_location_removed(object, cause);
}

void HomeDirectory::remove_all_locations(ObjectId object, const std::string& cause) {
  if (Row* row = rows_.find(object)) {
    for (const NodeId node : std::exchange(row->kept_results, {}))
      context_.peers.send(node, NodeRelease{object});
    row->replicas.clear();
    row->fetchers.clear();
  }
  location_removed(object, cause);
}

void HomeDirectory::node_died(NodeId node) {
  for (auto& [object, row] : rows_) {
    erase_location(object, row, node, Location::any);
    row.waiters.erase(node);
    row.unconfirmed.erase(node);
  }
}

void HomeDirectory::erase(ObjectId object, const HeldObject& last) {
  Row* row = rows_.find(object);
  if (row == nullptr) return;
  if (holds_.at_home(last)) {
    for (const NodeId node : row->kept_results) context_.peers.send(node, NodeRelease{object});
    for (const NodeId node : row->unconfirmed)
      context_.peers.send(node, NodeHoldReply{object, false});
    for (const NodeId node : row->waiters) {
      ObjectStatusReply status;
      status.object = object;
      status.failure =
          failure(ErrorCode::unavailable,
                  fmt::format("object {} was released by all its holders", object.brief()));
      context_.peers.send(node, std::move(status));
    }
    if (row->exported) context_.processes.send(last.owner, ExportReleased{object});
  }
  rows_.erase(object);
}

}  // namespace mobula::internal::worker
