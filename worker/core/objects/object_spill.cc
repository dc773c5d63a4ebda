#include "worker/core/objects/object_spill.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/coverage_mark.h"

namespace mobula::internal::worker {
namespace {

const CoverageMark mark_spilled("worker.objects_spilled");
const CoverageMark mark_spill_failed("worker.spill_failed");
const CoverageMark mark_restored("worker.object_restored");
const CoverageMark mark_restored_for_peer("worker.object_restored_for_a_peer");
const CoverageMark mark_lost_on_disk("worker.object_lost_on_disk");

}  // namespace

bool ObjectSpill::can_write() const {
  if (!context_.options.spill) return false;
  return !write_.failure || write_.again_at <= context_.now();
}

bool ObjectSpill::is_writing(ObjectId object) const {
  const Row* row = rows_.find(object);
  return row != nullptr && row->file != 0;
}

std::uint64_t ObjectSpill::kept_bytes() const {
  return files_.objects() == 0 ? 0 : files_.largest_bytes() + SlabSpace::page_bytes;
}

void ObjectSpill::shift_deadlines(Duration gap) {
  if (writing()) write_.started = std::min(write_.started + gap, context_.now());
}

// ---- to disk ------------------------------------------------------------------------------------

void ObjectSpill::start(const std::vector<ObjectId>& objects) {
  StartSpill command;
  std::uint64_t bytes = 0;
  for (const ObjectId object : objects) {
    const ObjectLocation location = context_.table.find(object)->location;
    const bool fits =
        bytes == 0 || bytes + location.size_bytes <= context_.options.spill_file_bytes;
    if (!fits || command.items.size() >= context_.options.spill_file_objects) break;
    if (!holds_.pin(object)) continue;
    if (command.file == 0) command.file = files_.new_file();
    rows_[object].file = command.file;
    command.items.push_back({object, location.slab, location.offset, location.size_bytes});
    write_.items.push_back(object);
    bytes += location.size_bytes;
  }
  if (command.items.empty()) return;
  write_.file = command.file;
  write_.started = context_.now();
  context_.outbox.emit(std::move(command));
}

void ObjectSpill::on(const SpillFinished& finished) {
  if (finished.file != write_.file) return;
  write_.file = 0;
  const std::vector<ObjectId> items = std::exchange(write_.items, {});
  port_.write_ended();
  if (finished.failure || finished.items.size() != items.size()) {
    mark_spill_failed.hit();
    write_.failure = finished.failure.value_or(
        failure(ErrorCode::unavailable, "the file was not written completely"));
    write_.again_at = context_.now() + context_.options.spill_retry_backoff;
  } else {
    mark_spilled.hit();
    write_.failure.reset();
  }
  bool used = false;
  std::vector<ObjectId> pinned;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const ObjectId object = items[i];
    Row* row = rows_.find(object);
    if (row == nullptr || row->file != finished.file) continue;  // its job has ended
    row->file = 0;
    pinned.push_back(object);
    if (write_.failure) continue;
    used = true;
    files_.add(object,
               {finished.file, finished.items[i].file_offset,
                context_.table.find(object)->location.size_bytes, finished.items[i].checksum});
    context_.table.record_disk_copy(object);
    port_.written(object);
  }
  if (!used && !write_.failure) context_.outbox.emit(DropSpillFile{finished.file});
  for (const ObjectId object : pinned) holds_.unpin(object);
}

void ObjectSpill::drop(ObjectId object) {
  if (const auto file = files_.drop(object)) context_.outbox.emit(DropSpillFile{*file});
}

void ObjectSpill::erase(ObjectId object) {
  drop(object);
  refuse_pullers(object, failure(ErrorCode::not_found, "the object was released"));
  rows_.erase(object);
}

// ---- from disk ----------------------------------------------------------------------------------

void ObjectSpill::restore(ObjectId object) {
  const ObjectRow& stored = *context_.table.find(object);
  const Row* row = rows_.find(object);
  const bool restores = row != nullptr && row->restore != 0;
  if (restores || port_.waits_for_memory(object) || stored.has_location()) return;
  if (!holds_.pin(object)) return;
  ReserveRequest request;
  request.object = object;
  request.job = stored.job;
  request.size_bytes = stored.disk_bytes;
  request.writer = context_.agent;
  request.home = stored.home;
  request.upstream = stored.upstream;
  request.exported = stored.exported;
  port_.reserve_restore(request);
}

void ObjectSpill::start_restore(ObjectId object, const ObjectLocation& location) {
  const std::uint64_t id = ++last_restore_;
  rows_[object].restore = id;
  restores_.emplace(id, Restore{object, location, false});
  start_waiting_restores();
}

void ObjectSpill::start_waiting_restores() {
  std::size_t started = 0;
  for (auto at = restores_.begin();
       at != restores_.end() && started < context_.options.max_restores;) {
    Restore& each = at->second;
    const SpillLocation* disk = files_.find(each.object);
    const bool over = disk == nullptr && !each.started;  // its job has ended
    if (over) {
      at = restores_.erase(at);
      continue;
    }
    ++started;
    if (!std::exchange(each.started, true)) {
      context_.outbox.emit(StartRestore{at->first, each.object, disk->file, disk->offset,
                                        disk->size_bytes, disk->checksum, each.location.slab,
                                        each.location.offset});
    }
    ++at;
  }
}

void ObjectSpill::restore_for(NodeId reader, std::uint64_t request, ObjectId object) {
  restore(object);
  Row& row = rows_[object];
  row.pullers.emplace_back(reader, request);
  // A peer does not wait for memory here: it must retry.
  if (row.restore == 0) {
    refuse_pullers(object, failure(ErrorCode::resource_exhausted,
                                   "the object waits for space to be read from disk"));
  }
}

void ObjectSpill::on(const RestoreFinished& finished) {
  const auto at = restores_.find(finished.restore);
  if (at == restores_.end()) return;
  const ObjectId object = at->second.object;
  restores_.erase(at);
  Row* row = rows_.find(object);
  if (row != nullptr && row->restore == finished.restore) {
    row->restore = 0;
    if (!finished.failure && context_.table.seal(object, context_.agent)) {
      mark_restored.hit();
      port_.restored(object);
      for (const auto& [node, pull] : std::exchange(rows_.at(object).pullers, {})) {
        mark_restored_for_peer.hit();
        port_.offer(node, pull, object);
      }
    } else {
      const Failure why = finished.failure.value_or(
          failure(ErrorCode::resource_exhausted, "no memory to read the object into"));
      holds_.apply(context_.table.fail(object, why));
      if (why.code == ErrorCode::corrupt) {
        lost(object, why.text);
      } else {
        const Failure later = failure(ErrorCode::resource_exhausted, why.text);
        port_.restore_failed(object, later);
        refuse_pullers(object, later);
      }
    }
    holds_.unpin(object);
  }
  start_waiting_restores();
}

void ObjectSpill::refuse_pullers(ObjectId object, const Failure& why) {
  Row* row = rows_.find(object);
  if (row == nullptr) return;
  for (const auto& [node, pull] : std::exchange(row->pullers, {})) {
    context_.transfers.refuse(node, pull, why);
  }
}

void ObjectSpill::pull_ended(ObjectId object, NodeId reader, std::uint64_t request) {
  if (Row* row = rows_.find(object)) std::erase(row->pullers, std::pair{reader, request});
}

void ObjectSpill::node_died(NodeId node) {
  for (auto& [object, row] : rows_)
    std::erase_if(row.pullers, [&](const auto& each) { return each.first == node; });
}

// As after the loss of a node, but limited to this object.
void ObjectSpill::lost(ObjectId object, const std::string& cause) {
  mark_lost_on_disk.hit();
  drop(object);
  context_.table.lose_on_disk(object);
  refuse_pullers(object, failure(ErrorCode::not_found, cause));
  port_.lost_on_disk(object, cause);
}

}  // namespace mobula::internal::worker
