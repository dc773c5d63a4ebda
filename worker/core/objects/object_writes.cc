#include "worker/core/objects/object_writes.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/coverage_mark.h"

namespace mobula::internal::worker {

namespace {

const CoverageMark mark_pull_superseded("worker.pull_gave_way_to_a_writer");
const CoverageMark mark_second_writer("worker.writer_waited_for_another");

Failure being_written(ObjectId object) {
  return failure(
      ErrorCode::unavailable,
      fmt::format("object {} is being written by another process of this node", object.brief()));
}

}  // namespace

void ObjectWrites::on(ProcessId process, const ReserveObjectRequest& message) {
  const ProcessRow* writer = context_.processes.find(process);
  if (writer == nullptr) return;
  ReserveRequest request;
  request.object = message.object;
  request.job = writer->principal.job;
  request.writer = process;
  if (message.size_bytes < 0) {
    return allocation_refused(request, failure(ErrorCode::invalid_argument, "a size below zero"));
  }
  request.size_bytes = static_cast<std::uint64_t>(message.size_bytes);
  reserve(request);
}

// A process that writes an object again, after a loss, waits for an earlier attempt that writes it
// now. A pull gives way to it: the nodes that the pull reads from may be gone.
void ObjectWrites::reserve(const ReserveRequest& request) {
  if (reads_.pull_of(request.object) != 0) {
    mark_pull_superseded.hit();
    reads_.cancel_pull(request.object);
  }
  const ObjectRow* row = context_.table.find(request.object);
  if (row != nullptr && row->state == ObjectState::reserved) {
    const bool again =
        row->writer == request.writer && row->location.size_bytes == request.size_bytes;
    if (again) return allocated(request);
    if (row->on_disk) {
      return allocation_refused(request, failure(ErrorCode::already_exists,
                                                 fmt::format("object {} is on this node already",
                                                             request.object.brief())));
    }
    mark_second_writer.hit();
    if (blocked_.size() >= StoreMemory::max_waiting)
      return allocation_refused(request, being_written(request.object));
    blocked_.push_back({request, context_.now()});
    return;
  }
  const auto location = memory_.allocate(request);
  if (!location) return allocation_refused(request, location.error());
  if (*location) return allocated(request);
  if (!memory_.wait(request)) {
    allocation_refused(request, failure(ErrorCode::resource_exhausted,
                                        "too many writers wait for space in this node's store"));
  }
}

// The rows of the objects may have changed. Replies leave in the order of the requests.
void ObjectWrites::retry_blocked() {
  if (blocked_.empty()) return;
  for (const Blocked& each : std::exchange(blocked_, {})) {
    const ObjectRow* row = context_.table.find(each.request.object);
    const bool is_blocked = row != nullptr && row->state == ObjectState::reserved;
    if (!is_blocked) {
      reserve(each.request);
    } else if (each.since + context_.options.read_capacity_timeout <= context_.now()) {
      allocation_refused(each.request, being_written(each.request.object));
    } else {
      blocked_.push_back(each);
    }
  }
}

void ObjectWrites::abandon(ProcessId process, ObjectId object) {
  memory_.cancel_wait(process, object);
  std::erase_if(blocked_, [&](const Blocked& each) {
    return each.request.writer == process && each.request.object == object;
  });
}

void ObjectWrites::allocated(const ReserveRequest& request) {
  const ObjectLocation location = context_.table.find(request.object)->location;
  const auto slab_bytes =
      static_cast<std::int64_t>(context_.table.space().owner_of(location.slab)->size_bytes);
  context_.processes.send_with_slab(request.writer, location.slab, [&](bool given) {
    ReserveObjectReply answer;
    answer.object = request.object;
    answer.location = {slab_number(location.slab), static_cast<std::int64_t>(location.offset),
                       static_cast<std::int64_t>(location.size_bytes)};
    answer.new_slab = given;
    answer.slab_bytes = slab_bytes;
    return answer;
  });
}

void ObjectWrites::allocation_refused(const ReserveRequest& request, const Failure& why) {
  if (why.code == ErrorCode::already_exists && holds_.find(request.object) != nullptr) {
    // The process's next message states the owner of the bytes. They are pinned until then.
    if (rows_[request.object].found_here.insert(request.writer).second) holds_.pin(request.object);
  }
  ReserveObjectReply answer;
  answer.object = request.object;
  answer.failure = why;
  context_.processes.send(request.writer, std::move(answer));
}

// ---- seals --------------------------------------------------------------------------------------

void ObjectWrites::on(ProcessId process, const SealObjectRequest& message) {
  const ObjectId object = message.object;
  const ObjectRow* row = context_.table.find(object);
  const bool mine = row != nullptr && row->state == ObjectState::reserved && row->writer == process;
  const bool again = row != nullptr && row->here();
  if (!mine && !again) return context_.processes.send(process, SealObjectReply{object});
  const NodeId home = message.home.empty() ? context_.self : message.home;
  HeldObject& held = holds_.add(object);
  if (mine) {
    MOBULA_CHECK(context_.table.seal(object, process).ok(), "its writer could not seal an object");
    held.home = home;
    held.owner = message.owner;
    held.size_bytes = row->location.size_bytes;
    held.is_error = message.is_error;
    held.contained = message.contained;
    memory_.sealed(object, false);
    holds_.pin_contained(object);
  }
  if (home == context_.self) {
    directory_.claim_sealed(object, message.owner);
    context_.processes.send(process, SealObjectReply{object});
  } else if (context_.peers.is_dead(home)) {
    context_.processes.send(process, SealObjectReply{object});  // the owner has died with its home
  } else {
    store_for(home, process, message);
  }
  if (mine) port_.sealed(object);
  // The hold of the writer ends here, unless it is the owner or also borrows the object.
  const bool owns = message.owner == process;
  const bool keeps = held.writer_borrows || (owns && !directory_.released_by_owner(object));
  if (mine && !keeps) {
    holds_.apply(context_.table.release(process, object));
  } else if (mine && owns) {
    // The owner may need its own bytes again if this agent dies.
    memory_.written_by_owner(process, object);
  }
  memory_.check();
  holds_.settle(object);
  if (forget_sealer(process, object)) holds_.unpin(object);
}

void ObjectWrites::store_for(NodeId home, ProcessId process, const SealObjectRequest& message) {
  const ObjectId object = message.object;
  MOBULA_CHECK(context_.table.hold_node(home, object).ok(), "a sealed object has no row");
  rows_[object].sealers.insert(process);
  const HeldObject& held = holds_.at(object);
  StoreResultRequest stored;
  stored.object = object;
  stored.job = context_.table.find(object)->job;
  stored.owner = message.owner;
  stored.size_bytes = static_cast<std::int64_t>(held.size_bytes);
  stored.is_error = held.is_error;
  stored.contained = held.contained;
  context_.peers.send(home, std::move(stored));
}

void ObjectWrites::finish_sealers(ObjectId object) {
  Row* row = rows_.find(object);
  if (row == nullptr) return;
  for (const ProcessId sealer : std::exchange(row->sealers, {})) {
    context_.processes.send(sealer, SealObjectReply{object});
  }
}

// ---- ends ---------------------------------------------------------------------------------------

void ObjectWrites::on(const SlabFailed& failed) {
  std::vector<std::pair<ObjectId, ProcessId>> lost;
  for (const auto& [object, row] : context_.table.objects()) {
    if (row.has_location() && row.location.slab == failed.slab)
      lost.emplace_back(object, row.writer);
  }
  context_.table.slab_failed(failed.slab, failed.failure);
  context_.processes.forget_slab(failed.slab);
  for (const auto& [object, writer] : lost) {
    if (writer == context_.agent) {
      reads_.fail_readers(object, failed.failure);
      reads_.release_pull(object);
      continue;
    }
    ReserveObjectReply answer;
    answer.object = object;
    answer.failure = failed.failure;
    context_.processes.send(writer, std::move(answer));
    const HeldObject* held = holds_.find(object);
    if (held != nullptr && !held->writer_borrows) {
      holds_.apply(context_.table.release(writer, object));
      holds_.settle(object);
    }
  }
}

void ObjectWrites::process_ended(ProcessId process) {
  for (auto& [object, row] : rows_) row.sealers.erase(process);
  std::erase_if(blocked_, [&](const Blocked& each) { return each.request.writer == process; });
}

bool ObjectWrites::forget_sealer(ProcessId process, ObjectId object) {
  Row* row = rows_.find(object);
  return row != nullptr && row->found_here.erase(process) > 0;
}

void ObjectWrites::erase(ObjectId object) {
  finish_sealers(object);
  rows_.erase(object);
}

// ---- time ---------------------------------------------------------------------------------------

void ObjectWrites::shift_deadlines(Duration gap) {
  for (Blocked& each : blocked_) each.since = std::min(each.since + gap, context_.now());
}

std::optional<Time> ObjectWrites::next_deadline() const {
  if (blocked_.empty()) return std::nullopt;
  return blocked_.front().since + context_.options.read_capacity_timeout;
}

}  // namespace mobula::internal::worker
