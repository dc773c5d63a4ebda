#include "client/core/refs/subscriptions.h"

#include <algorithm>
#include <utility>

#include "base/coverage_mark.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_reported_at_once("client.subscription_to_a_ready_object");
const CoverageMark mark_fetched("client.subscription_fetches_the_object");

template <class Row>
auto all_of(const Row& watched) {
  auto watchers = watched.others;
  watchers.insert(watchers.begin(), watched.first);
  return watchers;
}

}  // namespace

void Subscriptions::on(const SubscribeObject& event) {
  const ObjectRow* row = objects_.retain(event.object);
  const Watcher watcher{event.sink, event.token, event.fetch_local, event.held, false};
  if (is_due(row, watcher)) {
    mark_reported_at_once.hit();
    return report(event.object, watcher);
  }
  const auto [watched, is_new] = rows_.ensure(event.object);
  (is_new ? watched->first : watched->others.emplace_back()) = watcher;
  const bool is_pending = row->owned && !row->ready;
  if (!is_pending) update(event.object);
}

void Subscriptions::on(const UnsubscribeObject& event) {
  auto* watched = rows_.find(event.object);
  if (watched == nullptr) return;
  const auto stays = [&](const Watcher& each) {
    return each.sink != event.sink || (!event.all && each.token != event.token);
  };
  Watchers watchers = all_of(*watched);
  const auto removed = std::stable_partition(watchers.begin(), watchers.end(), stays);
  const Watchers ended(removed, watchers.end());
  watchers.erase(removed, watchers.end());
  set(event.object, *watched, std::move(watchers));
  for (const Watcher& each : ended) release(event.object, each);
}

// Without watchers, erases the row.
void Subscriptions::set(ObjectId object, WatchedRow& watched, Watchers watchers) {
  if (watchers.empty()) {
    rows_.erase(object);
    return;
  }
  watched.first = watchers.front();
  watchers.erase(watchers.begin());
  watched.others = std::move(watchers);
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
  auto* watched = rows_.find(object);
  if (watched == nullptr) return;
  if (!watched->others.empty()) return update_all(object, *watched);
  if (!is_due(objects_.object(object), watched->first)) return want(object, watched->first);
  const Watcher due = watched->first;
  rows_.erase(object);
  report(object, due);
}

void Subscriptions::update_all(ObjectId object, WatchedRow& watched) {
  Watchers watchers = all_of(watched);
  const ObjectRow* row = objects_.object(object);
  const auto waits = [&](const Watcher& each) { return !is_due(row, each); };
  const auto first_due = std::stable_partition(watchers.begin(), watchers.end(), waits);
  const Watchers due(first_due, watchers.end());
  watchers.erase(first_due, watchers.end());
  for (Watcher& each : watchers) want(object, each);
  set(object, watched, std::move(watchers));
  for (const Watcher& each : due) report(object, each);
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
