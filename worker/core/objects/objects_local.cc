// Requests of local processes: reservations, seals, holds, reads.
#include <fmt/format.h>

#include "base/coverage_mark.h"
#include "worker/core/objects/objects.h"

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

// ---- writing ------------------------------------------------------------------------------------

void Objects::reserve(ProcessId process, const ReserveObjectRequest& message) {
  const ProcessRow* writer = processes_.find(process);
  if (writer == nullptr) return;
  ReserveRequest request;
  request.object = message.object;
  request.job = writer->principal.job;
  request.writer = process;
  if (message.size_bytes < 0) {
    return refuse_place(request, failure(ErrorCode::invalid_argument, "a size below zero"));
  }
  request.size_bytes = static_cast<std::uint64_t>(message.size_bytes);
  reserve(request);
}

// A process that writes an object again, after a loss, waits for an earlier attempt that writes it
// now. A pull gives way to it: the nodes that the pull reads from may be gone.
void Objects::reserve(const ReserveRequest& request) {
  const ObjectEntry* entry = find(request.object);
  if (entry != nullptr && entry->pull != 0) {
    mark_pull_superseded.hit();
    transfers_.cancel(entry->pull);
  }
  const ObjectRow* row = table_.find(request.object);
  if (row != nullptr && row->state == ObjectState::reserved) {
    const bool again = row->writer == request.writer && row->place.size_bytes == request.size_bytes;
    if (again) return answer_reserved(request.writer, request.object);
    if (row->on_disk) {
      return refuse_place(request, failure(ErrorCode::already_exists,
                                           fmt::format("object {} is on this node already",
                                                       request.object.brief())));
    }
    mark_second_writer.hit();
    if (blocked_writers_.size() >= max_waiting_for_room)
      return refuse_place(request, being_written(request.object));
    blocked_writers_.push_back({request, outbox_.now()});
    return;
  }
  const auto found = place(request);
  if (!found) return refuse_place(request, found.error());
  if (*found) return place_found(request, **found);
  if (!wait_for_room(request)) {
    refuse_place(request, failure(ErrorCode::resource_exhausted,
                                  "too many writers wait for space in this node's store"));
  }
}

// The rows of the objects may have changed. Replies leave in the order of the requests.
void Objects::retry_blocked_writers() {
  const Time now = outbox_.now();
  for (const Waiting& each : std::exchange(blocked_writers_, {})) {
    const ObjectRow* row = table_.find(each.request.object);
    const bool is_blocked = row != nullptr && row->state == ObjectState::reserved;
    if (!is_blocked) {
      reserve(each.request);
    } else if (each.since + options_.read_capacity_timeout <= now) {
      refuse_place(each.request, being_written(each.request.object));
    } else {
      blocked_writers_.push_back(each);
    }
  }
}

void Objects::refuse_place(const ReserveRequest& request, const Failure& why) {
  ObjectEntry* entry = find(request.object);
  if (request.writer == agent_) {
    if (entry != nullptr) entry->waits_for_room = false;
    if (entry != nullptr && entry->pull != 0) return transfers_.refused(entry->pull, why);
    const ObjectRow* row = table_.find(request.object);
    if (row != nullptr && row->has_place()) return unpin(request.object);
    refuse_pullers(request.object, why);
    return abandon(request.object, why);
  }
  if (why.code == ErrorCode::already_exists && entry != nullptr) {
    // The process's next message states the owner of the bytes. They are pinned until then.
    if (entry->found_here.insert(request.writer).second) pin(request.object);
  }
  ReserveObjectReply answer;
  answer.object = request.object;
  answer.failure = why;
  processes_.send(request.writer, std::move(answer));
}

void Objects::place_found(const ReserveRequest& request, const Place& place) {
  if (request.writer == agent_) {
    ObjectEntry& entry = entries_.at(request.object);
    entry.waits_for_room = false;
    if (entry.pull != 0) {
      transfers_.placed(entry.pull, place);
    } else {
      start_restore(request.object, place);
    }
  } else {
    answer_reserved(request.writer, request.object);
  }
}

void Objects::answer_reserved(ProcessId process, ObjectId object) {
  const Place place = table_.find(object)->place;
  const auto slab_bytes =
      static_cast<std::int64_t>(table_.space().owner_of(place.slab)->size_bytes);
  processes_.send_with_slab(process, place.slab, [&](bool given) {
    ReserveObjectReply answer;
    answer.object = object;
    answer.place = {slab_number(place.slab), static_cast<std::int64_t>(place.offset),
                    static_cast<std::int64_t>(place.size_bytes)};
    answer.new_slab = given;
    answer.slab_bytes = slab_bytes;
    return answer;
  });
}

void Objects::seal(ProcessId process, const SealObjectRequest& message) {
  const ObjectId object = message.object;
  const ObjectRow* row = table_.find(object);
  const bool mine = row != nullptr && row->state == ObjectState::reserved && row->writer == process;
  const bool again = row != nullptr && row->here();
  if (!mine && !again) return processes_.send(process, SealObjectReply{object});
  const NodeId home = message.home.empty() ? self_ : message.home;
  ObjectEntry& entry = entries_[object];
  if (mine) {
    MOBULA_CHECK(table_.seal(object, process).ok(), "its writer could not seal an object");
    entry.home = home;
    entry.owner = message.owner;
    entry.size_bytes = table_.find(object)->place.size_bytes;
    entry.is_error = message.is_error;
    entry.contained = message.contained;
    entry.last_use = outbox_.now();
    entry.pulled = false;
    pin_contained(object);
  }
  if (home == self_) {
    claim(object, message.owner);
    const bool owner_waits = entry.exported && entry.owner_released;
    if (!owner_waits && processes_.attached(message.owner)) {
      // Beyond its limit of holds, the owner cannot keep the object, which then counts as released.
      const auto held = table_.hold(message.owner, object);
      if (!held) entry.owner_released = true;
    }
    processes_.send(process, SealObjectReply{object});
  } else if (peers_.is_dead(home)) {
    processes_.send(process, SealObjectReply{object});  // the owner has died with its home
  } else {
    MOBULA_CHECK(table_.hold_node(home, object).ok(), "a sealed object has no row");
    entry.sealers.insert(process);
    StoreResultRequest stored;
    stored.object = object;
    stored.job = table_.find(object)->job;
    stored.owner = message.owner;
    stored.size_bytes = static_cast<std::int64_t>(entry.size_bytes);
    stored.is_error = entry.is_error;
    stored.contained = entry.contained;
    peers_.send(home, std::move(stored));
  }
  if (mine) became_sealed(object);
  // The hold of the writer ends here, unless it is the owner or also borrows the object.
  const bool keeps = entry.writer_borrows ||
                     (message.owner == process && !(entry.exported && entry.owner_released));
  if (mine && !keeps) {
    apply(table_.release(process, object));
  } else if (mine && message.owner == process) {
    // The owner may need its own bytes again if this agent dies.
    entry.in_place.try_emplace(process);
  }
  room_due_ = true;
  settle(object);
  ObjectEntry* sealed_here = find(object);
  if (sealed_here != nullptr && sealed_here->found_here.erase(process) > 0) unpin(object);
}

void Objects::export_object(ProcessId process, const ExportObject& message) {
  const auto held = table_.hold(process, message.object);
  if (!held) return;  // readers receive a failure that the object is unknown
  ObjectEntry& entry = entries_[message.object];
  if (entry.home.empty()) entry.home = self_;
  entry.exported = true;
  entry.is_tensor = message.is_tensor;
  entry.owner_released = false;
  table_.export_object(message.object);
  if (!message.entrusted.empty()) entrust(entry, process, message.entrusted);
  claim(message.object, process);
}

void Objects::entrust(ObjectEntry& entry, ProcessId process, ActorId actor) {
  const ProcessRow* owner = processes_.find(process);
  if (owner == nullptr || !entry.entrusted.empty()) return;
  entry.entrusted = actor;
  tell_entrusted({actor, owner->principal.job, true});
}

// Without a head, this is stated with the facts at the start of the next session.
void Objects::tell_entrusted(EntrustedActor news) {
  entrusted_.insert_or_assign(news.actor, news);
  if (!news.held) unheld_actors_.push_back(news.actor);
  if (unheld_actors_.size() > max_unheld_actors) {
    entrusted_.erase(unheld_actors_.front());
    unheld_actors_.pop_front();
  }
  ObjectCopies message;
  message.entrusted.push_back(std::move(news));
  head_.tell(std::move(message));
}

std::vector<EntrustedActor> Objects::entrusted() const {
  std::vector<EntrustedActor> out;
  for (const auto& [actor, each] : entrusted_) out.push_back(each);
  return out;
}

// ---- holds --------------------------------------------------------------------------------------

ObjectEntry* Objects::hold_for(ProcessId process, const RefRecord& ref, Failure& why) {
  const auto held = table_.hold(process, ref.object);
  if (!held) {
    why = held.error();
    return nullptr;
  }
  ObjectEntry& entry = entries_[ref.object];
  learn(entry, ref);
  const ObjectRow& row = *table_.find(ref.object);
  if (row.state == ObjectState::reserved && row.writer == process) entry.writer_borrows = true;
  if (at_home(entry)) {
    if (entry.owner == process) entry.owner_released = false;
    if (!entry.claimed && !entry.failure) wait_for_claim(ref.object);
  } else {
    want_node_hold(ref.object, entry);
  }
  return &entry;
}

void Objects::hold(ProcessId process, const HoldObjectRequest& message) {
  const ObjectId object = message.ref.object;
  Failure why;
  ObjectEntry* entry = hold_for(process, message.ref, why);
  // A rejected hold shows at the next read. The protocol of holds continues.
  if (entry == nullptr || at_home(*entry) || entry->node_hold != NodeHoldState::asked) {
    return processes_.send(process, HoldObjectReply{object});
  }
  entry->hold_waiters.insert(process);
}

void Objects::release(ProcessId process, ObjectId object) {
  if (ObjectEntry* entry = find(object)) {
    entry->readers.erase(process);
    // The owner of an exported object keeps its location and the entry, for a next agent.
    if (!entry->exported || entry->owner != process) entry->in_place.erase(process);
    entry->hold_waiters.erase(process);
    entry->writer_borrows = false;
    if (at_home(*entry) && entry->owner == process) entry->owner_released = true;
  }
  apply(table_.release(process, object));
  settle(object);
}

// ---- reading ------------------------------------------------------------------------------------

void Objects::fetch(ProcessId process, const FetchObjectRequest& message) {
  const ObjectId object = message.ref.object;
  Failure why;
  ObjectEntry* entry = hold_for(process, message.ref, why);
  // The home of an object decides whether it is lost. A failure that was recorded while the home
  // was dead is void once the node has another agent.
  if (entry != nullptr && !at_home(*entry) && !peers_.is_dead(entry->home)) entry->failure.reset();
  if (entry != nullptr && entry->failure) why = *entry->failure;
  const bool flooded = entry != nullptr && !at_home(*entry) &&
                       peers_.backlog(entry->home) >= options_.max_peer_backlog;
  if (flooded) {
    why = failure(ErrorCode::resource_exhausted,
                  fmt::format("{} messages for node {} wait already: it is not reached",
                              peers_.backlog(entry->home), entry->home.brief()));
  }
  if (entry != nullptr && sealed(object)) return answer_readable(process, object, message.fetch);
  if (entry == nullptr || entry->failure || flooded) {
    FetchObjectReply answer;
    answer.object = object;
    answer.fetch = message.fetch;
    answer.failure = std::move(why);
    return processes_.send(process, std::move(answer));
  }
  entry->readers[process] = message.fetch;
  if (message.argument) {
    entry->argument = true;
    if (entry->pull != 0) transfers_.hurry(entry->pull);
  }
  seek(object);
}

void Objects::cancel_fetch(ProcessId process, ObjectId object) {
  ObjectEntry* entry = find(object);
  if (entry == nullptr || entry->readers.erase(process) == 0) return;
  const bool unread = entry->readers.empty() && entry->askers.empty();
  if (unread && entry->pull != 0 && !saving_.contains(object)) transfers_.unwant(entry->pull);
}

void Objects::place_returned(ProcessId process, const UnpinReply& message) {
  ObjectEntry* entry = find(message.object);
  if (entry == nullptr) return;
  const auto at = entry->in_place.find(process);
  if (at == entry->in_place.end() || at->second.fetch != message.fetch) return;
  entry->in_place.erase(at);
  room_due_ = true;
}

bool Objects::in_place(ProcessId process, ObjectId object) const {
  const ObjectEntry* entry = entries_.find(object);
  return entry != nullptr && entry->in_place.contains(process);
}

void Objects::answer_readable(ProcessId process, ObjectId object, std::uint64_t fetch) {
  const Place place = table_.find(object)->place;
  ObjectEntry& entry = entries_.at(object);
  entry.last_use = outbox_.now();
  if (processes_.attached(process))
    entry.in_place.insert_or_assign(process, ObjectEntry::InPlace{fetch, {}});
  const auto slab_bytes =
      static_cast<std::int64_t>(table_.space().owner_of(place.slab)->size_bytes);
  processes_.send_with_slab(process, place.slab, [&](bool given) {
    FetchObjectReply answer;
    answer.object = object;
    answer.place = {slab_number(place.slab), static_cast<std::int64_t>(place.offset),
                    static_cast<std::int64_t>(place.size_bytes)};
    answer.new_slab = given;
    answer.slab_bytes = slab_bytes;
    answer.is_error = entry.is_error;
    answer.contained = entry.contained;
    answer.fetch = fetch;
    return answer;
  });
}

void Objects::fail_readers(ObjectId object, const Failure& why) {
  ObjectEntry* entry = find(object);
  if (entry == nullptr) return;
  for (const auto& [reader, fetch] : std::exchange(entry->readers, {})) {
    FetchObjectReply answer;
    answer.object = object;
    answer.failure = why;
    answer.fetch = fetch;
    processes_.send(reader, std::move(answer));
  }
}

void Objects::became_sealed(ObjectId object) {
  ObjectEntry& entry = entries_.at(object);
  entry.failure.reset();
  entry.argument = false;
  entry.tries = 0;
  entry.unread.clear();
  entry.locate_by.reset();
  entry.candidates.clear();
  pin_contained(object);
  for (const auto& [reader, fetch] : std::exchange(entries_.at(object).readers, {})) {
    answer_readable(reader, object, fetch);
  }
  if (at_home(entry)) {
    answer_askers(object);
    if (!drained_.empty()) release_drained_keepers(object);
  } else if (!entry.copy_reported) {
    report_copy(object, true);
  }
}

}  // namespace mobula::internal::worker
