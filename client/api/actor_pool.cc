#include <mobula/actor_pool.h>

#include <algorithm>
#include <chrono>

namespace mobula::detail {

bool holds_death_of(const AnyRef& ready, RawId actor) {
  const auto target = runtime();
  const RawId id = require_id(ready.anchor().get(), target);
  GetRequest request;
  request.deadline = std::chrono::steady_clock::now();
  StoredValue value;
  const Done failed = target->get({&id, 1}, request, {&value, 1});
  if (failed || !value.error) return false;
  return value.error->kind == ErrorKind::actor_died && value.error->actor_id == hex(actor);
}

Duration time_left(const Deadline& deadline) {
  if (!deadline) return Duration::max();
  return std::max(Duration::zero(), Duration(*deadline - std::chrono::steady_clock::now()));
}

}  // namespace mobula::detail
