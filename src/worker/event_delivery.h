// The way of events from a thread of its own (bulk transfers, the disk) to the agent's loop.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "transport/event_loop.h"
#include "worker/core/worker_event.h"

namespace mobula::internal::worker {

// Empties what it takes; false, and they stay, while the loop's mailbox is full.
using DeliverEvents = std::function<bool(std::vector<Event>&)>;

// Tells the events on the thread of `loop`, in order, as long as `alive` is true; that one changes on
// that thread only.
DeliverEvents deliver_on(EventLoop& loop, std::function<void(Event)> tell, std::shared_ptr<const bool> alive);

}  // namespace mobula::internal::worker
