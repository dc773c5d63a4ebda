// Objects that processes of this node, other nodes, or the agent hold, with their owners and homes.
// A row exists exactly as long as the row of the store's table. A node takes one hold at the home,
// for all its processes. While the bytes of an object are here, the agent holds the objects of the
// refs in them.
// Thread: owner (Objects). Units: bytes. Not: locations, readers, memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/containers/table.h"
#include "base/model/task.h"
#include "base/result.h"
#include "worker/core/objects/object_context.h"

namespace mobula::internal::worker {

enum class NodeHoldState : unsigned char { none, requested, confirmed };

struct HeldObject {
  NodeId home{};
  ProcessId owner{};
  std::uint64_t size_bytes = 0;
  bool is_error = false;
  RefRecords contained{};
  std::vector<ObjectId> pinned{};    // refs in `contained` that are held while the bytes are here
  std::optional<Failure> failure{};  // recorded failure: the object will not arrive
  int pins = 0;                      // holds of the agent: contained refs, pulls, reads by peers
  // With a pin: the process that stated the owner, or passed on a ref, has died. Registrations of
  // new holders may still arrive until then.
  std::optional<Time> orphan_until{};
  bool writer_borrows = false;  // the writer also holds the object as a borrower

  // Away from home.
  NodeHoldState node_hold = NodeHoldState::none;
  std::set<ProcessId> hold_waiters{};
};

class ObjectHolds {
 public:
  // Effects on the components above.
  class Port {
   public:
    // The last hold has ended. `last` was the row.
    virtual void erased(ObjectId object, const HeldObject& last) = 0;
    virtual void memory_freed(const SlabChanges& slabs, bool objects_erased) = 0;
    // The writer left the object unsealed.
    virtual void interrupted(ObjectId object) = 0;
    // One pin of the agent holds the object, and no other process of this node.
    virtual void only_pinned(ObjectId object) = 0;
    // A ref to an object with its home here has arrived.
    virtual void ref_arrived(ObjectId object) = 0;

   protected:
    ~Port() = default;
  };
  using Rows = Table<ObjectId, HeldObject>;

  ObjectHolds(ObjectContext& context, Port& port) : context_(context), port_(port) {}

  // The object must have a row in the store's table.
  HeldObject& add(ObjectId object) { return rows_[object]; }
  // Records the home and the owner that the ref states, unless they are known.
  void learn(HeldObject& held, const RefRecord& ref) const;

  // ---- holds of the agent -----------------------------------------------------------------------
  bool pin(ObjectId object);
  void unpin(ObjectId object);
  void pin_contained(ObjectId object);
  // Pins the object for `span`, for holders that are not registered yet.
  void keep_for(ObjectId object, Duration span);
  void orphan_expired(ObjectId object, Time at);

  // ---- holds of this node at the home -----------------------------------------------------------
  void request_node_hold(ObjectId object, HeldObject& held);
  // Returns true if the message settles the hold of a row.
  bool on(const NodeHoldReply& message);
  void confirm_waiters(ObjectId object);
  void node_died(NodeId node);

  // ---- ends of holds ----------------------------------------------------------------------------
  void apply(Consequences consequences);
  // After the end of a hold: releases the hold of the node if no process needs it.
  void settle(ObjectId object);
  void process_ended(ProcessId process);

  HeldObject* find(ObjectId object) { return rows_.find(object); }
  const HeldObject* find(ObjectId object) const { return rows_.find(object); }
  HeldObject& at(ObjectId object) { return rows_.at(object); }
  const HeldObject& at(ObjectId object) const { return rows_.at(object); }
  const Rows& all() const { return rows_; }
  bool at_home(const HeldObject& held) const { return held.home == context_.self; }
  std::size_t pins() const;

 private:
  struct RequestedHolds {
    NodeId home;
    int count = 0;  // NodeHoldRequest requests without a reply
  };

  void erase(ObjectId object);
  void drain_unpins();

  ObjectContext& context_;
  Port& port_;
  Rows rows_;
  std::map<ObjectId, RequestedHolds> holds_requested_;  // includes objects whose rows are erased
  std::vector<ObjectId> unpins_;                        // pending; a queue prevents recursion
  bool draining_ = false;
};

}  // namespace mobula::internal::worker
