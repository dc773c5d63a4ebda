#include "worker/event_delivery.h"

#include <utility>

namespace mobula::internal::worker {

DeliverEvents deliver_on(EventLoop& loop, std::function<void(Event)> tell,
                         std::shared_ptr<const bool> alive) {
  // Shared by all posted functions.
  const auto sink = std::make_shared<const std::function<void(Event)>>(std::move(tell));
  return [&loop, sink, alive = std::move(alive)](std::vector<Event>& events) {
    auto taken = std::make_shared<std::vector<Event>>(std::move(events));
    const auto posted = loop.post([taken, sink, alive] {
      for (Event& event : *taken) {
        if (*alive) (*sink)(std::move(event));
      }
    });
    if (posted) {
      events.clear();
    } else {
      events = std::move(*taken);
    }
    return posted.ok();
  };
}

}  // namespace mobula::internal::worker
