// Values on their way into the store of the node: reservation, write, and seal.
#include "base/coverage_mark.h"
#include "client/core/refs/object_refs.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_stored_again("client.value_stored_again_for_a_new_agent");
const CoverageMark mark_stored_before("client.value_stored_by_an_earlier_attempt");
const CoverageMark mark_abandoned("client.write_abandoned_before_location");
const CoverageMark mark_store_retry("client.escaped_value_found_store_full");

}  // namespace

void ObjectRefs::store_inline(ObjectId object, ObjectRow& row) {
  if (row.storing) return;
  row.storing = true;
  writes_[object] = WriteRow{.size_bytes = row.value->size_bytes,
                             .owner = step_.process(),
                             .home = step_.node(),
                             .escaping = true,
                             .retry_at = {}};
  step_.send_to_agent(ReserveObjectRequest{object, row.value->size_bytes});
}

// The store that held the value is lost, but its bytes are still mapped here. Only that store may
// have held the contents of the value.
void ObjectRefs::store_again(ObjectId object, ObjectRow& row) {
  if (row.storing) return;
  mark_stored_again.hit();
  row.storing = true;
  writes_[object] = WriteRow{.size_bytes = row.value->size_bytes,
                             .owner = step_.process(),
                             .home = step_.node(),
                             .escaping = true,
                             .copy_of = row.reading->location,
                             .retry_at = {}};
  step_.send_to_agent(ReserveObjectRequest{object, row.value->size_bytes});
  const auto contained = row.value->contained;
  for (const auto& ref : contained) pin(ref);
}

void ObjectRefs::on(const ReserveSpace& event) {
  writes_[event.object] = WriteRow{.size_bytes = event.size_bytes,
                                   .owner = event.owner,
                                   .home = event.home,
                                   .escaping = false,
                                   .retry_at = {}};
  step_.send_to_agent(ReserveObjectRequest{event.object, event.size_bytes});
}

// A reply on its way finds no write row. The agent has released the memory by then.
void ObjectRefs::on(const AbandonWrite& event) {
  const auto* write = writes_.find(event.object);
  if (write == nullptr || write->escaping) return;
  mark_abandoned.hit();
  writes_.erase(event.object);
  step_.send_to_agent(ReleaseObject{event.object, true});
}

void ObjectRefs::on(const ReserveObjectReply& message) {
  auto* write = writes_.find(message.object);
  if (write == nullptr) return;
  write->location = message.failure ? SlabRange{} : message.location;
  if (message.failure && message.failure->code == ErrorCode::already_exists) {
    // An earlier attempt stored the value, perhaps for a home that died since. The present home
    // must accept it before its existence is reported.
    mark_stored_before.hit();
    write->there = message.failure;
    return step_.send_to_agent(
        SealObjectRequest{message.object, write->owner, write->home, false, {}});
  }
  if (!write->escaping) {
    step_.emit(SpaceReserved{message.object, message.location, {}, {}, false, message.failure, {}});
    if (message.failure) writes_.erase(message.object);
    return;
  }
  if (message.failure) {
    mark_store_retry.hit();
    write->retry_at = step_.now() + 100ms;
    return write_retries_.add(*write->retry_at, message.object);
  }
  const ObjectRow& row = rows_.at(message.object);
  step_.emit(SpaceReserved{message.object, message.location, row.value->bytes, row.value->contained,
                           row.value->is_error, std::nullopt, write->copy_of});
}

void ObjectRefs::on(const ValueWritten& event) {
  const auto* found = writes_.find(event.object);
  if (found == nullptr) return;
  const WriteRow write = *found;
  const auto* position = rows_.find(event.object);
  const bool by_position = position != nullptr && position->owned && position->position;
  for (const auto& ref : event.contained) escape(ref.object, by_position);
  if (!write.lost) {
    step_.send_to_agent(
        SealObjectRequest{event.object, write.owner, write.home, event.is_error, event.contained});
  } else {
    writes_.erase(event.object);
  }
  if (write.owner != step_.process() || write.escaping) return;
  ValueRecord value;
  value.in_store = true;
  value.is_error = event.is_error;
  value.size_bytes = write.size_bytes;
  value.location = step_.node();
  value.contained = event.contained;
  ObjectRow& row = own(event.object, TaskId());
  row.written = true;
  row.reading.edit().location = write.location;
  complete(event.object, std::move(value));
  if (write.lost && !row.is_kept_tensor()) store_again(event.object, rows_.at(event.object));
  if (write.lost)
    step_.emit(ValueSealed{event.object});  // nowhere: the agent that was to hold it is gone
}

void ObjectRefs::on(const ValueUnreadable& event) {
  auto* row = rows_.find(event.object);
  const auto* write = writes_.find(event.object);
  if (row == nullptr || write == nullptr || !write->escaping) return;
  writes_.erase(event.object);
  row->storing = row->readable = row->written = false;
  const auto contained = row->value->contained;
  step_.send_to_agent(ReleaseObject{event.object});
  reconstruct(event.object, "the agent of its node died, and its memory cannot be read any more");
  for (const auto& ref : contained) unpin(ref.object);
}

void ObjectRefs::on(const SealObjectReply& message) {
  const auto* write = writes_.find(message.object);
  if (write == nullptr) return;
  const WriteRow done = *write;
  writes_.erase(message.object);
  if (!done.escaping) {
    if (done.there) step_.emit(SpaceReserved{message.object, {}, {}, {}, false, done.there, {}});
    return step_.emit(ValueSealed{message.object});
  }
  auto* row = rows_.find(message.object);
  if (row == nullptr) return;
  row->storing = false;
  row->value.edit().in_store = true;
  row->value.edit().location = step_.node();
  changed(message.object);  // a call may wait to leave until it is stored
  const bool copied = done.copy_of.slab != 0;
  if (copied && !row->readable) row->reading.edit().location = done.location;
  const auto contained = copied ? row->value->contained : RefRecords{};
  if (copied && row->wants > 0 && !row->readable) fetch(message.object, *row);
  drop_if_unused(message.object);
  for (const auto& ref : contained) unpin(ref.object);
}

void ObjectRefs::tick_writes() {
  while (const auto object = write_retries_.take_due(step_.now())) {
    auto* write = writes_.find(*object);
    if (write == nullptr || !write->retry_at || *write->retry_at > step_.now()) continue;
    write->retry_at.reset();
    step_.send_to_agent(ReserveObjectRequest{*object, write->size_bytes});
  }
}

}  // namespace mobula::internal::client
