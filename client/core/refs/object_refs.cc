#include "client/core/refs/object_refs.h"

#include <utility>

#include "base/coverage_mark.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_discarded("client.result_nobody_wants");
const CoverageMark mark_escaped_pending("client.pending_object_escaped");
const CoverageMark mark_returned("client.unpinned");

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

ObjectRow& ObjectRefs::own(ObjectId object, TaskId creator) {
  auto [row, fresh] = rows_.ensure(object);
  row->owned = true;
  row->creator = creator;
  ++row->refs;
  return *row;
}

ObjectRow& ObjectRefs::borrow(const RefRecord& ref) {
  if (auto* known = find_expanded(ref.object)) return *known;
  ObjectRow& row = rows_[ref.object];
  row.ref = ref;
  if (!ref.actor.empty()) port_.watch_actor(ref.actor);
  return row;
}

ObjectRow* ObjectRefs::find_expanded(ObjectId object) {
  port_.expand_result(object);
  return rows_.find(object);
}

WatcherIndex* ObjectRefs::watchers(ObjectId object) {
  auto* row = rows_.find(object);
  return row == nullptr ? port_.compact().watchers(object) : &row->watchers;
}

const ObjectRow* ObjectRefs::object(ObjectId object) const {
  const auto* row = rows_.find(object);
  return row == nullptr && port_.compact().contains(object) ? &pending_result() : row;
}

RefRecord ObjectRefs::ref_of(ObjectId id) const {
  const auto* row = object(id);
  MOBULA_CHECK(row != nullptr, "no such object");
  return row->ref.is_empty() ? RefRecord{id, step_.node(), step_.process(), {}} : *row->ref;
}

// False for a detached actor, whose holders nothing counts.
bool ObjectRefs::has_home(const ObjectRow& row) const {
  return row.ref.is_empty() ? !step_.node().empty() : !row.ref->home.empty();
}

void ObjectRefs::ensure_hold(ObjectId object, ObjectRow& row) {
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
  const bool lent =
      !replying_actor_.empty() && row.ref->owner == replying_actor_ && !row.ref->tensor.is_empty();
  if (lent) return put_off_hold(object, row);
  row.hold = HoldState::requested;
  step_.send_to_agent(HoldObjectRequest{ref_of(object)});
}

// A ref leaves for another process, which relies on the home from now on.
void ObjectRefs::escape(ObjectId object, bool by_position) {
  hold_now(object);
  export_own(object, by_position);
}

// A ref to an own object leaves inside a value: other processes may now request it from the home.
// `by_position`: only the position before it in its stream refers to it.
void ObjectRefs::export_own(ObjectId object, bool by_position) {
  auto* row = find_expanded(object);
  if (row != nullptr && row->lent) row->passed_on = true;
  if (row != nullptr && row->position && !row->owned) reads_.note_left(object);
  if (row == nullptr || !row->owned || !has_home(*row) || step_.job_ended()) return;
  if (row->position && !by_position) port_.stream_used(row->creator, object, StreamUse::passed_on);
  if (row->exported) return;
  row->exported = true;
  ends_.mark_read(row->creator);  // other processes may read it
  if (!row->ready) mark_escaped_pending.hit();
  const ObjectId stream = row->position ? position_id(row->creator, 0) : ObjectId();
  step_.send_to_agent(ExportObject{object, row->is_kept_tensor(), {}, stream});
  if (row->ready && !row->value->in_store && !row->is_kept_tensor()) store_inline(object, *row);
}

void ObjectRefs::escape_contained(const ValueRecord& value) {
  for (const auto& ref : value.contained) export_own(ref.object);
}

void ObjectRefs::complete(ObjectId object, ValueRecord value) {
  if (auto* row = rows_.find(object)) return complete(object, row, std::move(value));
  mark_discarded.hit();
  if (value.in_store) step_.send_to_agent(ReleaseObject{object});  // it was held for this process
}

void ObjectRefs::complete(ObjectId object, ObjectRow* row, ValueRecord&& value) {
  if (row->ready) return;  // a superseded attempt made the same value
  if (row->released) {
    // A position of a stream. The home may have forgotten it, with an ExportReleased on its way,
    // which precedes the replies to the write of this value.
    row->released = false;
    step_.send_to_agent(
        ExportObject{object, row->is_kept_tensor(), {}, position_id(row->creator, 0)});
  }
  row->ready = true;
  row->value = std::move(value);
  if (row->exported && row->value->is_error) ends_.mark_read(row->creator);
  row->forget_failure();
  if (row->is_inline()) {
    // The store holds the contents of a stored value, and this process holds those of an inline
    // value.
    if (!row->value->contained.empty()) {
      const auto contained = row->value->contained;
      for (const auto& ref : contained) pin(ref);
      row = &rows_.at(object);
    }
    if (row->exported && !row->value->in_store) store_inline(object, *row);
  } else if (row->wants > 0) {
    fetch(object, *row);
  }
  changed(object);
  // The last ref or pin that a waiting call releases drops the object too.
  const bool unused = row->refs == 0 && row->pins == 0;
  port_.argument_ready(object);
  if (unused) drop_if_unused(object);
}

void ObjectRefs::fail(ObjectId object, ErrorRecord error) { complete(object, error_value(error)); }

void ObjectRefs::pin(const RefRecord& ref) {
  ObjectRow& row = borrow(ref);
  ++row.pins;
  ensure_hold(ref.object, row);
}

void ObjectRefs::unpin(ObjectId object) {
  auto* row = rows_.find(object);
  if (row == nullptr) return;
  MOBULA_CHECK(row->pins > 0, "unpinned more often than pinned");
  --row->pins;
  drop_if_unused(object, *row);
}

// Drops an object that this process does not need. An exported object stays, with its lineage,
// until its home reports that no process holds it.
void ObjectRefs::drop_if_unused(ObjectId object) {
  auto* row = rows_.find(object);
  if (row != nullptr) drop_if_unused(object, *row);
}

void ObjectRefs::drop_if_unused(ObjectId object, ObjectRow& row) {
  if (row.refs > 0 || row.pins > 0) return;
  // Objects that follow in the list may be erased before their turn.
  drops_.run(object, [this, known = &row](ObjectId each) mutable {
    ObjectRow* const first = std::exchange(known, nullptr);
    drop_one(each, first != nullptr ? first : rows_.find(each));
  });
}

void ObjectRefs::drop_one(ObjectId object, ObjectRow* row) {
  if (row == nullptr || row->refs > 0 || row->pins > 0 || row->storing || row->passed_on) return;
  if (!row->owned) {
    const bool put_off = row->hold == HoldState::put_off;
    const bool unconfirmed = row->hold == HoldState::requested || put_off;
    if (row->hold != HoldState::none && !put_off) step_.send_to_agent(ReleaseObject{object});
    const ActorId actor = row->actor();
    erase_object(object);
    // not needed here any more: no acknowledgement is due
    if (unconfirmed) streams_.ref_settled(object, !put_off);
    if (!actor.empty()) port_.forget_actor(actor);
    return;
  }
  if (row->exported) {
    // Other processes may wait for it. The home of a position reports when none does.
    const bool unfinished = row->actor().empty() && !row->ready && !row->position;
    if (unfinished || row->released) return;
    row->released = true;
    step_.send_to_agent(ReleaseObject{object});
    return;
  }
  if (row->ready && row->value->in_store) step_.send_to_agent(ReleaseObject{object});
  const ActorId actor = row->actor();
  erase_object(object);
  if (!actor.empty()) port_.forget_actor(actor);
}

void ObjectRefs::erase_object(ObjectId object) {
  const ObjectRow row = rows_.take(object);
  if (row.position && !row.owned) reads_.note_left(object);
  if (row.lent || row.unsaid) borrows_.erase(object);
  if (row.readable) step_.emit(DropLocation{object, row.reading->location});
  if (row.is_kept_tensor()) step_.emit(TensorUnneeded{object});
  if (row.ready && row.is_inline()) {
    for (const auto& ref : row.value->contained) unpin(ref.object);
  }
  if (!row.creator.empty()) port_.result_dropped(row.creator);
}

void ObjectRefs::fetch(ObjectId object, ObjectRow& row, bool argument) {
  if (row.storing && !row.is_inline()) return;  // fetched once it is in the new store
  if (row.readable || row.fetching) return;
  row.fetching = true;
  row.forget_failure();
  if (!row.owned && row.hold != HoldState::confirmed) row.hold = HoldState::requested;
  const std::uint64_t number = row.reading.edit().fetch = ++fetches_;
  step_.send_to_agent(FetchObjectRequest{ref_of(object), row.ready ? row.value->location : NodeId(),
                                         number, argument});
}

// No thread of this process reads the bytes, so they may leave memory. A later reader fetches them
// again.
void ObjectRefs::return_location(ObjectId object, ObjectRow& row) {
  mark_returned.hit();
  row.readable = row.written = row.return_requested = false;
  step_.emit(DropLocation{object, row.reading->location});
  step_.send_to_agent(UnpinReply{object, row.reading->location_fetch});
}

// ---- events ------------------------------------------------------------------------------------

void ObjectRefs::on(PutInline& event) {
  ObjectRow* const row = &own(event.object, TaskId());
  escape_contained(event.value);
  complete(event.object, row, std::move(event.value));
}

void ObjectRefs::on(const ErrorRead& event) {
  if (const auto* row = rows_.find(event.object)) ends_.mark_read(row->creator);
}

void ObjectRefs::on(const KeepTensor& event) {
  ObjectRow& row = own(event.ref.object, TaskId());
  row.ref = event.ref;
  row.ready = true;
}

// The job ended: no process can request its objects, and no store accepts bytes for it.
void ObjectRefs::unshare() {
  step_.end_job();
  std::vector<ObjectId> shared;
  for (auto& [object, row] : rows_) {
    if (!row.owned || (!row.exported && !row.storing)) continue;
    row.exported = row.released = row.storing = false;
    shared.push_back(object);
  }
  for (const ObjectId object : shared) {
    const auto* write = writes_.find(object);
    const bool copying = write != nullptr && write->escaping && write->copy_of.slab != 0;
    const auto contained = copying ? rows_.at(object).value->contained : RefRecords{};
    if (write != nullptr && write->escaping) writes_.erase(object);
    drop_if_unused(object);
    for (const auto& ref : contained) unpin(ref.object);
  }
}

bool ObjectRefs::retain_quietly(ObjectId object) {
  auto* row = rows_.find(object);
  if (row == nullptr) return port_.compact().retain(object);
  const bool is_held =
      row->lent || (row->owned ? !row->released : row->hold != HoldState::none || !has_home(*row));
  if (is_held) ++row->refs;
  return is_held;
}

bool ObjectRefs::release_quietly(ObjectId object) {
  auto* row = rows_.find(object);
  if (row == nullptr) return port_.compact().release(object);
  if (row->refs < 2) return false;
  --row->refs;
  return true;
}

// No action is needed for an inline value, or for a value that is being made or fetched.
bool ObjectRefs::want_quietly(ObjectId object) {
  auto* row = rows_.find(object);
  if (row == nullptr) return port_.compact().want(object);
  if (row->reading->failure || row->lost) return false;
  const bool nothing_to_do =
      row->ready ? row->is_inline() || row->readable || row->fetching : row->owned || row->fetching;
  if (nothing_to_do) ++row->wants;
  return nothing_to_do;
}

bool ObjectRefs::unwant_quietly(ObjectId object) {
  auto* row = rows_.find(object);
  if (row == nullptr) return port_.compact().unwant(object);
  if (row->wants == 0 || (row->wants == 1 && row->return_requested)) return false;
  --row->wants;
  return true;
}

void ObjectRefs::on(const RetainRef& event) { retain(event.object); }

const ObjectRow* ObjectRefs::retain(ObjectId object) {
  auto* row = rows_.find(object);
  if (row == nullptr) return port_.compact().retain(object) ? &pending_result() : nullptr;
  ++row->refs;
  ensure_hold(object, *row);
  return row;
}

void ObjectRefs::on(const ReleaseRef& event) {
  auto* row = rows_.find(event.object);
  if (row == nullptr) return void(port_.compact().release(event.object));
  MOBULA_CHECK(row->refs > 0, "released more refs than were taken");
  --row->refs;
  if (row->position && row->owned && row->refs == 0) {
    port_.stream_used(row->creator, event.object, StreamUse::released);
    return drop_if_unused(event.object);  // the row may be erased
  }
  drop_if_unused(event.object, *row);
}

void ObjectRefs::on(const AdoptRef& event) {
  ObjectRow& row = borrow(event.ref);
  ++row.refs;
  ensure_hold(event.ref.object, row);
}

void ObjectRefs::on(const TakeItem& event) {
  const auto* row = rows_.find(event.position);
  if (row == nullptr || !row->ready) return;
  const bool of_stream = row->owned && row->position;
  const TaskId creator = row->creator;
  const auto value = row->value;
  for (const auto& ref : value->contained) on(AdoptRef{ref});
  if (of_stream) port_.stream_used(creator, event.position, StreamUse::taken);
}

void ObjectRefs::on(const ItemRead& event) {
  const auto* row = rows_.find(event.position);
  auto* next = rows_.find(event.next);
  if (row == nullptr || row->owned || row->ref.is_empty() || next == nullptr) return;
  if (reads_.note_taken(*row->ref, event.link, event.next)) next->position = true;
}

void ObjectRefs::on(const WantObject& event) {
  auto* row = rows_.find(event.object);
  if (row == nullptr) return void(port_.compact().want(event.object));
  ++row->wants;
  // Its home may have the bytes again.
  if (row->lost) {
    row->lost = row->ready = false;
    row->value = CopyOnWrite<ValueRecord>();
  }
  if (row->ready && row->is_inline()) return;
  row->forget_failure();
  if (row->ready || !row->owned) fetch(event.object, *row, event.argument);
}

void ObjectRefs::on(const UnwantObject& event) {
  auto* row = rows_.find(event.object);
  if (row == nullptr) return void(port_.compact().unwant(event.object));
  if (row->wants == 0) return;
  if (--row->wants == 0 && row->return_requested) return_location(event.object, *row);
}

}  // namespace mobula::internal::client
