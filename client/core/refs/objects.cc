// References and values: processes that may read an object, and the location of its bytes.
#include <utility>

#include "base/coverage_mark.h"
#include "client/core/client_core.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_discarded("client.result_nobody_wants");
const CoverageMark mark_reconstructed("client.object_reconstructed");
const CoverageMark mark_lost("client.object_lost");
const CoverageMark mark_escaped_pending("client.pending_object_escaped");
const CoverageMark mark_returned("client.place_returned");

void forget_failure(ObjectRow& row) {
  if (row.reading->failure) row.reading.edit().failure.reset();
}

bool is_inline(const ValueRecord& value) { return !value.in_store || !value.bytes.empty(); }

// Row shown for a result that has no row.
const ObjectRow& pending_result() {
  static const ObjectRow row = [] {
    ObjectRow pending;
    pending.owned = true;
    pending.refs = 1;
    return pending;
  }();
  return row;
}

}  // namespace

ObjectRow& ClientCore::own_object(ObjectId object, TaskId creator) {
  auto [row, fresh] = objects_.ensure(object);
  row->owned = true;
  row->creator = creator;
  ++row->refs;
  return *row;
}

ObjectRow& ClientCore::borrow(const RefRecord& ref) {
  if (auto* known = find_object(ref.object)) return *known;
  ObjectRow& row = objects_[ref.object];
  row.ref = ref;
  if (!ref.actor.empty()) actors_.watch(ref.actor);
  return row;
}

ObjectRow* ClientCore::find_object(ObjectId object) {
  dispatcher_.expand_result(object);
  return objects_.find(object);
}

const ObjectRow* ClientCore::object(ObjectId object) const {
  const auto* row = objects_.find(object);
  return row == nullptr && dispatcher_.compact().contains(object) ? &pending_result() : row;
}

RefRecord ClientCore::ref_of(ObjectId id) const {
  const auto* row = object(id);
  MOBULA_CHECK(row != nullptr, "no such object");
  return row->ref.is_empty() ? RefRecord{id, step_.node(), step_.process(), {}} : *row->ref;
}

// False for a detached actor, whose holders nothing counts.
bool ClientCore::has_home(const ObjectRow& row) const {
  return row.ref.is_empty() ? !step_.node().empty() : !row.ref->home.empty();
}

void ClientCore::ensure_hold(ObjectId object, ObjectRow& row) {
  if (row.lent) return;
  if (row.owned) {
    // A released object is used here again: the home must count this process again.
    if (row.released) {
      row.released = false;
      step_.send_to_agent(HoldObjectRequest{ref_of(object)});
    }
    return;
  }
  if (row.hold != HoldState::none || !has_home(row)) return;
  const bool lent = !replies_.empty() && row.ref->owner == replies_ && !row.ref->tensor.is_empty();
  if (lent) return put_off_hold(object, row);
  row.hold = HoldState::asked;
  step_.send_to_agent(HoldObjectRequest{ref_of(object)});
}

// A ref leaves for another process, which relies on the home from now on.
void ClientCore::escape(ObjectId object) {
  hold_now(object);
  export_own(object);
}

// A ref to an own object leaves inside a value: other processes may now request it from the home.
void ClientCore::export_own(ObjectId object) {
  auto* row = find_object(object);
  if (row != nullptr && row->lent) row->passed_on = true;
  if (row == nullptr || !row->owned || row->exported || !has_home(*row) || step_.job_ended())
    return;
  row->exported = true;
  ends_.mark_read(row->creator);  // other processes may read it
  if (!row->ready) mark_escaped_pending.hit();
  step_.send_to_agent(ExportObject{object, row->is_kept_tensor()});
  if (row->ready && !row->value->in_store && !row->is_kept_tensor()) store_inline(object, *row);
}

void ClientCore::escape_contained(const ValueRecord& value) {
  for (const auto& ref : value.contained) export_own(ref.object);
}

void ClientCore::complete(ObjectId object, ValueRecord value) {
  auto* row = objects_.find(object);
  if (row == nullptr) {
    mark_discarded.hit();
    if (value.in_store) step_.send_to_agent(ReleaseObject{object});  // it was held for this process
    return;
  }
  if (row->ready) return;  // a superseded attempt made the same value
  row->ready = true;
  row->value = std::move(value);
  if (row->exported && row->value->is_error) ends_.mark_read(row->creator);
  forget_failure(*row);
  if (is_inline(*row->value)) {
    // The store holds the contents of a stored value, and this process holds those of an inline
    // value.
    const auto contained = row->value->contained;
    for (const auto& ref : contained) pin(ref);
    row = &objects_.at(object);
    if (row->exported && !row->value->in_store) store_inline(object, *row);
  } else if (row->wants > 0) {
    fetch(object, *row);
  }
  changed(object);
  argument_ready(object);
  drop_if_unused(object);
}

void ClientCore::fail_object(ObjectId object, ErrorRecord error) {
  complete(object, error_value(error));
}

void ClientCore::pin(const RefRecord& ref) {
  ObjectRow& row = borrow(ref);
  ++row.pins;
  ensure_hold(ref.object, row);
}

void ClientCore::unpin(ObjectId object) {
  auto* row = objects_.find(object);
  if (row == nullptr) return;
  MOBULA_CHECK(row->pins > 0, "unpinned more often than pinned");
  --row->pins;
  drop_if_unused(object);
}

// Drops an object that this process does not need. An exported object stays, with its lineage,
// until its home reports that no process holds it.
void ClientCore::drop_if_unused(ObjectId object) {
  drops_.run(object, [this](ObjectId each) { drop_one(each); });
}

void ClientCore::drop_one(ObjectId object) {
  auto* row = objects_.find(object);
  if (row == nullptr || row->refs > 0 || row->pins > 0 || row->storing || row->passed_on) return;
  if (!row->owned) {
    const bool put_off = row->hold == HoldState::put_off;
    const bool unconfirmed = row->hold == HoldState::asked || put_off;
    if (row->hold != HoldState::none && !put_off) step_.send_to_agent(ReleaseObject{object});
    const ActorId actor = row->actor();
    erase_object(object);
    // not needed here any more: no acknowledgement is due
    if (unconfirmed) streams_.ref_settled(object, !put_off);
    if (!actor.empty()) actors_.forget(actor);
    return;
  }
  if (row->exported) {
    const bool unfinished = row->actor().empty() && !row->ready;
    if (unfinished || row->released) return;  // other processes may wait for it
    row->released = true;
    step_.send_to_agent(ReleaseObject{object});
    return;
  }
  if (row->ready && row->value->in_store) step_.send_to_agent(ReleaseObject{object});
  const ActorId actor = row->actor();
  erase_object(object);
  if (!actor.empty()) actors_.forget(actor);
}

void ClientCore::erase_object(ObjectId object) {
  ObjectRow row = std::move(objects_.at(object));
  objects_.erase(object);
  if (row.lent || row.unsaid) loans_.erase(object);
  if (row.readable) step_.emit(DropPlace{object, row.reading->place});
  if (row.is_kept_tensor()) step_.emit(TensorUnneeded{object});
  if (row.ready && is_inline(*row.value)) {
    for (const auto& ref : row.value->contained) unpin(ref.object);
  }
  if (auto* task = tasks_.find(row.creator)) {
    if (task->live_results > 0) --task->live_results;
    if (task->live_results == 0 && task->state == TaskState::finished) forget_task(row.creator);
  }
}

void ClientCore::fetch(ObjectId object, ObjectRow& row, bool argument) {
  if (row.storing && !is_inline(*row.value)) return;  // fetched once it is in the new store
  if (row.readable || row.fetching) return;
  row.fetching = true;
  forget_failure(row);
  if (!row.owned && row.hold != HoldState::confirmed) row.hold = HoldState::asked;
  const std::uint64_t number = row.reading.edit().fetch = ++fetches_;
  step_.send_to_agent(FetchObjectRequest{ref_of(object), row.ready ? row.value->location : NodeId(),
                                         number, argument});
}

// No thread of this process reads the bytes, so they may leave memory. A later reader fetches them
// again.
void ClientCore::return_place(ObjectId object, ObjectRow& row) {
  mark_returned.hit();
  row.readable = row.written = row.return_asked = false;
  step_.emit(DropPlace{object, row.reading->place});
  step_.send_to_agent(UnpinReply{object, row.reading->place_fetch});
}

// ---- events ------------------------------------------------------------------------------------

void ClientCore::on(PutInline& event) {
  own_object(event.object, TaskId());
  escape_contained(event.value);
  complete(event.object, std::move(event.value));
}

void ClientCore::on(const ErrorRead& event) {
  if (const auto* row = objects_.find(event.object)) ends_.mark_read(row->creator);
}

void ClientCore::on(const KeepTensor& event) {
  ObjectRow& row = own_object(event.ref.object, TaskId());
  row.ref = event.ref;
  row.ready = true;
}

// The job ended: no process can request its objects, and no store accepts bytes for it.
void ClientCore::unshare() {
  step_.end_job();
  std::vector<ObjectId> shared;
  for (auto& [object, row] : objects_) {
    if (!row.owned || (!row.exported && !row.storing)) continue;
    row.exported = row.released = row.storing = false;
    shared.push_back(object);
  }
  for (const ObjectId object : shared) {
    const auto* write = writes_.find(object);
    const bool copying = write != nullptr && write->escaping && write->copy_of.slab != 0;
    const auto contained = copying ? objects_.at(object).value->contained : RefRecords{};
    if (write != nullptr && write->escaping) writes_.erase(object);
    drop_if_unused(object);
    for (const auto& ref : contained) unpin(ref.object);
  }
}

bool ClientCore::retain_quietly(ObjectId object) {
  auto* row = objects_.find(object);
  if (row == nullptr) return dispatcher_.compact().retain(object);
  const bool is_held =
      row->lent || (row->owned ? !row->released : row->hold != HoldState::none || !has_home(*row));
  if (is_held) ++row->refs;
  return is_held;
}

bool ClientCore::release_quietly(ObjectId object) {
  auto* row = objects_.find(object);
  if (row == nullptr) return dispatcher_.compact().release(object);
  if (row->refs < 2) return false;
  --row->refs;
  return true;
}

// No action is needed for an inline value, or for a value that is being made or fetched.
bool ClientCore::want_quietly(ObjectId object) {
  auto* row = objects_.find(object);
  if (row == nullptr) return dispatcher_.compact().want(object);
  if (row->reading->failure || row->lost) return false;
  const bool nothing_to_do = row->ready ? is_inline(*row->value) || row->readable || row->fetching
                                        : row->owned || row->fetching;
  if (nothing_to_do) ++row->wants;
  return nothing_to_do;
}

bool ClientCore::unwant_quietly(ObjectId object) {
  auto* row = objects_.find(object);
  if (row == nullptr) return dispatcher_.compact().unwant(object);
  if (row->wants == 0 || (row->wants == 1 && row->return_asked)) return false;
  --row->wants;
  return true;
}

void ClientCore::on(const RetainRef& event) {
  auto* row = objects_.find(event.object);
  if (row == nullptr) return void(dispatcher_.compact().retain(event.object));
  ++row->refs;
  ensure_hold(event.object, *row);
}

void ClientCore::on(const ReleaseRef& event) {
  auto* row = objects_.find(event.object);
  if (row == nullptr) return void(dispatcher_.compact().release(event.object));
  MOBULA_CHECK(row->refs > 0, "released more refs than were taken");
  --row->refs;
  drop_if_unused(event.object);
}

void ClientCore::on(const AdoptRef& event) {
  ObjectRow& row = borrow(event.ref);
  ++row.refs;
  ensure_hold(event.ref.object, row);
}

void ClientCore::on(const WantObject& event) {
  auto* row = objects_.find(event.object);
  if (row == nullptr) return void(dispatcher_.compact().want(event.object));
  ++row->wants;
  // Its home may have the bytes again.
  if (row->lost) {
    row->lost = row->ready = false;
    row->value = CopyOnWrite<ValueRecord>();
  }
  if (row->ready && is_inline(*row->value)) return;
  forget_failure(*row);
  if (row->ready || !row->owned) fetch(event.object, *row, event.argument);
}

void ClientCore::on(const UnwantObject& event) {
  auto* row = objects_.find(event.object);
  if (row == nullptr) return void(dispatcher_.compact().unwant(event.object));
  if (row->wants == 0) return;
  if (--row->wants == 0 && row->return_asked) return_place(event.object, *row);
}

// ---- messages of the agent ----------------------------------------------------------------------

void ClientCore::heard(const HoldObjectReply& message) {
  auto* row = objects_.find(message.object);
  if (row && !row->owned && row->hold == HoldState::asked) row->hold = HoldState::confirmed;
  changed(message.object);
  streams_.ref_settled(message.object, true);
}

void ClientCore::heard(const FetchObjectReply& message) {
  auto* row = objects_.find(message.object);
  // the object was dropped in between
  if (row == nullptr || message.fetch != row->reading->fetch) return;
  row->fetching = false;
  if (message.failure) {
    if (message.failure->code == ErrorCode::unavailable) {
      return reconstruct(message.object, message.failure->text);
    }
    row->reading.edit().failure = message.failure;
    changed(message.object);
    return end_doubt(message.object);
  }
  if (!row->owned) row->hold = HoldState::confirmed;
  const bool first = !row->ready;
  row->ready = true;
  row->readable = true;
  row->reading.edit().place = message.place;
  row->reading.edit().place_fetch = message.fetch;
  row->return_asked = false;
  ValueRecord& value = row->value.edit();
  value.in_store = true;
  value.is_error = message.is_error;
  value.size_bytes = message.place.size_bytes;
  value.location = step_.node();
  value.contained = message.contained;
  changed(message.object);
  if (first) argument_ready(message.object);
  end_doubt(message.object);
  heard(HoldObjectReply{message.object});
}

void ClientCore::heard(const UnpinRequest& message) {
  auto* row = objects_.find(message.object);
  const bool has_it = row != nullptr && row->readable && row->reading->place_fetch == message.fetch;
  if (has_it && row->wants > 0) {
    row->return_asked = true;
    return;
  }
  if (has_it && message.fetch != 0) return return_place(message.object, *row);
  // This process may keep reading a value that it wrote through another fetch, but cannot find it
  // there again.
  if (row != nullptr && message.fetch == 0) row->written = false;
  step_.send_to_agent(UnpinReply{message.object, message.fetch});
}

void ClientCore::heard(const ExportReleased& message) {
  auto* row = objects_.find(message.object);
  if (row == nullptr || !row->released) return;
  row->released = false;
  row->exported = false;
  row->value.edit().in_store = row->value->in_store && row->value->bytes.empty();
  if (row->refs > 0 || row->pins > 0) return;
  const ActorId actor = row->actor();
  erase_object(message.object);
  if (!actor.empty()) actors_.forget(actor);
}

void ClientCore::heard(const ObjectGone& message) { reconstruct(message.object, message.cause); }

// The stored bytes are lost. Private bytes are stored again, and a result is recomputed by its
// task. Any other object is lost.
void ClientCore::reconstruct(ObjectId object, const std::string& cause) {
  auto* row = objects_.find(object);
  if (row == nullptr || (row->owned && !row->ready)) return;
  if (row->readable) return;  // still mapped here
  // still mapped, and on its way to a new store
  if (row->storing && !is_inline(*row->value)) return;
  if (row->owned && !row->value->bytes.empty()) {
    row->value.edit().in_store = false;
    if (row->exported) store_inline(object, *row);
    return;
  }
  row->ready = false;
  row->fetching = false;
  row->doubted = false;
  row->value = CopyOnWrite<ValueRecord>();
  row->lost = !row->owned;
  auto* task = row->owned ? tasks_.find(row->creator) : nullptr;
  if (task != nullptr && can_run_again(*task)) {
    mark_reconstructed.hit();
    return run_again(row->creator);
  }
  if (task != nullptr && task->state != TaskState::finished) return;  // already being recomputed
  mark_lost.hit();
  ErrorRecord error;
  error.kind = ErrorKind::object_lost;
  const char* why_not_again = !row->owned            ? ""
                              : row->creator.empty() ? "; it was put, so no task can make it again"
                              : row->lineage_given_up
                                  ? "; its task is too long ago to be run again: lineage is bounded"
                              : task != nullptr && task->retries_left != 0
                                  ? "; its actor is dead, so nobody can make it again"
                                  : "; its task has no retries left to make it again";
  error.text = "object " + object.brief() + " is lost: " + cause + why_not_again;
  // Executors may await it as an argument at their agents, and must read the error.
  if (row->owned) escape(object);
  fail_object(object, std::move(error));
}

// The agent of the node was replaced: its store is empty, and it counts no holds. Mapped values
// stay readable, and own ones are stored again.
void ClientCore::lose_store() {
  std::vector<ObjectId> lost, unused, doubted;
  for (auto& [object, row] : objects_) {
    row.fetching = row.return_asked = false;
    if (!row.reading.is_empty()) row.reading.edit().place_fetch = 0;
    if (!row.owned) {
      if (row.hold == HoldState::asked || row.hold == HoldState::confirmed) {
        row.hold = HoldState::none;
        ensure_hold(object, row);
      }
      if (row.wants > 0 && !row.readable) fetch(object, row);
      if (row.doubted) doubted.push_back(object);
      continue;
    }
    row.released = false;
    if (row.doubted) doubted.push_back(object);
    if (!row.ref.is_empty() && has_home(row)) row.ref.edit().home = step_.node();
    if (row.exported) step_.send_to_agent(ExportObject{object, row.is_kept_tensor()});
    if (row.ready && row.value->in_store && !row.storing) lost.push_back(object);
  }
  // A thread continues its write in the old memory. A write of the shell starts again.
  for (auto& [object, write] : writes_) {
    if (write.owner == step_.process()) write.home = step_.node();
    write.there.reset();
    write.lost = !write.escaping && write.place.slab != 0;
    if (!write.lost) step_.send_to_agent(ReserveObjectRequest{object, write.size_bytes});
  }
  for (const ObjectId object : lost) {
    auto* row = objects_.find(object);
    if (row == nullptr) continue;  // dropped with an earlier one
    const bool mapped = row->value->bytes.empty() && (row->readable || row->written);
    if (mapped) {
      store_again(object, *row);
    } else {
      reconstruct(object, "the agent of its node died");
    }
  }
  for (const ObjectId object : doubted) end_doubt(object);
  for (const auto& [object, row] : objects_) {
    if (row.refs == 0 && row.pins == 0) unused.push_back(object);
  }
  for (const ObjectId object : unused) drop_if_unused(object);
}

}  // namespace mobula::internal::client
