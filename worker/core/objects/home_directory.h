// Directory of the objects whose home is this node: claims of owners, holds of nodes, the nodes
// that store the bytes, and the nodes that wait for a location. A location is either a replica,
// under the own hold of its node, or a result that a node keeps until the home releases it.
// Thread: owner (Objects). Errors: a lost object is recomputed by its owner, or fails for all.
// Not: bytes and readers of this node.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/containers/table.h"
#include "worker/core/objects/object_context.h"
#include "worker/core/objects/object_holds.h"

namespace mobula::internal::worker {

// Kinds of locations.
enum class Location : unsigned char { replica, kept_result, any };

class HomeDirectory {
 public:
  // Effects on the components above.
  class Port {
   public:
    // Bytes are available on a node, for readers here.
    virtual void location_added(ObjectId object) = 0;
    // A location was removed, and others remain.
    virtual void location_left(ObjectId object) = 0;
    // No known location remains. Holders may have unreported replicas.
    virtual void last_location_removed(ObjectId object, const std::string& cause) = 0;
    // Bytes were found: a query to the head is void.
    virtual void end_search(ObjectId object) = 0;
    // A node waits for bytes that it reads from no location: this node must read them.
    virtual void relay(ObjectId object) = 0;
    // Ends all reads here.
    virtual void failed(ObjectId object, const Failure& why) = 0;

   protected:
    ~Port() = default;
  };

  HomeDirectory(ObjectContext& context, ObjectHolds& holds, Port& port)
      : context_(context), holds_(holds), port_(port) {}

  // ---- owners -----------------------------------------------------------------------------------
  void claim(ObjectId object, ProcessId owner);
  // The bytes were sealed here for an owner of this node, which then holds them.
  void claim_sealed(ObjectId object, ProcessId owner);
  // A ref may arrive before the owner's claim of its object: pins the object and waits for it.
  void await_claim(ObjectId object);
  void claim_expired(ObjectId object, Time at);
  // `stream`: the object is a position of this stream, which has a window.
  void exported(ObjectId object, bool is_tensor, ObjectId stream);
  void owner_holds(ObjectId object, bool holds);
  // Records a final failure. Present and later readers receive it.
  void give_up(ObjectId object, const Failure& why);
  // No node has the bytes: a living owner recomputes them, or seals an error instead.
  void nothing_left(ObjectId object, const std::string& cause);

  // ---- other nodes ------------------------------------------------------------------------------
  void on(NodeId node, const NodeHoldRequest& message);
  void on(NodeId node, const NodeRelease& message);
  void on(NodeId node, const ObjectStatusRequest& message);
  void on(NodeId node, const ReplicaAdded& message);
  void on(NodeId node, const ReplicaLost& message);
  void on(NodeId node, const StoreResultRequest& message);
  void reply_to_waiters(ObjectId object);

  // ---- locations --------------------------------------------------------------------------------
  void add_replicas(ObjectId object, const std::vector<NodeId>& nodes);
  // The only function with which the home removes a location from its list: after a release, a
  // loss, a death, a failed pull or a drain. Removing the last location notifies the owner.
  void remove_location(ObjectId object, NodeId node, Location which, const std::string& cause);
  void remove_all_locations(ObjectId object, const std::string& cause);
  // A location was removed, of this or another node. The owner is notified after the last one.
  void location_removed(ObjectId object, const std::string& cause);
  // Erases the node from all rows. `location_removed` must follow for each object with a location
  // there.
  void node_died(NodeId node);
  // The last hold of the object has ended.
  void erase(ObjectId object, const HeldObject& last);

  bool claimed(ObjectId object) const;
  bool is_tensor(ObjectId object) const;
  bool is_exported(ObjectId object) const;
  ObjectId stream_of(ObjectId object) const;
  // The owner has released the exported object, which others still hold.
  bool released_by_owner(ObjectId object) const;
  bool has_waiters(ObjectId object) const;
  bool has_location(ObjectId object, NodeId node) const;
  bool keeps_result(ObjectId object, NodeId node) const;
  bool has_kept_results(ObjectId object) const;
  bool has_bytes_somewhere(ObjectId object) const;
  std::vector<NodeId> locations(ObjectId object) const;     // without this node
  std::vector<NodeId> kept_results(ObjectId object) const;  // nodes
  std::vector<NodeId> replicas(ObjectId object) const;      // nodes
  Failure tensor_not_here() const;

 private:
  struct Row {
    bool claimed = false;            // an owner has claimed the object
    std::optional<Time> claim_by{};  // with a pin: deadline of the claim
    bool exported = false;
    bool is_tensor = false;           // exported: a tensor, which the owner serves
    bool owner_released = false;      // exported: released by its owner, still held
    ObjectId stream{};                // exported: a position of this stream
    std::set<NodeId> kept_results{};  // nodes that store the bytes until the home releases them
    std::set<NodeId> replicas{};      // nodes with a replica under their own hold
    std::set<NodeId> waiters{};       // nodes that wait for the location
    std::vector<NodeId>
        fetchers{};             // nodes without a replica that received the locations, in order
    std::uint64_t replies = 0;  // replies with locations so far
    std::set<NodeId> unconfirmed{};  // nodes whose holds wait for the claim
  };
  static constexpr std::size_t max_fetchers = 16;          // remembered fetching nodes
  static constexpr std::size_t max_reported_fetchers = 2;  // fetching nodes named in a reply

  HeldObject& placeholder(ObjectId object);
  // Records `requester` as a fetching node.
  ObjectStatusReply status_for(NodeId requester, ObjectId object,
                               const std::vector<NodeId>& unread = {});
  bool erase_location(ObjectId object, Row& row, NodeId node, Location which);
  void added(ObjectId object);

  ObjectContext& context_;
  ObjectHolds& holds_;
  Port& port_;
  Table<ObjectId, Row> rows_;
};

}  // namespace mobula::internal::worker
