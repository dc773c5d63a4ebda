// Calls that return from an executor without having run, because arguments could not be read there.
// The caller reads the argument itself, through the home of the object, which alone decides about a
// loss. If the bytes are lost, the owner runs their task again. The call waits for it, and is not
// charged. If the home of an argument that another process owns cannot be reached, the caller tries
// again later, because the owner of an object outlives the agent of its node.
#include <algorithm>

#include "base/coverage_mark.h"
#include "client/core/calls/tasks.h"

namespace mobula::internal::client {
namespace {

const CoverageMark mark_charged("client.argument_lost_on_its_way");
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

void Tasks::call_did_not_run(TaskId task, CallReply& message) {
  TaskRow& row = rows_.at(task);
  if (row.cancelled && !(message.lost.empty() && message.unread.empty()))
    return finish_cancelled(task);
  std::vector<ObjectId> elements = std::move(message.lost);
  std::erase_if(elements, [&](ObjectId each) {
    return std::ranges::find(message.unread, each) != message.unread.end();
  });
  for (const ObjectId each : elements) remake_elements(each);
  if (!elements.empty()) {
    // Elements that cannot be recomputed would be lost each time.
    if (refers_to_any(row.call, elements)) return finish(task, std::move(message.results));
    return return_to_waiting(task);
  }
  if (verify_arguments(row, message.unread)) return return_to_waiting(task);
  if (row.retries_left == 0 || row.cancelled || row.call.form->kind != CallKind::task) {
    return finish(task, std::move(message.results));
  }
  mark_charged.hit();
  if (row.retries_left > 0) --row.retries_left;
  ++row.call.attempt;
  resubmit(task);
}

void Tasks::return_to_waiting(TaskId task) {
  TaskRow& row = rows_.at(task);
  if (row.call.form->kind != CallKind::actor_call) return resubmit(task);
  const ActorId actor = row.call.form->actor;
  requeue(task);
  actors_.advance(actor);
}

// False if the owner of one of them is dead, or if executors repeatedly fail to read arguments that
// are readable here.
bool Tasks::verify_arguments(TaskRow& row, const std::vector<ObjectId>& unread) {
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

// True: the task waits, and then reads the argument again.
bool Tasks::await_owner(TaskId task, ObjectId object) {
  TaskRow& row = rows_.at(task);
  ObjectRow& known = objects_.at(object);
  if (known.owned || !known.lost || row.cancelled || row.call.form->kind != CallKind::task)
    return false;
  if (row.owner_waits >= max_owner_waits || dead_.contains(known.ref->owner)) return false;
  mark_owner_awaited.hit();
  known.lost = known.ready = false;
  known.value = CopyOnWrite<ValueRecord>();
  if (known.wants > 0) objects_.fetch(object, known);
  row.awaits_owner = true;
  pause_task(task, std::min(owner_wait_initial * (1 << row.owner_waits++), owner_wait_max));
  return true;
}

}  // namespace mobula::internal::client
