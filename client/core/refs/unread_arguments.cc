#include "client/core/refs/unread_arguments.h"

#include <algorithm>

#include "base/coverage_mark.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_doubted("client.unread_argument_is_verified");
const CoverageMark mark_owner_awaited("client.call_awaits_owner_of_an_argument");
const CoverageMark mark_unread_often("client.argument_is_readable_here_alone");

// After this number of successive returns with arguments that are readable here, returns are
// charged as crashes.
constexpr std::uint8_t max_uncharged = 8;
// Pauses of a call whose argument is temporarily lost: 23.5 s in total.
constexpr std::uint8_t max_owner_waits = 6;
constexpr Duration owner_wait_initial = 500ms;
constexpr Duration owner_wait_max = 8s;

}  // namespace

bool UnreadArguments::verify(TaskRow& row, const std::vector<ObjectId>& unread) {
  if (unread.empty()) return false;
  bool readable_here = true;
  for (const ObjectId object : unread) {
    const auto* known = objects_.find(object);
    if (known == nullptr || (!known->owned && dead_.contains(known->ref->owner))) return false;
    readable_here = readable_here && (known->readable || !known->owned);
  }
  row.unread = readable_here ? std::min<std::uint8_t>(row.unread, max_uncharged) : std::uint8_t{0};
  if (readable_here) ++row.unread;
  if (row.unread > max_uncharged) {
    mark_unread_often.hit();
    return false;
  }
  for (const ObjectId object : unread) {
    ObjectRow& known = objects_.at(object);
    const bool stored = known.ready && known.value->in_store && known.value->bytes.empty();
    if (!stored || known.readable || known.storing || known.doubted) continue;
    mark_doubted.hit();
    known.doubted = true;
    objects_.fetch(object, known, true);
  }
  return true;
}

std::optional<Duration> UnreadArguments::await_owner(TaskRow& row, ObjectId object) {
  ObjectRow& known = objects_.at(object);
  if (known.owned || !known.lost || row.cancelled || row.call.form->kind != CallKind::task)
    return std::nullopt;
  if (row.owner_waits >= max_owner_waits || dead_.contains(known.ref->owner)) return std::nullopt;
  mark_owner_awaited.hit();
  known.lost = known.ready = false;
  known.value = CopyOnWrite<ValueRecord>();
  if (known.wants > 0) objects_.fetch(object, known);
  row.awaits_owner = true;
  return std::min(owner_wait_initial * (1 << row.owner_waits++), owner_wait_max);
}

bool UnreadArguments::refer_to_any(const CallRecord& call,
                                   const std::vector<ObjectId>& elements) const {
  const auto among = [&](const RefRecord& ref) {
    return std::ranges::find(elements, ref.object) != elements.end();
  };
  return std::ranges::any_of(*call.arguments, [&](const Argument& argument) {
    const auto* row = argument.is_ref ? objects_.object(argument.ref.object) : nullptr;
    const auto& contained = row != nullptr ? row->value->contained : argument.value.contained;
    return std::ranges::any_of(contained, among);
  });
}

}  // namespace mobula::internal::client
