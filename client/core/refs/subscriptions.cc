#include "client/core/refs/subscriptions.h"

#include <algorithm>
#include <utility>

#include "base/coverage_mark.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_reported_at_once("client.subscription_to_a_ready_object");
const CoverageMark mark_fetched("client.subscription_fetches_the_object");

// Places that stay allocated without subscriptions.
constexpr std::size_t most_spares = 4096;

}  // namespace

void Subscriptions::on(const SubscribeObject& event) {
  const ObjectRow* row = objects_.retain(event.object);
  const Watcher watcher{event.sink,        event.token, no_watcher,
                        event.fetch_local, event.held,  /*wanted=*/false};
  if (is_due(row, watcher)) {
    mark_reported_at_once.hit();
    return report(event.object, watcher);
  }
  const bool is_pending = row->owned && !row->ready;
  add(*objects_.watchers(event.object), watcher);
  if (!is_pending) update(event.object);
}

void Subscriptions::on(const UnsubscribeObject& event) {
  WatcherIndex* const first = objects_.watchers(event.object);
  if (first == nullptr || *first == no_watcher) return;
  const auto stays = [&](const Watcher& each) {
    return each.sink != event.sink || (!event.all && each.token != event.token);
  };
  Watchers watchers = take_all(*first);
  const auto ended = std::stable_partition(watchers.begin(), watchers.end(), stays);
  std::for_each(watchers.begin(), ended, [&](const Watcher& each) { add(*first, each); });
  std::for_each(ended, watchers.end(), [&](const Watcher& each) { release(event.object, each); });
}

// Appends to the subscriptions of the object.
void Subscriptions::add(WatcherIndex& first, const Watcher& watcher) {
  WatcherIndex index = free_;
  if (index != no_watcher) {
    free_ = at(index).next;
  } else {
    index = static_cast<WatcherIndex>(watchers_.size());
    watchers_.emplace_back();
  }
  at(index) = watcher;
  at(index).next = no_watcher;
  WatcherIndex* last = &first;
  while (*last != no_watcher) last = &at(*last).next;
  *last = index;
  ++count_;
}

void Subscriptions::free(WatcherIndex index) {
  at(index).next = std::exchange(free_, index);
  if (--count_ > 0) return;
  // The next subscriptions have places in their order again.
  free_ = no_watcher;
  watchers_.clear();
  if (watchers_.capacity() > most_spares) watchers_.shrink_to_fit();
}

Subscriptions::Watchers Subscriptions::take_all(WatcherIndex& first) {
  Watchers taken;
  for (WatcherIndex index = std::exchange(first, no_watcher); index != no_watcher;) {
    taken.push_back(at(index));
    free(std::exchange(index, taken.back().next));
  }
  return taken;
}

void Subscriptions::report_changed(const std::vector<Command>& commands, std::size_t first) {
  if (empty()) return;
  // A report may append commands.
  for (std::size_t i = first; i < commands.size(); ++i) {
    const auto* changed = std::get_if<ObjectChanged>(&commands[i]);
    if (changed != nullptr) update(ObjectId(changed->object));
  }
}

// As `wait` decides. A held subscription also requires bytes that a reader need not fetch.
bool Subscriptions::is_due(const ObjectRow* row, const Watcher& watcher) const {
  if (row == nullptr || ObjectRefs::is_settled(*row)) return true;
  if (!row->ready || watcher.held) return false;
  if (!watcher.fetch_local && row->owned) return true;
  return row->value->location == step_.node();
}

// The owner learns of a result without a fetch. Any other process has to request it.
bool Subscriptions::needs_fetch(const ObjectRow* row, const Watcher& watcher) {
  return row != nullptr && (!row->owned || (watcher.fetch_local && row->ready));
}

void Subscriptions::update(ObjectId object) {
  WatcherIndex* const first = objects_.watchers(object);
  if (first == nullptr || *first == no_watcher) return;
  Watcher& watcher = at(*first);
  if (watcher.next != no_watcher) return update_all(object, *first);
  if (!is_due(objects_.object(object), watcher)) return want(object, watcher);
  const Watcher due = watcher;
  free(std::exchange(*first, no_watcher));
  report(object, due);
}

void Subscriptions::update_all(ObjectId object, WatcherIndex& first) {
  Watchers watchers = take_all(first);
  const ObjectRow* row = objects_.object(object);
  const auto waits = [&](const Watcher& each) { return !is_due(row, each); };
  const auto due = std::stable_partition(watchers.begin(), watchers.end(), waits);
  std::for_each(watchers.begin(), due, [&](Watcher& each) { want(object, each); });
  std::for_each(watchers.begin(), due, [&](const Watcher& each) { add(first, each); });
  std::for_each(due, watchers.end(), [&](const Watcher& each) { report(object, each); });
}

void Subscriptions::want(ObjectId object, Watcher& watcher) {
  if (watcher.wanted || !needs_fetch(objects_.object(object), watcher)) return;
  mark_fetched.hit();
  watcher.wanted = true;
  objects_.on(WantObject{object});
}

void Subscriptions::report(ObjectId object, Watcher watcher) {
  step_.emit(ObjectReported{watcher.sink, watcher.token, object, watcher.held});
  if (!watcher.held) return release(object, watcher);
  if (!watcher.wanted) objects_.on(WantObject{object});
}

void Subscriptions::release(ObjectId object, const Watcher& watcher) {
  if (watcher.wanted) objects_.on(UnwantObject{object});
  objects_.on(ReleaseRef{object});
}

}  // namespace mobula::internal::client
