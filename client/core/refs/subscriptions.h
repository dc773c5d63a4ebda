// Subscriptions of user code to objects. Each is reported once, when its object holds a value or an
// error, and holds one ref of the object until then. The cost of a subscription depends on the
// number of subscriptions to the same object alone.
// Thread: owner (one ClientCore). Not: callbacks and queues (shell).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/block_pool.h"
#include "base/table.h"
#include "client/core/client_events.h"
#include "client/core/refs/object_refs.h"
#include "client/core/step_context.h"

namespace mobula::internal::client {

class Subscriptions {
 public:
  Subscriptions(StepContext& step, ObjectRefs& objects) : step_(step), objects_(objects) {}

  void on(const SubscribeObject& event);
  void on(const UnsubscribeObject& event);
  // Reports subscriptions to objects that changed in this step: objects of the ObjectChanged
  // commands in `commands` from index `first` on.
  void report_changed(const std::vector<Command>& commands, std::size_t first);

  // A report of the object will follow soon.
  void expect(ObjectId object) const { rows_.prefetch(object); }

  bool empty() const { return rows_.empty(); }

 private:
  struct Watcher {
    std::uint64_t sink = 0;
    std::uint64_t token = 0;
    bool fetch_local = true;
    bool held = false;
    bool wanted = false;  // includes one use of the object
  };
  using Watchers = PooledVector<Watcher>;
  // Most objects have one watcher, which needs no memory but the row.
  struct WatchedRow {
    Watcher first;
    Watchers others;
  };

  bool is_due(const ObjectRow* row, const Watcher& watcher) const;
  static bool needs_fetch(const ObjectRow* row, const Watcher& watcher);
  void update(ObjectId object);
  void update_all(ObjectId object, WatchedRow& watched);
  void want(ObjectId object, Watcher& watcher);
  void set(ObjectId object, WatchedRow& watched, Watchers watchers);
  void report(ObjectId object, Watcher watcher);
  void release(ObjectId object, const Watcher& watcher);

  StepContext& step_;
  ObjectRefs& objects_;
  Table<ObjectId, WatchedRow> rows_;
};

}  // namespace mobula::internal::client
