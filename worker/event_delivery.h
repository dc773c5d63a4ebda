// Delivers events from other threads (bulk transfers, the disk) to the agent's loop.
// Thread: any.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "transport/loop/event_loop.h"
#include "worker/core/worker_events.h"

namespace mobula::internal::worker {

// Takes all events and empties the vector. Returns false and leaves the vector unchanged if the
// loop's mailbox is full.
using DeliverEvents = std::function<bool(std::vector<Event>&)>;

// Calls `tell` with the events on the thread of `loop`, in order, while `alive` is true. Only that
// thread changes `alive`.
DeliverEvents deliver_on(EventLoop& loop, std::function<void(Event)> tell,
                         std::shared_ptr<const bool> alive);

}  // namespace mobula::internal::worker
