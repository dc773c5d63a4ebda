// Objects that this process owns, pins, or has refs to: counts of refs, holds at their homes,
// values on their way into the store, fetched bytes, and losses.
// Thread: owner (one ClientCore).
// Not: tasks that make objects; the store (agent); mappings of memory (shell).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/containers/block_table.h"
#include "base/containers/table.h"
#include "base/containers/work_list.h"
#include "client/core/calls/dispatch/compact_queue.h"
#include "client/core/calls/streams/call_streams.h"
#include "client/core/calls/task_end_log.h"
#include "client/core/client_events.h"
#include "client/core/refs/deferred_holds.h"
#include "client/core/refs/object_row.h"
#include "client/core/refs/stream_reads.h"
#include "client/core/step_context.h"

namespace mobula::internal::client {

enum class StreamUse : std::uint8_t {
  taken,      // a consumer in this process took the item of the position
  passed_on,  // the position left this process, so other processes may read the stream
  released,   // user code has no ref to the position any more
};

class ObjectRefs {
 public:
  // Effects on the tasks and actors of this process.
  class Port {
   public:
    // The object became ready, or is not doubted any more.
    virtual void argument_ready(ObjectId object) = 0;
    virtual const TaskRow* find_task(TaskId task) const = 0;
    virtual bool can_run_again(const TaskRow& finished) const = 0;
    virtual void run_again(TaskId finished) = 0;
    // The row of a result of this task, if it is a task, is erased.
    virtual void result_dropped(TaskId creator) = 0;
    // Use of a position of a stream of this process.
    virtual void stream_used(TaskId creator, ObjectId position, StreamUse use) = 0;
    // The first ref to handles of another process's actor, and the last ref to handles of any.
    virtual void watch_actor(ActorId actor) = 0;
    virtual void forget_actor(ActorId actor) = 0;
    // Results of compact tasks have no rows until `expand_result`.
    virtual CompactQueue& compact() = 0;
    virtual const CompactQueue& compact() const = 0;
    virtual void expand_result(ObjectId object) = 0;

   protected:
    ~Port() = default;
  };
  using Rows = BlockTable<ObjectId, ObjectRow>;

  ObjectRefs(StepContext& step, TaskEndLog& ends, CallStreams& streams, Port& port)
      : step_(step), ends_(ends), streams_(streams), port_(port) {}

  // ---- user code and running calls
  // ----------------------------------------------------------------
  void on(PutInline& event);
  void on(const KeepTensor& event);
  void on(const ReserveSpace& event);
  void on(const AbandonWrite& event);
  void on(const ValueWritten& event);
  void on(const ValueUnreadable& event);
  void on(const RetainRef& event);
  void on(const ReleaseRef& event);
  void on(const AdoptRef& event);
  void on(const TakeItem& event);
  void on(const ItemRead& event);
  void on(const WantObject& event);
  void on(const UnwantObject& event);
  void on(const ErrorRead& event);
  void on(const PinRefs& event);
  void on(const UnpinRefs& event);
  void on(const BorrowRefs& event);
  void on(const EndBorrow& event);
  // See ClientCore.
  bool retain_quietly(ObjectId object);
  bool release_quietly(ObjectId object);
  bool want_quietly(ObjectId object);
  bool unwant_quietly(ObjectId object);

  // ---- the agent and other processes
  // --------------------------------------------------------------
  void on(const ReserveObjectReply& message);
  void on(const SealObjectReply& message);
  void on(const HoldObjectReply& message);
  void on(const FetchObjectReply& message);
  void on(const UnpinRequest& message);
  void on(const ExportReleased& message);
  void on(const ObjectGone& message);
  // The agent of the node was replaced, with an empty store.
  void lose_store();
  // The job ended: no process can request its objects.
  void unshare();
  // Processes died that may hold borrowed refs for this one.
  void lenders_died();
  // An executor died that borrowed these arguments.
  void keep_lent(const Arguments& arguments);
  // Between these calls, refs adopted from replies of this actor are held late.
  void begin_reply(ProcessId actor) { replying_actor_ = actor; }
  void end_reply() { replying_actor_ = {}; }
  // A reply, or an item, with these refs is complete: its executor may release them when they are
  // held here.
  void hold_contents(UnclaimedReplies::Reply reply, const RefRecords& refs);

  // ---- tasks
  // -------------------------------------------------------------------------------------- Adds a
  // ref to an object that this process owns, and the object if it is new.
  ObjectRow& own(ObjectId object, TaskId creator);
  void complete(ObjectId object, ValueRecord value);
  void fail(ObjectId object, ErrorRecord error);
  void pin(const RefRecord& ref);
  void unpin(ObjectId object);
  // A ref leaves for another process, which relies on the home from now on.
  void escape(ObjectId object, bool by_position = false);
  // The owner's agent of a read stream accepts reports.
  void set_readers_accepted(bool accepted) { reads_.set_accepted(accepted); }
  void restate_reads() { reads_.restate(); }
  void escape_contained(const ValueRecord& value);
  void hold_now(ObjectId object);
  void fetch(ObjectId object, ObjectRow& row, bool argument = false);
  // Adds a ref of user code. Returns the object, or null if it is unknown.
  const ObjectRow* retain(ObjectId object);
  // Erases the row of a result that is compact from now on.
  void erase_row(ObjectId object) { rows_.erase(object); }
  void changed(ObjectId object) { step_.emit(ObjectChanged{object}); }

  // ---- time
  // ---------------------------------------------------------------------------------------
  void tick_writes();
  void tick_holds();
  void settle();
  std::optional<Time> next_deadline() const;
  bool deadlines_are_exact() const;  // for tests; walks over all rows

  // ---- queries
  // ------------------------------------------------------------------------------------
  ObjectRow* find(ObjectId object) { return rows_.find(object); }
  const ObjectRow* find(ObjectId object) const { return rows_.find(object); }
  ObjectRow& at(ObjectId object) { return rows_.at(object); }
  const ObjectRow& at(ObjectId object) const { return rows_.at(object); }
  // The place of its first subscription. Null: the object is unknown.
  WatcherIndex* watchers(ObjectId object);
  ObjectRow* find_expanded(ObjectId object);  // expands the row if needed; null if unknown
  const ObjectRow* object(ObjectId object) const;
  RefRecord ref_of(ObjectId object) const;
  bool settled(ObjectId object) const;
  static bool is_settled(const ObjectRow& row);
  bool is_unread(ObjectId object) const;
  bool refers_to(ObjectId object) const;
  bool holds_unconfirmed(const RefRecords& refs) const;
  bool storing(const RefRecords& refs) const;
  std::vector<ObjectId> held(const RefRecords& refs) const;
  std::vector<ObjectId> passed_on(const RefRecords& refs) const;
  const Rows& all() const { return rows_; }
  std::size_t writes() const { return writes_.size(); }

 private:
  bool is_item_elsewhere(const ObjectRow& row);
  ObjectRow& borrow(const RefRecord& ref);
  bool has_home(const ObjectRow& row) const;
  void ensure_hold(ObjectId object, ObjectRow& row);
  void export_own(ObjectId object, bool by_position = false);
  void complete(ObjectId object, ObjectRow* row, ValueRecord&& value);
  void drop_if_unused(ObjectId object);
  void drop_if_unused(ObjectId object, ObjectRow& row);
  void drop_one(ObjectId object, ObjectRow* row);
  void erase_object(ObjectId object);
  void return_location(ObjectId object, ObjectRow& row);
  void reconstruct(ObjectId object, const std::string& cause);
  void end_doubt(ObjectId object);

  void store_inline(ObjectId object, ObjectRow& row);
  void store_again(ObjectId object, ObjectRow& row);

  void forget_borrow(ObjectId object, const ObjectRow& row);
  void put_off_hold(ObjectId object, ObjectRow& row);
  void put_off_export(ObjectId object, ObjectRow& row);
  void export_now(ObjectId object, ObjectRow& row);
  void reply_settled(ObjectId object, bool unheld);

  StepContext& step_;
  TaskEndLog& ends_;
  CallStreams& streams_;
  Port& port_;
  Rows rows_;
  StreamReads reads_{step_};
  Table<ObjectId, BorrowRow> borrows_;
  Table<ObjectId, WriteRow> writes_;
  DeferredHolds write_retries_;
  DeferredHolds holds_due_, exports_due_;
  DeferredHolds orphans_due_;  // pins on refs that dead executors had borrowed
  WorkList<ObjectId> drops_;   // objects that may be unused
  ProcessId replying_actor_;   // actor whose reply the running step processes
  std::uint64_t fetches_ = 0;
};

}  // namespace mobula::internal::client
