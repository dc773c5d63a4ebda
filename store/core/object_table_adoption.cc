#include <fmt/format.h>

#include "store/core/object_table.h"

namespace mobula::internal {

Result<void> ObjectTable::adopt(const Adoption& adoption) {
  auto process = process_for(adoption.process);
  if (!process) return process.error();
  ProcessRow& holder = **process;
  if (auto checked = check_adoption(adoption, holder.job); !checked) return checked;

  const ProcessId writer = adoption.process_writes ? adoption.process : ProcessId{};
  space_.adopt(adoption.slab, holder.job, writer, adoption.size_bytes);
  for (const auto& it : adoption.objects) {
    if (space_.claim({adoption.slab, it.offset, it.size_bytes})) continue;
    space_.forget(adoption.slab);
    return failure(ErrorCode::invalid_argument,
                   fmt::format("object {} at {}+{} is not a free extent of slab {} of {} bytes",
                               it.object.brief(), it.offset, it.size_bytes, adoption.slab.brief(),
                               adoption.size_bytes));
  }
  for (const auto& it : adoption.objects) {
    ObjectRow& row = objects_[it.object];
    row.job = holder.job;
    row.state = ObjectState::sealed;
    row.location = {adoption.slab, it.offset, it.size_bytes};
    row.home = it.home;
    row.exported = row.exported || it.exported;
    row.failure.reset();
    row.upstream = it.upstream;
    book(row);
    row.processes.insert(adoption.process);
    holder.held.insert(it.object);
  }
  return {};
}

Result<void> ObjectTable::check_adoption(const Adoption& adoption, JobId job) const {
  if (space_.owner_of(adoption.slab)) {
    return failure(ErrorCode::already_exists,
                   fmt::format("slab {} is known to this agent", adoption.slab.brief()));
  }
  if (job.empty() || adoption.slab.empty() || adoption.objects.empty()) {
    return failure(
        ErrorCode::invalid_argument,
        fmt::format("slab {} is offered without a job or without objects", adoption.slab.brief()));
  }
  for (const auto& it : adoption.objects) {
    const ObjectRow* row = objects_.find(it.object);
    if (row == nullptr) continue;
    if (!row->job.empty() && row->job != job) {
      return failure(ErrorCode::permission_denied,
                     fmt::format("object {} belongs to another job", it.object.brief()));
    }
    if (row->has_location() || row->here()) {
      return failure(ErrorCode::already_exists,
                     fmt::format("object {} is {} on this node already", it.object.brief(),
                                 to_string(row->state)));
    }
  }
  return {};
}

}  // namespace mobula::internal
