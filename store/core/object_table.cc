#include "store/core/object_table.h"

#include <utility>

#include <fmt/format.h>

#include "base/check.h"

namespace mobula::internal {

std::string_view to_string(ObjectState state) {
  switch (state) {
    case ObjectState::wanted: return "wanted";
    case ObjectState::reserved: return "reserved";
    case ObjectState::sealed: return "sealed";
    case ObjectState::failed: return "failed";
    case ObjectState::spilled: return "spilled";
  }
  return "unknown";
}

ObjectTable::ObjectTable(TableOptions options) : options_(options), space_(options.space) {
  MOBULA_CHECK(!options_.space.incarnation.empty(), "the agent's process id is missing");
  processes_.ensure(options_.space.incarnation);
}

void ObjectTable::add_process(ProcessId process, JobId job) {
  processes_.insert(process, ProcessRow{job, {}});
}

// ---- writing -----------------------------------------------------------------------------------

Result<Placement> ObjectTable::reserve(const ReserveRequest& request) {
  if (const ObjectRow* row = objects_.find(request.object);
      row != nullptr && row->state == ObjectState::reserved && row->writer == request.writer &&
      row->location.size_bytes == request.size_bytes) {
    return Placement{.location = row->location, .create = {}, .retire = {}};
  }
  if (auto checked = check_reserve(request); !checked) return checked.error();
  auto placement = space_.allocate(request.job, request.writer, request.size_bytes);
  if (!placement) return full(request);
  if (!placement->location) return std::move(*placement);

  ObjectRow& row = objects_[request.object];
  if (row.state == ObjectState::spilled) unbook_spilled(row);
  row.job = request.job;
  row.state = ObjectState::reserved;
  row.location = *placement->location;
  row.writer = request.writer;
  row.home = request.home;
  row.exported = row.exported || request.exported;
  row.failure.reset();
  row.upstream = request.upstream;
  book(row);
  row.processes.insert(request.writer);
  processes_.at(request.writer).held.insert(request.object);
  return std::move(*placement);
}

Result<void> ObjectTable::check_reserve(const ReserveRequest& request) const {
  auto writer = process_for(request.writer);
  if (!writer) return writer.error();
  if (!(*writer)->job.empty() && (*writer)->job != request.job) {
    return failure(
        ErrorCode::permission_denied,
        fmt::format("process {} of job {} cannot write object {} of job {}", request.writer.brief(),
                    (*writer)->job.brief(), request.object.brief(), request.job.brief()));
  }
  const ObjectRow* row = objects_.find(request.object);
  const bool restores = row != nullptr && row->state == ObjectState::spilled &&
                        request.writer == options_.space.incarnation;
  if (row != nullptr && (row->has_location() || row->here()) && !restores) {
    return failure(ErrorCode::already_exists,
                   fmt::format("object {} is {} on this node already", request.object.brief(),
                               to_string(row->state)));
  }
  return check_hold_limit(request.writer, **writer, request.object);
}

Result<void> ObjectTable::check_hold_limit(ProcessId process, const ProcessRow& row,
                                           ObjectId object) const {
  const bool agent = process == options_.space.incarnation;  // bounded by the requests of processes
  if (agent || row.held.size() < options_.max_holds_per_process || row.held.contains(object)) {
    return {};
  }
  return failure(ErrorCode::resource_exhausted,
                 fmt::format("process {} holds {} objects, the most one process may: release some",
                             process.brief(), row.held.size()));
}

Result<void> ObjectTable::seal(ObjectId object, ProcessId writer) {
  ObjectRow* row = objects_.find(object);
  if (row == nullptr || !row->has_location()) {
    return failure(
        ErrorCode::not_found,
        fmt::format("seal object {}: no memory is reserved for it on this node", object.brief()));
  }
  if (row->state == ObjectState::sealed) {
    return failure(ErrorCode::already_exists,
                   fmt::format("seal of object {}: it is sealed already", object.brief()));
  }
  if (row->writer != writer) {
    return failure(ErrorCode::permission_denied,
                   fmt::format("seal of object {} by process {}: process {} reserved it",
                               object.brief(), writer.brief(), row->writer.brief()));
  }
  row->state = ObjectState::sealed;
  row->writer = ProcessId{};
  return {};
}

Consequences ObjectTable::fail(ObjectId object, Failure cause) {
  Consequences out;
  ObjectRow* row = objects_.find(object);
  if (row == nullptr) return out;
  if (row->state == ObjectState::sealed || row->state == ObjectState::spilled) return out;
  if (row->state == ObjectState::reserved) free_location(*row, out.slabs);
  if (row->on_disk) {
    book_spilled(*row);
    return out;
  }
  row->state = ObjectState::failed;
  row->failure = std::move(cause);
  return out;
}

void ObjectTable::slab_failed(SlabId slab, const Failure& cause) {
  if (!space_.owner_of(slab)) return;
  for (auto& [object, row] : objects_) {
    if (!row.has_location() || row.location.slab != slab) continue;
    MOBULA_CHECK(row.state == ObjectState::reserved, "a slab failed that has sealed objects");
    unbook(row);
    if (row.on_disk) {
      book_spilled(row);
      continue;
    }
    row.state = ObjectState::failed;
    row.failure = cause;
  }
  space_.forget(slab);
}

// ---- memory and disk ---------------------------------------------------------------------------

void ObjectTable::record_disk_copy(ObjectId object) {
  ObjectRow& row = objects_.at(object);
  MOBULA_CHECK(row.state == ObjectState::sealed, "an unsealed object has no copy on disk");
  row.on_disk = true;
  row.disk_bytes = row.location.size_bytes;
}

SlabChanges ObjectTable::evict(ObjectId object) {
  SlabChanges out;
  ObjectRow& row = objects_.at(object);
  MOBULA_CHECK(row.state == ObjectState::sealed, "an unsealed object cannot be evicted");
  free_location(row, out);
  if (row.on_disk) {
    book_spilled(row);
  } else {
    row.state = ObjectState::wanted;
  }
  return out;
}

void ObjectTable::lose_on_disk(ObjectId object) {
  ObjectRow& row = objects_.at(object);
  if (row.state == ObjectState::spilled) {
    unbook_spilled(row);
    row.state = ObjectState::wanted;
  }
  row.on_disk = false;
}

// ---- holds -------------------------------------------------------------------------------------

Result<HoldOutcome> ObjectTable::hold(ProcessId process, ObjectId object) {
  auto holder = process_for(process);
  if (!holder) return holder.error();
  ProcessRow& process_row = **holder;
  if (auto within = check_hold_limit(process, process_row, object); !within) return within.error();
  ObjectRow* row = objects_.find(object);
  const bool newly_wanted = row == nullptr;
  if (row == nullptr) row = objects_.ensure(object).first;
  row->processes.insert(process);
  process_row.held.insert(object);
  return HoldOutcome{row->state, newly_wanted};
}

Consequences ObjectTable::release(ProcessId process, ObjectId object) {
  Consequences out;
  unhold(process, object, out);
  return out;
}

Result<void> ObjectTable::hold_node(NodeId node, ObjectId object) {
  ObjectRow* row = objects_.find(object);
  if (row == nullptr) {
    return failure(ErrorCode::not_found,
                   fmt::format("node {} relies on object {}, which is not here", node.brief(),
                               object.brief()));
  }
  row->nodes.insert(node);
  return {};
}

Consequences ObjectTable::release_node(NodeId node, ObjectId object) {
  Consequences out;
  unhold_node(node, object, out);
  return out;
}

Consequences ObjectTable::drop_process(ProcessId process) {
  Consequences out;
  ProcessRow* row = processes_.find(process);
  if (row == nullptr) return out;
  MOBULA_CHECK(process != options_.space.incarnation, "an agent outlives its own table");
  const std::set<ObjectId> held = row->held;
  for (const ObjectId object : held) unhold(process, object, out);
  processes_.erase(process);
  space_.drop_writer(process, out.slabs);
  withdraw_released(out.slabs);
  return out;
}

Consequences ObjectTable::drop_node(NodeId node) {
  Consequences out;
  std::vector<ObjectId> held;
  for (auto& [object, row] : objects_) {
    if (row.nodes.contains(node)) held.push_back(object);
    if (row.upstream == node) row.upstream = NodeId{};
  }
  for (const ObjectId object : held) unhold_node(node, object, out);
  return out;
}

Consequences ObjectTable::drop_job(JobId job) {
  Consequences out;
  std::vector<ProcessId> members;
  for (const auto& [process, row] : processes_) {
    if (!row.job.empty() && row.job == job) members.push_back(process);
  }
  const auto append = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (const ProcessId process : members) {
    const Consequences one = drop_process(process);
    append(out.gone, one.gone);
    append(out.interrupted, one.interrupted);
    append(out.slabs.retire, one.slabs.retire);
    append(out.slabs.released, one.slabs.released);
  }
  std::vector<ObjectId> left;
  for (const auto& [object, row] : objects_) {
    if (row.job == job && !row.exported) left.push_back(object);
  }
  for (const ObjectId object : left) {
    const std::set<NodeId> nodes = objects_.at(object).nodes;
    for (const NodeId node : nodes) unhold_node(node, object, out);
    unhold(options_.space.incarnation, object, out);
  }
  space_.drop_job(job, out.slabs);
  withdraw_released(out.slabs);
  std::erase_if(out.interrupted, [&](ObjectId object) { return !objects_.contains(object); });
  return out;
}

// ---- reading -----------------------------------------------------------------------------------

bool ObjectTable::export_object(ObjectId object) {
  ObjectRow* row = objects_.find(object);
  if (row != nullptr) row->exported = true;
  return row != nullptr;
}

Result<const ObjectRow*> ObjectTable::lookup(ProcessId process, ObjectId object) const {
  const ProcessRow* reader = processes_.find(process);
  const ObjectRow* row = objects_.find(object);
  if (reader == nullptr || row == nullptr) {
    return failure(
        ErrorCode::not_found,
        fmt::format("lookup of object {} by process {}: {}", object.brief(), process.brief(),
                    reader == nullptr ? "the process is unknown" : "it is not here"));
  }
  if (row->failure) return *row->failure;
  return row;
}

// ---- internals ---------------------------------------------------------------------------------

Result<ObjectTable::ProcessRow*> ObjectTable::process_for(ProcessId process) {
  auto found = std::as_const(*this).process_for(process);
  if (!found) return found.error();
  return processes_.find(process);
}

Result<const ObjectTable::ProcessRow*> ObjectTable::process_for(ProcessId process) const {
  const ProcessRow* row = processes_.find(process);
  if (row == nullptr) {
    return failure(ErrorCode::not_found,
                   fmt::format("process {} is not known to the object store", process.brief()));
  }
  return row;
}

void ObjectTable::book(const ObjectRow& row) {
  JobUse& use = jobs_[row.job];
  use.used_bytes += SlabAllocator::extent_bytes(row.location.size_bytes);
  ++use.objects;
}

void ObjectTable::unbook(ObjectRow& row) {
  const auto use = jobs_.find(row.job);
  use->second.used_bytes -= SlabAllocator::extent_bytes(row.location.size_bytes);
  if (--use->second.objects == 0) jobs_.erase(use);
  row.location = ObjectLocation{};
  row.writer = ProcessId{};
}

void ObjectTable::book_spilled(ObjectRow& row) {
  row.state = ObjectState::spilled;
  JobUse& use = jobs_[row.job];
  use.spilled_bytes += row.disk_bytes;
  ++use.objects;
  spilled_bytes_ += row.disk_bytes;
}

void ObjectTable::unbook_spilled(ObjectRow& row) {
  const auto use = jobs_.find(row.job);
  use->second.spilled_bytes -= row.disk_bytes;
  if (--use->second.objects == 0) jobs_.erase(use);
  spilled_bytes_ -= row.disk_bytes;
}

void ObjectTable::free_location(ObjectRow& row, SlabChanges& out) {
  space_.free(row.location, out);
  unbook(row);
}

// A slab retired earlier in this operation needs no unmapping if its writer was dropped since.
void ObjectTable::withdraw_released(SlabChanges& changes) const {
  std::erase_if(changes.retire,
                [&](const RetiredSlab& retired) { return !space_.owner_of(retired.slab); });
}

void ObjectTable::unhold(ProcessId process, ObjectId object, Consequences& out) {
  ProcessRow* holder = processes_.find(process);
  if (holder == nullptr || holder->held.erase(object) == 0) return;
  ObjectRow& row = objects_.at(object);
  row.processes.erase(process);
  if (row.state == ObjectState::reserved && row.writer == process) {
    free_location(row, out.slabs);
    row.state = ObjectState::wanted;
    if (row.on_disk) book_spilled(row);
    if (!row.processes.empty() || !row.nodes.empty()) out.interrupted.push_back(object);
  }
  erase_unheld(object, out);
}

void ObjectTable::unhold_node(NodeId node, ObjectId object, Consequences& out) {
  ObjectRow* row = objects_.find(object);
  if (row == nullptr || row->nodes.erase(node) == 0) return;
  erase_unheld(object, out);
}

void ObjectTable::erase_unheld(ObjectId object, Consequences& out) {
  ObjectRow& row = objects_.at(object);
  if (!row.processes.empty() || !row.nodes.empty()) return;
  out.gone.push_back({object, row.job, row.state, row.home, row.upstream});
  if (row.has_location()) free_location(row, out.slabs);
  if (row.state == ObjectState::spilled) unbook_spilled(row);
  objects_.erase(object);
}

}  // namespace mobula::internal
