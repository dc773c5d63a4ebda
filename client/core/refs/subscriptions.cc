#include "client/core/refs/subscriptions.h"

#include <algorithm>
#include <iterator>

#include "base/coverage_mark.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_reported_at_once("client.subscription_to_a_ready_object");
const CoverageMark mark_fetched("client.subscription_fetches_the_object");

}  // namespace

void Subscriptions::on(const SubscribeObject& event) {
  objects_.on(RetainRef{event.object});
  const Watcher watcher{event.sink, event.token, event.fetch_local, event.held, false};
  if (is_due(event.object, watcher)) {
    mark_reported_at_once.hit();
    return report(event.object, watcher);
  }
  rows_[event.object].push_back(watcher);
  update(event.object);
}

void Subscriptions::on(const UnsubscribeObject& event) {
  auto* watchers = rows_.find(event.object);
  if (watchers == nullptr) return;
  const auto stays = [&](const Watcher& each) {
    return each.sink != event.sink || (!event.all && each.token != event.token);
  };
  const auto removed = std::stable_partition(watchers->begin(), watchers->end(), stays);
  const Watchers ended(removed, watchers->end());
  watchers->erase(removed, watchers->end());
  if (watchers->empty()) rows_.erase(event.object);
  for (const Watcher& each : ended) release(event.object, each);
}

void Subscriptions::report_changed(const std::vector<Command>& commands, std::size_t first) {
  if (rows_.empty()) return;
  // A report may append commands.
  for (std::size_t i = first; i < commands.size(); ++i) {
    const auto* changed = std::get_if<ObjectChanged>(&commands[i]);
    if (changed != nullptr) update(ObjectId(changed->object));
  }
}

// As `wait` decides. A held subscription also requires bytes that a reader need not fetch.
bool Subscriptions::is_due(ObjectId object, const Watcher& watcher) const {
  const ObjectRow* row = objects_.object(object);
  if (row == nullptr || objects_.settled(object)) return true;
  if (!row->ready || watcher.held) return false;
  if (!watcher.fetch_local && row->owned) return true;
  return row->value->location == step_.node();
}

// The owner learns of a result without a fetch. Any other process has to request it.
bool Subscriptions::needs_fetch(ObjectId object, const Watcher& watcher) const {
  const ObjectRow* row = objects_.object(object);
  return row != nullptr && (!row->owned || (watcher.fetch_local && row->ready));
}

void Subscriptions::update(ObjectId object) {
  auto* watchers = rows_.find(object);
  if (watchers == nullptr) return;
  const auto waits = [&](const Watcher& each) { return !is_due(object, each); };
  const auto first_due = std::stable_partition(watchers->begin(), watchers->end(), waits);
  const Watchers due(first_due, watchers->end());
  watchers->erase(first_due, watchers->end());
  bool fetches = false;
  for (Watcher& each : *watchers) {
    if (each.wanted || !needs_fetch(object, each)) continue;
    each.wanted = fetches = true;
    objects_.on(WantObject{object});
  }
  if (fetches) mark_fetched.hit();
  if (watchers->empty()) rows_.erase(object);
  for (const Watcher& each : due) report(object, each);
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
