// Copies of objects on the disk of this node: the file that is being written, objects that are
// being restored, and peers that wait for restored bytes. At most one file is written at a time.
// Thread: owner (Objects). Units: bytes. Not: the choice of objects (StoreMemory); I/O (shell).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/containers/table.h"
#include "store/core/spill_files.h"
#include "worker/core/objects/object_context.h"
#include "worker/core/objects/object_holds.h"

namespace mobula::internal::worker {

class ObjectSpill {
 public:
  // Effects on the components above.
  class Port {
   public:
    // A restored object needs memory: calls `start_restore` or `refuse_restore`, now or later.
    virtual void reserve_restore(const ReserveRequest& request) = 0;
    virtual void write_ended() = 0;
    // The object has a copy on disk.
    virtual void written(ObjectId object) = 0;
    // The object is sealed again.
    virtual void restored(ObjectId object) = 0;
    // No memory, or no read from the disk, for now.
    virtual void restore_failed(ObjectId object, const Failure& why) = 0;
    virtual void lost_on_disk(ObjectId object, const std::string& cause) = 0;
    virtual void offer(NodeId reader, std::uint64_t request, ObjectId object) = 0;
    virtual bool waits_for_memory(ObjectId object) const = 0;

   protected:
    ~Port() = default;
  };

  ObjectSpill(ObjectContext& context, ObjectHolds& holds, Port& port)
      : context_(context), holds_(holds), port_(port) {}

  // Writes the objects that fit into one file; the others may follow.
  void start(const std::vector<ObjectId>& objects);
  void on(const SpillFinished& finished);
  void restore(ObjectId object);
  void start_restore(ObjectId object, const ObjectLocation& location);
  // A peer requests an object that must be restored first.
  void restore_for(NodeId reader, std::uint64_t request, ObjectId object);
  void on(const RestoreFinished& finished);
  void refuse_pullers(ObjectId object, const Failure& why);
  void pull_ended(ObjectId object, NodeId reader, std::uint64_t request);
  void node_died(NodeId node);
  void erase(ObjectId object);
  void shift_deadlines(Duration gap);

  bool can_write() const;
  bool writing() const { return write_.file != 0; }
  bool is_writing(ObjectId object) const;
  Time write_started() const { return write_.started; }
  const std::optional<Failure>& failure_of_write() const { return write_.failure; }
  // Memory that restores need: with a full disk, the store must not be too full for any of them.
  std::uint64_t kept_bytes() const;
  const SpillFiles& files() const { return files_; }
  std::size_t moving() const { return restores_.size() + write_.items.size(); }

 private:
  // The file that is being written.
  struct Write {
    SpillFileId file = 0;  // 0: no write in progress
    std::vector<ObjectId> items{};
    Time started{};
    std::optional<Failure> failure{};  // failure of the last write
    Time again_at{};                   // earliest retry after `failure`
  };
  // An object that is being restored from disk.
  struct Restore {
    ObjectId object{};
    ObjectLocation location;
    bool started = false;
  };
  struct Row {
    SpillFileId file = 0;                                     // file that is being written; 0: none
    std::uint64_t restore = 0;                                // restore in progress; 0: none
    std::vector<std::pair<NodeId, std::uint64_t>> pullers{};  // await the restore: (node, pull)
  };

  void drop(ObjectId object);
  void start_waiting_restores();
  void lost(ObjectId object, const std::string& cause);

  ObjectContext& context_;
  ObjectHolds& holds_;
  Port& port_;
  Table<ObjectId, Row> rows_;  // objects that were written, restored, or requested from disk
  SpillFiles files_;
  Write write_;
  std::map<std::uint64_t, Restore> restores_;
  std::uint64_t last_restore_ = 0;
};

}  // namespace mobula::internal::worker
