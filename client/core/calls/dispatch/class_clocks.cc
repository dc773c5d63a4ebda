#include "client/core/calls/dispatch/class_clocks.h"

#include <algorithm>

namespace mobula::internal::client {

std::vector<ClassId> ClassClocks::take_due(Classes& classes, Time now, bool may_wait) {
  std::vector<ClassId> ids;
  deadlines_.take_due(
      now, [&](ClassId id) { return find(classes, id); }, ids);
  Ordered due;
  for (const ClassId id : ids) {
    ClassRow& row = classes.at(id);
    changed(id, row);  // arms it again
    due.emplace(row.clock.order, id);
  }
  due.insert(unsettled_.begin(), unsettled_.end());
  if (may_wait || waiting_ > 0) due.insert(with_slots_.begin(), with_slots_.end());
  ids.clear();
  for (const auto& [order, id] : due) ids.push_back(id);
  return ids;
}

}  // namespace mobula::internal::client
