// Refs that need no hold at the home, because another process keeps a hold while they are in use.
// The caller holds the arguments of its call. The sender of a reply holds the refs in it until the
// receiver reports that it may release them. Only refs to tensor elements are treated this way,
// because most calls do not keep them.
#include <algorithm>

#include "base/coverage_mark.h"
#include "client/core/refs/object_refs.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_kept("client.lent_ref_kept_beyond_its_call");
const CoverageMark mark_lender_died("client.lender_died");
const CoverageMark mark_hold_due("client.put_off_hold_came_due");
const CoverageMark mark_export_due("client.put_off_export_came_due");

bool in_use(const ObjectRow& row) { return row.refs > 0 || row.pins > 0; }

}  // namespace

void ObjectRefs::on(const BorrowRefs& event) {
  for (const auto& ref : event.refs) {
    ObjectRow& row = borrow(ref);
    ++row.refs;
    row.lent = true;
    ++borrows_[ref.object].calls;
  }
}

void ObjectRefs::on(const EndBorrow& event) {
  for (const ObjectId object : event.objects) {
    auto* row = rows_.find(object);
    if (row == nullptr || !row->lent || --borrows_.at(object).calls > 0) continue;
    row->lent = row->passed_on = false;
    forget_borrow(object, *row);
    if (!in_use(*row)) {
      drop_if_unused(object);
      continue;
    }
    mark_kept.hit();
    ensure_hold(object, *row);
  }
}

void ObjectRefs::forget_borrow(ObjectId object, const ObjectRow& row) {
  if (!row.lent && !row.unsaid) borrows_.erase(object);
}

std::vector<ObjectId> ObjectRefs::passed_on(const RefRecords& refs) const {
  std::vector<ObjectId> result;
  for (const auto& ref : refs) {
    const auto* row = rows_.find(ref.object);
    if (row && row->passed_on) result.push_back(ref.object);
  }
  return result;
}

// Any caller may have died: this process now holds all borrowed refs itself. Until then the homes
// keep the holds of the dead for a while, as do processes that replied to them.
void ObjectRefs::lenders_died() {
  std::vector<ObjectId> lent;
  for (auto& [object, row] : rows_) {
    if (row.lent) lent.push_back(object);
    row.lent = row.passed_on = false;
  }
  for (const ObjectId object : lent) {
    mark_lender_died.hit();
    ObjectRow& row = rows_.at(object);
    borrows_.at(object).calls = 0;
    forget_borrow(object, row);
    if (in_use(row)) {
      ensure_hold(object, row);
    } else {
      drop_if_unused(object);
    }
  }
}

// Refs borrowed by a dead executor stay held for a while. Processes that got them from it relied on
// the same hold, and now take their own.
void ObjectRefs::keep_lent(const Arguments& arguments) {
  for (const auto& argument : arguments) {
    const auto* object = argument.is_ref ? rows_.find(argument.ref.object) : nullptr;
    const auto contained = object ? object->value->contained : argument.value.contained;
    for (const auto& ref : contained) {
      if (ref.tensor.is_empty() || !rows_.contains(ref.object)) continue;
      hold_now(ref.object);
      pin(ref);
      orphans_due_.add(step_.now() + step_.options().orphans_delay, ref.object);
    }
  }
}

void ObjectRefs::put_off_hold(ObjectId object, ObjectRow& row) {
  row.hold = HoldState::put_off;
  holds_due_.add(step_.now() + step_.options().hold_delay, object);
}

// Other processes will rely on the hold, or its delay has passed.
void ObjectRefs::hold_now(ObjectId object) {
  auto* row = rows_.find(object);
  if (row == nullptr || row->hold != HoldState::put_off) return;
  row->hold = HoldState::requested;
  step_.send_to_agent(HoldObjectRequest{ref_of(object)});
}

void ObjectRefs::put_off_export(ObjectId object, ObjectRow& row) {
  row.unsaid = true;
  ++borrows_[object].replies;
  exports_due_.add(step_.now() + step_.options().export_delay, object);
}

void ObjectRefs::export_now(ObjectId object, ObjectRow& row) {
  row.exported = true;
  step_.send_to_agent(ExportObject{object, true});
}

// The receiver of one reply has reported whether it holds the contents.
void ObjectRefs::reply_settled(ObjectId object, bool unheld) {
  auto* row = rows_.find(object);
  if (row == nullptr || !row->unsaid) return;
  if (--borrows_.at(object).replies == 0) {
    row->unsaid = false;
    forget_borrow(object, *row);
  }
  if (!unheld && !row->exported && !step_.job_ended()) export_now(object, *row);
}

// ---- refs in replies ----------------------------------------------------------------------------

void ObjectRefs::on(const PinRefs& event) {
  for (const auto& ref : event.refs) {
    // An unfinished object may be handed over (HandOver), and its new owner then exports it.
    auto* row = find_expanded(ref.object);
    if (row != nullptr && row->is_kept_tensor() && !row->exported) {
      put_off_export(ref.object, *row);
    } else if (row != nullptr && (row->ready || row->creator.empty())) {
      escape(ref.object);
    }
    pin(ref);
  }
}

void ObjectRefs::on(const UnpinRefs& event) {
  for (const auto& ref : event.refs) {
    reply_settled(ref.object, event.unheld);
    unpin(ref.object);
  }
}

void ObjectRefs::hold_contents(UnclaimedReplies::Reply reply, const RefRecords& refs) {
  if (refs.empty()) return;
  PooledVector<ObjectId> missing;
  for (const auto& ref : refs) {
    const auto* row = rows_.find(ref.object);
    const bool put_off = row && !row->owned && row->hold == HoldState::put_off;
    const bool requested = row && !row->owned && row->hold == HoldState::requested;
    reply.held = reply.held || !put_off;
    if (put_off || requested) missing.push_back(ref.object);
  }
  streams_.claim(reply, std::move(missing));
}

// ---- time --------------------------------------------------------------------------------------

void ObjectRefs::tick_holds() {
  while (const auto object = holds_due_.take_due(step_.now())) {
    mark_hold_due.hit();
    hold_now(*object);
  }
  while (const auto object = orphans_due_.take_due(step_.now())) unpin(*object);
  while (const auto object = exports_due_.take_due(step_.now())) {
    auto* row = rows_.find(*object);
    if (row == nullptr || !row->unsaid || row->exported || step_.job_ended()) continue;
    mark_export_due.hit();
    export_now(*object, *row);
  }
}

void ObjectRefs::settle() {
  write_retries_.forget_over([&](ObjectId object) {
    const auto* write = writes_.find(object);
    return write == nullptr || !write->retry_at;
  });
  holds_due_.forget_over([&](ObjectId object) {
    const auto* row = rows_.find(object);
    return row == nullptr || row->hold != HoldState::put_off;
  });
  exports_due_.forget_over([&](ObjectId object) {
    const auto* row = rows_.find(object);
    return row == nullptr || !row->unsaid || row->exported;
  });
}

}  // namespace mobula::internal::client
