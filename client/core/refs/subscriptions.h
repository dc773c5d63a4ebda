// Subscriptions of user code to objects. Each is reported once, when its object holds a value or an
// error, and holds one ref of the object until then. The row of the object refers to its
// subscriptions, so a report searches no table of subscriptions. The cost of a subscription depends
// on the number of subscriptions to the same object alone.
// Thread: owner (one ClientCore). Not: callbacks and queues (shell).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

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

  bool empty() const { return count_ == 0; }

 private:
  struct Watcher {
    std::uint64_t sink = 0;
    std::uint64_t token = 0;
    WatcherIndex next = no_watcher;  // next subscription to the object, or next free one
    bool fetch_local = true;
    bool held = false;
    bool wanted = false;  // includes one use of the object
  };
  using Watchers = std::vector<Watcher>;

  Watcher& at(WatcherIndex index) { return watchers_[index]; }
  void add(WatcherIndex& first, const Watcher& watcher);
  void free(WatcherIndex index);
  Watchers take_all(WatcherIndex& first);
  bool is_due(const ObjectRow* row, const Watcher& watcher) const;
  static bool needs_fetch(const ObjectRow* row, const Watcher& watcher);
  void update(ObjectId object);
  void update_all(ObjectId object, WatcherIndex& first);
  void want(ObjectId object, Watcher& watcher);
  void report(ObjectId object, Watcher watcher);
  void release(ObjectId object, const Watcher& watcher);

  StepContext& step_;
  ObjectRefs& objects_;
  Watchers watchers_;  // rows, and free places
  WatcherIndex free_ = no_watcher;
  std::size_t count_ = 0;
};

}  // namespace mobula::internal::client
