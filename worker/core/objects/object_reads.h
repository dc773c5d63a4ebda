// Readers of this node that wait for objects, and the search for the bytes: queries to homes and to
// the head, pulls, and restores. One step is in progress per object.
// Thread: owner (Objects). Errors: every read ends with bytes or with a failure and its cause.
// Not: chunks of a pull (Transfers).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/containers/table.h"
#include "worker/core/objects/home_directory.h"
#include "worker/core/objects/object_context.h"
#include "worker/core/objects/object_holds.h"
#include "worker/core/objects/object_spill.h"
#include "worker/core/objects/store_memory.h"

namespace mobula::internal::worker {

class ObjectReads {
 public:
  // Effects on the components above.
  class Port {
   public:
    // The bytes of the object are sealed here.
    virtual void sealed(ObjectId object) = 0;
    // True if this node copies the object off drained nodes: it pulls without a reader.
    virtual bool must_save(ObjectId object) const = 0;
    virtual bool is_saving(ObjectId object) const = 0;

   protected:
    ~Port() = default;
  };

  ObjectReads(ObjectContext& context, ObjectHolds& holds, ObjectSpill& spill, StoreMemory& memory,
              HomeDirectory& directory, Port& port)
      : context_(context),
        holds_(holds),
        spill_(spill),
        memory_(memory),
        directory_(directory),
        port_(port) {}

  // ---- readers ----------------------------------------------------------------------------------
  // `held`: the row after the hold of the process; null if the hold was rejected, with the reason.
  void fetch(ProcessId process, const FetchObjectRequest& message, HeldObject* held, Failure why);
  void cancel_fetch(ProcessId process, ObjectId object);
  void forget_reader(ProcessId process, ObjectId object);
  void fail_readers(ObjectId object, const Failure& why);
  void answer_readers(ObjectId object);

  // ---- search -----------------------------------------------------------------------------------
  // Takes the next step to obtain the bytes, unless one is in progress.
  void seek(ObjectId object);
  // The same if a local reader waits.
  void seek_for_readers(ObjectId object);
  void on(NodeId node, const ObjectStatusReply& message);
  void on(const LocateObjectReply& message);
  void locate_expired(ObjectId object, Time at);
  // The home knows no location any more.
  void last_location_removed(ObjectId object, const std::string& cause);
  void home_died(ObjectId object, const std::string& cause);
  void locate(ObjectId object);
  // The node owes a reply: queries the next one.
  void node_died(NodeId node, const std::vector<ObjectId>& requested);
  void forget_candidate(NodeId node);
  void end_query(ObjectId object);  // to the head
  void found(ObjectId object);      // ends the search

  // ---- pulls ------------------------------------------------------------------------------------
  // The pull's turn: reserves memory for it, or waits for memory.
  void on(const transfer::BeginPull& begin);
  void on(const transfer::PullDone& done);
  void cancel_pull(ObjectId object);
  // No reader needs the pull, if one is in progress.
  void release_pull(ObjectId object);
  void allocated(ObjectId object, const ObjectLocation& location);
  // Returns false without a pull.
  bool refuse_pull(ObjectId object, const Failure& why);
  // Ends a pull or a restore that waited for memory.
  void abandon(ObjectId object, const Failure& why);

  void process_ended(ProcessId process);
  void erase(ObjectId object);

  transfer::PullId pull_of(ObjectId object) const;  // 0: none
  bool has_readers(ObjectId object) const;
  bool queries_head(ObjectId object) const;
  bool queries(ObjectId object, NodeId node) const;  // for its locations

 private:
  struct Row {
    std::map<ProcessId, std::uint64_t> readers{};  // their fetch numbers
    transfer::PullId pull = 0;
    bool argument = false;             // a call waits for it
    int tries = 0;                     // failed pulls in a row
    std::vector<NodeId> sources{};     // holders and fetching nodes, as last reported
    std::vector<NodeId> unread{};      // sources of the last pull, if that pull failed
    NodeId requested{};                // node that owes an ObjectStatusReply
    std::optional<Time> locate_by{};   // deadline of the head's reply with replica locations
    std::string lost_cause{};          // cause of the loss
    std::vector<NodeId> candidates{};  // nodes named by the head, queried in turn
  };
  static constexpr int max_tries = 3;

  void answer_readable(ProcessId process, ObjectId object, std::uint64_t fetch);
  void seek_at(ObjectId object, NodeId node);
  void request_status(ObjectId object, NodeId node);
  void query_candidate(ObjectId object);
  void begin_pull(ObjectId object);
  void pull_failed(ObjectId object, const Failure& why);

  ObjectContext& context_;
  ObjectHolds& holds_;
  ObjectSpill& spill_;
  StoreMemory& memory_;
  HomeDirectory& directory_;
  Port& port_;
  Table<ObjectId, Row> rows_;  // objects that were sought
};

}  // namespace mobula::internal::worker
