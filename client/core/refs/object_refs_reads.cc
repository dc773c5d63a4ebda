// Bytes of objects: fetches, losses, and recovery, and queries about objects.
#include <algorithm>
#include <utility>

#include "base/coverage_mark.h"
#include "client/core/refs/object_refs.h"
#include "protocol/codec/codec.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_reconstructed("client.object_reconstructed");
const CoverageMark mark_lost("client.object_lost");
const CoverageMark mark_refetched("client.item_of_running_stream_fetched_again");

}  // namespace

ValueRecord error_value(const ErrorRecord& error) {
  ValueRecord value;
  value.is_error = true;
  value.bytes = Payload(encode(error));
  value.size_bytes = static_cast<std::int64_t>(value.bytes.size());
  return value;
}

std::optional<Failure> why_unread(const ObjectRow& row) {
  if (!row.lost) return row.reading->failure;
  const auto error = decode<ErrorRecord>(row.value->bytes.bytes());
  return failure(ErrorCode::unavailable, error ? error->text : "it is lost");
}

void ObjectRefs::on(const HoldObjectReply& message) {
  auto* row = rows_.find(message.object);
  if (row && !row->owned && row->hold == HoldState::requested) row->hold = HoldState::confirmed;
  changed(message.object);
  streams_.ref_settled(message.object, true);
}

void ObjectRefs::on(const FetchObjectReply& message) {
  auto* row = rows_.find(message.object);
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
  row->reading.edit().location = message.location;
  row->reading.edit().location_fetch = message.fetch;
  row->return_requested = false;
  ValueRecord& value = row->value.edit();
  value.in_store = true;
  value.is_error = message.is_error;
  value.size_bytes = message.location.size_bytes;
  value.location = step_.node();
  value.contained = message.contained;
  changed(message.object);
  if (first) port_.argument_ready(message.object);
  end_doubt(message.object);
  on(HoldObjectReply{message.object});
}

void ObjectRefs::on(const UnpinRequest& message) {
  auto* row = rows_.find(message.object);
  const bool has_it =
      row != nullptr && row->readable && row->reading->location_fetch == message.fetch;
  if (has_it && row->wants > 0) {
    row->return_requested = true;
    return;
  }
  if (has_it && message.fetch != 0) return return_location(message.object, *row);
  // This process may keep reading a value that it wrote through another fetch, but cannot find it
  // there again.
  if (row != nullptr && message.fetch == 0) row->written = false;
  step_.send_to_agent(UnpinReply{message.object, message.fetch});
}

void ObjectRefs::on(const ExportReleased& message) {
  auto* row = rows_.find(message.object);
  if (row == nullptr || !row->released) return;
  row->released = false;
  row->exported = false;
  row->value.edit().in_store = row->value->in_store && row->value->bytes.empty();
  // A value on its way to the store is dropped when it is there.
  if (row->refs > 0 || row->pins > 0 || row->storing) return;
  const ActorId actor = row->actor();
  erase_object(message.object);
  if (!actor.empty()) port_.forget_actor(actor);
}

void ObjectRefs::on(const ObjectGone& message) {
  // Other processes may wait for the object at its home, whatever form its next value has.
  export_own(message.object);
  reconstruct(message.object, message.cause);
}

// The stored bytes are lost. Private bytes are stored again, and a result is recomputed by its
// task. Any other object is lost.
void ObjectRefs::reconstruct(ObjectId object, const std::string& cause) {
  auto* row = rows_.find(object);
  if (row == nullptr || (row->owned && !row->ready)) return;
  if (row->readable) return;  // still mapped here
  // still mapped, and on its way to a new store
  if (row->storing && !row->is_inline()) return;
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
  auto* task = row->owned ? port_.find_task(row->creator) : nullptr;
  if (task != nullptr && port_.can_run_again(*task)) {
    mark_reconstructed.hit();
    return port_.run_again(row->creator);
  }
  if (task != nullptr && task->state != TaskState::finished) return;  // already being recomputed
  mark_lost.hit();
  ErrorRecord error;
  error.kind = ErrorKind::object_lost;
  const char* why_not_again =
      !row->owned             ? ""
      : row->creator.empty()  ? "; it was put, so no task can make it again"
      : row->of_cancelled     ? "; its stream was cancelled, and a cancelled call is not "
                                "repeated"
      : row->lineage_given_up ? "; its task is too long ago to be run again: lineage is bounded"
      : task != nullptr && task->retries_left != 0
          ? "; its actor is dead, so no process can make it again"
          : "; its task has no retries left to make it again";
  error.text = "object " + object.brief() + " is lost: " + cause + why_not_again;
  // Executors may await it as an argument at their agents, and must read the error.
  if (row->owned) escape(object);
  fail(object, std::move(error));
}

// True for an item on another node whose call still runs: a call yields each item once, and may
// wait until this one is read.
bool ObjectRefs::is_item_elsewhere(const ObjectRow& row) {
  const NodeId node = row.value->location;
  if (node.empty() || node == step_.node() || !row.value->bytes.empty()) return false;
  const auto* task = port_.find_task(row.creator);
  return task != nullptr && task->call.form->stream.window != 0 &&
         task->state != TaskState::finished;
}

// The agent of the node was replaced: its store is empty, and it counts no holds. Mapped values
// stay readable, and own ones are stored again.
void ObjectRefs::lose_store() {
  std::vector<ObjectId> lost, unused, doubted;
  for (auto& [object, row] : rows_) {
    row.fetching = row.return_requested = false;
    if (!row.reading.is_empty()) row.reading.edit().location_fetch = 0;
    if (!row.owned) {
      if (row.hold == HoldState::requested || row.hold == HoldState::confirmed) {
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
    const ObjectId stream = row.position ? position_id(row.creator, 0) : ObjectId();
    if (row.exported) step_.send_to_agent(ExportObject{object, row.is_kept_tensor(), {}, stream});
    if (row.ready && row.value->in_store && !row.storing) lost.push_back(object);
  }
  // A thread continues its write in the old memory. A write of the shell starts again.
  for (auto& [object, write] : writes_) {
    if (write.owner == step_.process()) write.home = step_.node();
    write.there.reset();
    write.lost = !write.escaping && write.location.slab != 0;
    if (!write.lost) step_.send_to_agent(ReserveObjectRequest{object, write.size_bytes});
  }
  for (const ObjectId object : lost) {
    auto* row = rows_.find(object);
    if (row == nullptr) continue;  // dropped with an earlier one
    const bool mapped = row->value->bytes.empty() && (row->readable || row->written);
    if (mapped) {
      store_again(object, *row);
    } else if (is_item_elsewhere(*row)) {
      mark_refetched.hit();
      escape(object);
      fetch(object, *row);
    } else {
      reconstruct(object, "the agent of its node died");
    }
  }
  for (const ObjectId object : doubted) end_doubt(object);
  for (const auto& [object, row] : rows_) {
    if (row.refs == 0 && row.pins == 0) unused.push_back(object);
  }
  for (const ObjectId object : unused) drop_if_unused(object);
}

// The bytes are readable here, or this node cannot decide.
void ObjectRefs::end_doubt(ObjectId object) {
  auto* row = rows_.find(object);
  if (row == nullptr || !row->doubted) return;
  row->doubted = false;
  if (row->ready) port_.argument_ready(object);
}

// ---- queries ------------------------------------------------------------------------------------

bool ObjectRefs::settled(ObjectId id) const {
  const auto* row = object(id);
  return row == nullptr || is_settled(*row);
}

bool ObjectRefs::is_settled(const ObjectRow& row) {
  if (row.readable || row.reading->failure) return true;
  return row.ready && !(row.value->in_store && row.value->bytes.empty());
}

bool ObjectRefs::is_unread(ObjectId object) const {
  const auto* row = rows_.find(object);
  return row != nullptr && row->ready && row->value->is_error && ends_.is_unread(row->creator);
}

bool ObjectRefs::refers_to(ObjectId object) const {
  return std::ranges::any_of(rows_, [&](const auto& each) {
    const ObjectRow& row = each.second;
    return row.refs > 0 && row.ready &&
           std::ranges::any_of(row.value->contained,
                               [&](const RefRecord& ref) { return ref.object == object; });
  });
}

bool ObjectRefs::holds_unconfirmed(const RefRecords& refs) const {
  return std::ranges::any_of(refs, [&](const RefRecord& ref) {
    const auto* row = rows_.find(ref.object);
    return row && !row->owned && (row->refs > 0 || row->pins > 0) &&
           row->hold == HoldState::requested;
  });
}

bool ObjectRefs::storing(const RefRecords& refs) const {
  return std::ranges::any_of(refs, [&](const RefRecord& ref) {
    const auto* row = rows_.find(ref.object);
    return row && row->storing;
  });
}

std::vector<ObjectId> ObjectRefs::held(const RefRecords& refs) const {
  std::vector<ObjectId> result;
  for (const auto& ref : refs) {
    const auto* row = object(ref.object);
    if (row && !row->owned && (row->refs > 0 || row->pins > 0)) result.push_back(ref.object);
  }
  return result;
}

// ---- time ---------------------------------------------------------------------------------------

std::optional<Time> ObjectRefs::next_deadline() const {
  std::optional<Time> earliest;
  for (const DeferredHolds* each : {&write_retries_, &holds_due_, &exports_due_, &orphans_due_}) {
    const auto at = each->next();
    if (at && (!earliest || *at < *earliest)) earliest = at;
  }
  return earliest;
}

bool ObjectRefs::deadlines_are_exact() const {
  std::optional<Time> first;
  for (const auto& [id, write] : writes_) {
    if (write.retry_at && (!first || *write.retry_at < *first)) first = write.retry_at;
  }
  return first == write_retries_.next();
}

}  // namespace mobula::internal::client
