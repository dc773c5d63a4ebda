// Calls that return from an executor without having run, because arguments could not be read there.
//
// The owner of an argument decides what becomes of it: it reads the bytes itself, through the home of
// the object. If they are lost, their task runs again. The call waits for it, and is not charged.
#include <algorithm>

#include "base/mark.h"
#include "client/core/client_core.h"

namespace mobula::internal::client {
namespace {

const Mark mark_charged("client.argument_lost_on_its_way");
const Mark mark_doubted("client.unread_argument_is_verified");
const Mark mark_unread_often("client.argument_is_readable_here_alone");

// After these returns in a row with arguments that this process can read, returns are charged as crashes.
constexpr std::uint16_t max_uncharged = 8;

}  // namespace

void ClientCore::call_did_not_run(TaskId task, CallReply& message) {
  TaskRow& row = tasks_.at(task);
  if (row.cancelled && !(message.lost.empty() && message.unread.empty())) return finish_cancelled(task);
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

void ClientCore::return_to_waiting(TaskId task) {
  TaskRow& row = tasks_.at(task);
  if (row.call.form->kind != CallKind::actor_call) return resubmit(task);
  const ActorId actor = row.call.form->actor;
  requeue(task);
  advance_actor(actor);
}

// False if others own one of them, or if executors repeatedly fail to read arguments that are readable here.
bool ClientCore::verify_arguments(TaskRow& row, const std::vector<ObjectId>& unread) {
  if (unread.empty()) return false;
  bool readable_here = true;
  for (const ObjectId object : unread) {
    const auto* known = objects_.find(object);
    if (known == nullptr || !known->owned) return false;
    readable_here = readable_here && known->readable;
  }
  row.unread = readable_here ? static_cast<std::uint16_t>(row.unread + 1) : std::uint16_t{0};
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
    fetch(object, known, true);
  }
  return true;
}

// The bytes are readable here, or this node cannot say.
void ClientCore::end_doubt(ObjectId object) {
  auto* row = objects_.find(object);
  if (row == nullptr || !row->doubted) return;
  row->doubted = false;
  if (row->ready) argument_ready(object);
}

}  // namespace mobula::internal::client
