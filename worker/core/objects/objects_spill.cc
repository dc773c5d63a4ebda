// Spilling of objects to the disk of this node, and restoring them.
#include <fmt/format.h>

#include "base/coverage_mark.h"
#include "worker/core/objects/objects.h"

namespace mobula::internal::worker {
namespace {

const CoverageMark mark_spilled("worker.objects_spilled");
const CoverageMark mark_read_meanwhile("worker.object_read_while_it_was_spilled");
const CoverageMark mark_spill_failed("worker.spill_failed");
const CoverageMark mark_restored("worker.object_restored");
const CoverageMark mark_restored_for_peer("worker.object_restored_for_a_peer");
const CoverageMark mark_lost_on_disk("worker.object_lost_on_disk");

}  // namespace

// ---- to disk ------------------------------------------------------------------------------------

// Spills the objects that fit into one file; the others may follow.
void Objects::start_spill(const std::vector<ObjectId>& objects) {
  StartSpill command;
  std::uint64_t bytes = 0;
  for (const ObjectId object : objects) {
    const Place place = table_.find(object)->place;
    const bool fits = bytes == 0 || bytes + place.size_bytes <= options_.spill_file_bytes;
    if (!fits || command.items.size() >= options_.spill_file_objects) break;
    if (!pin(object)) continue;
    if (command.file == 0) command.file = files_.new_file();
    entries_.at(object).spill = command.file;
    command.items.push_back({object, place.slab, place.offset, place.size_bytes});
    spill_.items.push_back(object);
    bytes += place.size_bytes;
  }
  if (command.items.empty()) return;
  spill_.file = command.file;
  spill_.started = outbox_.now();
  outbox_.emit(std::move(command));
}

void Objects::spilled(const SpillFinished& finished) {
  if (finished.file != spill_.file) return;
  spill_.file = 0;
  const std::vector<ObjectId> items = std::exchange(spill_.items, {});
  room_due_ = true;
  if (finished.failure || finished.items.size() != items.size()) {
    mark_spill_failed.hit();
    spill_.failure = finished.failure.value_or(
        failure(ErrorCode::unavailable, "the file was not written completely"));
    spill_.again_at = outbox_.now() + options_.spill_retry_backoff;
  } else {
    mark_spilled.hit();
    spill_.failure.reset();
  }
  bool used = false;
  std::vector<ObjectId> pinned;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const ObjectId object = items[i];
    ObjectEntry* entry = find(object);
    if (entry == nullptr || entry->spill != finished.file) continue;  // its job has ended
    entry->spill = 0;
    pinned.push_back(object);
    if (spill_.failure) continue;
    used = true;
    files_.add(object, {finished.file, finished.items[i].file_offset,
                        table_.find(object)->place.size_bytes, finished.items[i].checksum});
    table_.keep_on_disk(object);
    if (entry->in_place.empty() && entry->offers == 0) {
      evict(object);
    } else {
      mark_read_meanwhile.hit();
    }
  }
  if (!used && !spill_.failure) outbox_.emit(DropSpillFile{finished.file});
  for (const ObjectId object : pinned) unpin(object);
}

void Objects::drop_from_disk(ObjectId object) {
  if (const auto file = files_.drop(object)) outbox_.emit(DropSpillFile{*file});
}

// ---- from disk ----------------------------------------------------------------------------------

void Objects::restore(ObjectId object) {
  const ObjectEntry& known = entries_.at(object);
  const ObjectRow& row = *table_.find(object);
  if (known.restore != 0 || known.waits_for_room || row.has_place()) return;
  if (!pin(object)) return;
  ReserveRequest request;
  request.object = object;
  request.job = row.job;
  request.size_bytes = row.disk_bytes;
  request.writer = agent_;
  request.home = row.home;
  request.upstream = row.upstream;
  request.exported = row.exported;
  const auto found = place(request);
  if (!found) return refuse_place(request, found.error());
  if (*found) return start_restore(object, **found);
  entries_.at(object).waits_for_room = true;
  if (!wait_for_room(request)) {
    refuse_place(request, failure(ErrorCode::resource_exhausted,
                                  "too many objects wait for space in this node's store"));
  }
}

void Objects::start_restore(ObjectId object, const Place& place) {
  const std::uint64_t id = ++last_restore_;
  entries_.at(object).restore = id;
  restores_.emplace(id, Restore{object, place, false});
  start_waiting_restores();
}

void Objects::start_waiting_restores() {
  std::size_t started = 0;
  for (auto at = restores_.begin(); at != restores_.end() && started < options_.max_restores;) {
    Restore& each = at->second;
    const SpilledPlace* disk = files_.find(each.object);
    const bool over = disk == nullptr && !each.started;  // its job has ended
    if (over) {
      at = restores_.erase(at);
      continue;
    }
    ++started;
    if (!std::exchange(each.started, true)) {
      outbox_.emit(StartRestore{at->first, each.object, disk->file, disk->offset, disk->size_bytes,
                                disk->checksum, each.place.slab, each.place.offset});
    }
    ++at;
  }
}

void Objects::restored(const RestoreFinished& finished) {
  const auto at = restores_.find(finished.restore);
  if (at == restores_.end()) return;
  const ObjectId object = at->second.object;
  restores_.erase(at);
  ObjectEntry* entry = find(object);
  const bool known = entry != nullptr && entry->restore == finished.restore;
  if (known) {
    entry->restore = 0;
    entry->last_use = outbox_.now();
    room_due_ = true;
    if (!finished.failure && table_.seal(object, agent_)) {
      mark_restored.hit();
      became_sealed(object);
      for (const auto& [node, pull] : std::exchange(entries_.at(object).pullers, {})) {
        mark_restored_for_peer.hit();
        offer(node, pull, object);
      }
    } else {
      const Failure why = finished.failure.value_or(
          failure(ErrorCode::resource_exhausted, "no memory to read the object into"));
      apply(table_.fail(object, why));
      retry_due_ = true;
      if (why.code == ErrorCode::corrupt) {
        lost_on_disk(object, why.text);
      } else {
        const Failure later = failure(ErrorCode::resource_exhausted, why.text);
        fail_readers(object, later);
        refuse_pullers(object, later);
      }
    }
    unpin(object);
  }
  start_waiting_restores();
}

void Objects::refuse_pullers(ObjectId object, const Failure& why) {
  ObjectEntry* entry = find(object);
  if (entry == nullptr) return;
  for (const auto& [node, pull] : std::exchange(entry->pullers, {})) {
    transfers_.refuse(node, pull, why);
  }
}

// As after the loss of a node, but limited to this object.
void Objects::lost_on_disk(ObjectId object, const std::string& cause) {
  mark_lost_on_disk.hit();
  drop_from_disk(object);
  table_.lose_on_disk(object);
  refuse_pullers(object, failure(ErrorCode::not_found, cause));
  entries_.at(object).pulled = false;
  if (entries_.at(object).copy_reported) report_copy(object, false);
  const NodeId home = entries_.at(object).home;
  if (home != self_ && !peers_.is_dead(home)) peers_.send(home, ReplicaLost{object, cause});
  location_removed(object, cause);
  const ObjectEntry* entry = find(object);
  if (entry == nullptr || entry->readers.empty()) return;
  if (!at_home(*entry) || has_bytes_somewhere(object, *entry)) seek(object);
}

}  // namespace mobula::internal::worker
