// Planned exit of an executor: the work that it awaits, the destructors, and the report. Part of
// ExecutorCore.
#include <algorithm>

#include "base/coverage_mark.h"
#include "base/model/error_record.h"
#include "client/executor/core/executor_core.h"
#include "protocol/codec/codec.h"

namespace mobula::internal::executor {
namespace {

const CoverageMark mark_left_unevacuated("executor.exits_with_values_that_others_hold");
const CoverageMark mark_left_unacknowledged("executor.left_at_the_bound");
const CoverageMark mark_awaits_submitted("executor.awaits_calls_that_it_has_submitted");
const CoverageMark mark_hurries("executor.destroys_its_actor_at_the_end_of_the_job");
const CoverageMark mark_releases_name("executor.releases_its_name_before_callers_see_its_end");
const CoverageMark mark_name_not_released("executor.left_without_release_of_its_name");
const CoverageMark mark_destructor_overdue("executor.left_while_its_destructor_ran");
const CoverageMark mark_cut("executor.cuts_calls_after_exit_actor");
const CoverageMark mark_abandoned("executor.left_while_calls_ran");
const CoverageMark mark_departed("executor.awaits_submitted_calls_without_its_resources");

}  // namespace

std::optional<Time> ExecutorCore::leave_deadline() const {
  if (name_release_) {
    const Time next = std::min(name_release_->until, name_release_->request_at);
    return std::min(next, cut_at_.value_or(next));
  }
  if (cut_at_ && !running_.empty() && !left_ && !hurries_) return cut_at_;
  if (!farewell_said_ || left_ || hurries_) return std::nullopt;
  if (object_ == Object::being_destroyed) return destroy_by_;
  if (submitted_ == Submitted::requested || submitted_ == Submitted::pending) return release_at_;
  return evacuation_ == Evacuation::due ? leave_by_ : evacuate_by_;
}

void ExecutorCore::on(const EndRequested& event) {
  if (event.graceful) return leave_when_done(EndKind::retired);
  name_released();
  if (event.orderly && (running_.empty() || is_actor())) return end_in_order();
  const bool planned = event.stores && (running_.empty() || held_.any());
  if (!planned) {
    left_ = true;
    return emit(Leave{EndKind::killed, false});
  }
  if (leaving_ && *leaving_ != EndKind::killed && !running_.empty()) leaving_ = EndKind::killed;
  leave_when_done(running_.empty() ? EndKind::retired : EndKind::killed);
  // The lessee has returned the slot, or is dead: no acknowledgement is awaited.
  say_farewell();
  leave_by_ = now_;
  if (std::exchange(residence_said_, held_) != held_) emit(SendToAgent{ExecutorResident{held_}});
}

// The job has ended: running calls are cancelled, and the agent kills this process if they do not
// return.
void ExecutorCore::end_in_order() {
  mark_hurries.hit();
  for (auto& [token, row] : running_) {
    row.cancelled = true;
    emit(CancelRunning{token, true});
  }
  hurries_ = true;
  if (!leaving_ || *leaving_ == EndKind::killed) leaving_ = EndKind::retired;
  queue_.clear();
  groups_.clear_queue();
  farewell_said_ = true;
}

// Calls that outlast exit_actor are cancelled, which resumes their coroutines. Calls that do not
// end despite this fail, and the actor is not destroyed under them.
void ExecutorCore::cut_calls() {
  if (!cut_at_ || running_.empty() || left_ || hurries_ || now_ < *cut_at_) return;
  if (!std::exchange(cutting_, true)) {
    mark_cut.hit();
    cut_at_ = now_ + options_.cancelled_grace;
    for (auto& [token, row] : running_) {
      row.cut = true;
      emit(CancelRunning{token, true});
    }
    return;
  }
  mark_abandoned.hit();
  cut_at_.reset();
  object_ = Object::overdue;
  cut_calls_ = running_.size();
  while (!running_.empty()) {
    const CallRow row = take_running(running_.begin()->first);
    if (row.call.form->stream.window != 0) items_.close(row.token);
    CallReply answer;
    answer.outcome = row.cancelled ? CallOutcome::cancelled : CallOutcome::failed;
    if (!row.cancelled) answer.results.push_back(cut_error(row));
    reply(row, std::move(answer));
  }
}

ValueRecord ExecutorCore::cut_error(const CallRow& row) const {
  ErrorRecord error;
  error.kind = ErrorKind::actor_died;
  error.text = "call " + row.call.form->name + ": it was still incomplete " +
               std::to_string(options_.exit_grace / std::chrono::seconds(1)) +
               " s after the actor called exit_actor(); complete or cancel calls before";
  error.task_name = row.call.form->name;
  error.task = row.call.task;
  error.actor = assignment_.actor.actor;
  ValueRecord value;
  value.is_error = true;
  value.bytes = Payload(encode(error));
  value.size_bytes = static_cast<std::int64_t>(value.bytes.size());
  return value;
}

// The destructor is user code, which may submit calls. A planned exit proceeds without it after
// `destructor_timeout`; at the end of a job the agent bounds the wait.
bool ExecutorCore::object_destroyed() {
  if (!is_actor() || object_ == Object::destroyed || object_ == Object::overdue) return true;
  if (object_ == Object::lives) {
    object_ = Object::being_destroyed;
    destroy_by_ = now_ + options_.destructor_timeout;
    emit(DestroyActor{});
  }
  if (hurries_ || now_ < destroy_by_) return false;
  mark_destructor_overdue.hit();
  object_ = Object::overdue;
  return true;
}

// Callers see the end of a named actor only after its name is free, so replies wait for the head.
void ExecutorCore::release_name() {
  if (!is_actor() || assignment_.actor.name.empty() || leaving_) return;
  mark_releases_name.hit();
  name_release_ = NameRelease{now_ + options_.name_release_timeout, now_};
}

// The request is repeated, because a failing head may lose it.
void ExecutorCore::request_release() {
  if (!name_release_ || now_ < std::min(name_release_->until, name_release_->request_at)) return;
  if (now_ >= name_release_->until) {
    mark_name_not_released.hit();
    return name_released();
  }
  name_release_->request_at = now_ + options_.name_release_interval;
  emit(ReleaseName{});
}

void ExecutorCore::name_released() {
  if (!std::exchange(name_release_, std::nullopt)) return;
  if (farewell_said_) leave_by_ = now_ + options_.leave_timeout;
  for (auto& [caller, answer] : std::exchange(withheld_, {})) {
    if (!hurries_) say(caller, std::move(answer));
  }
}

void ExecutorCore::leave_when_done(EndKind kind) {
  if (leaving_) return;
  leaving_ = kind;
  hand_back_queue();
}

void ExecutorCore::say_farewell() {
  if (std::exchange(farewell_said_, true)) return;
  leave_by_ = now_ + options_.leave_timeout;
  for (auto& [id, caller] : callers_) {
    if (!caller.closed) say(id, StreamClosing{caller.last_number});
  }
}

// Submitted work would be lost with this process, so it waits. It may not need its slot's resources
// any more, and other work gets them after `release_delay`.
bool ExecutorCore::submitted_done() {
  if (submitted_ == Submitted::unknown) {
    submitted_ = Submitted::requested;
    emit(AwaitSubmitted{});
  }
  if (submitted_ == Submitted::pending && release_at_ && *release_at_ <= now_) {
    mark_departed.hit();
    release_at_.reset();
    tell_departing(true);
  }
  return submitted_ == Submitted::done;
}

void ExecutorCore::on(const SubmittedPending& event) {
  if (submitted_ != Submitted::requested) return;
  mark_awaits_submitted.hit();
  submitted_ = Submitted::pending;
  pending_ = event;
  release_at_ = now_ + options_.release_delay;
  tell_departing(false);
}

void ExecutorCore::tell_departing(bool released) {
  ExecutorBlocked message;
  message.on = released;
  message.departing = true;
  message.kind = *leaving_;
  message.submitted = pending_.calls;
  message.example = pending_.example;
  emit(SendToAgent{std::move(message)});
}

// Exits once no call runs, every caller has all replies and holds their contents, and the calls
// that this process has submitted are finished.
void ExecutorCore::try_leave() {
  if (!leaving_ || left_ || name_release_ || (!running_.empty() && *leaving_ != EndKind::killed))
    return;
  say_farewell();
  if (*leaving_ != EndKind::killed && !object_destroyed()) return;
  const bool overdue = object_ == Object::overdue;
  if (hurries_) {
    left_ = true;
    return emit(Leave{EndKind::killed, !overdue, overdue && cut_calls_ == 0, cut_calls_});
  }
  const bool settled = std::ranges::all_of(callers_, [](const auto& each) {
    return (each.second.closed || each.second.session.drained()) && each.second.pinned.empty();
  });
  if (!settled && now_ < leave_by_) return;
  if (*leaving_ != EndKind::killed && !submitted_done()) return;
  if ((*leaving_ != EndKind::killed || held_.any()) && evacuation_ != Evacuation::over) {
    if (std::exchange(evacuation_, Evacuation::requested) == Evacuation::due) {
      emit(Evacuate{});
      evacuate_by_ = now_ + options_.evacuation_timeout;
    }
    if (now_ < evacuate_by_) return;
    mark_left_unevacuated.hit();
  }
  if (!settled) mark_left_unacknowledged.hit();
  left_ = true;
  emit(SendToAgent{ExecutorRetires{*leaving_}});
  emit(Leave{*leaving_, *leaving_ != EndKind::killed && !overdue, overdue && cut_calls_ == 0,
             cut_calls_});
}

}  // namespace mobula::internal::executor
