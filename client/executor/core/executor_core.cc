#include "client/executor/core/executor_core.h"

#include <algorithm>

#include "base/coverage_mark.h"
#include "base/model/error_record.h"
#include "base/model/tensor_refs.h"
#include "protocol/codec/codec.h"

namespace mobula::internal::executor {
namespace {

const CoverageMark mark_foreign_caller("executor.call_from_somebody_else_refused");
const CoverageMark mark_cancel_queued("executor.cancelled_before_start");
const CoverageMark mark_cancel_running("executor.cancelled_while_running");
const CoverageMark mark_forced("executor.forced_cancel");
const CoverageMark mark_handed_back("executor.queue_handed_back");
const CoverageMark mark_lent("executor.lent_its_cpu");
const CoverageMark mark_store_full("executor.returned_because_store_full");
const CoverageMark mark_argument_lost("executor.argument_lost");
const CoverageMark mark_round("executor.later_calls_returned_after_lost_elements");
const CoverageMark mark_queue_full("executor.call_of_an_actor_finds_its_queue_full");
const CoverageMark mark_round_over("executor.call_of_a_round_that_is_over");
const CoverageMark mark_stays("executor.stays_for_its_results");
const CoverageMark mark_resident("executor.resident");
const CoverageMark mark_over_share("executor.call_over_its_share");

ValueRecord error_value(ErrorKind kind, std::string text, const CallRecord& call) {
  ErrorRecord error;
  error.kind = kind;
  error.text = std::move(text);
  error.task_name = call.form->name;
  error.task = call.task;
  ValueRecord value;
  value.is_error = true;
  value.bytes = Payload(encode(error));
  value.size_bytes = static_cast<std::int64_t>(value.bytes.size());
  return value;
}

FetchArguments what_to_fetch(const CallRecord& call) {
  FetchArguments fetch;
  for (const Argument& each : *call.arguments) {
    if (each.is_ref) {
      fetch.refs.push_back(each);
      continue;
    }
    for (const RefRecord& ref : each.value.contained) {
      if (is_pulled_tensor(ref)) fetch.tensors.push_back(ref);
    }
  }
  return fetch;
}

}  // namespace

void ExecutorCore::consume(Time now, Event& event, std::vector<Command>& out) {
  now_ = now;
  out_ = &out;
  std::visit([&](auto& each) { on(each); }, event);
  if (is_actor()) start_beside();
  start_ready();
  tell_started();
  update_lending();
  update_residence();
  request_release();
  cut_calls();
  try_leave();
  caller_deadlines_.settle([this](ProcessId id) { return callers_.find(id); },
                           [](const CallerRow& caller) { return caller.session.next_deadline(); });
  out_ = nullptr;
}

std::optional<Time> ExecutorCore::next_deadline() const {
  std::optional<Time> earliest;
  const auto consider = [&](std::optional<Time> at) {
    if (at && (!earliest || *at < *earliest)) earliest = at;
  };
  consider(caller_deadlines_.earliest());
  if (!unreported_.empty()) consider(unreported_.front().second + options_.started_report_delay);
  if (!orphans_.empty()) consider(orphans_.front().first);
  if (blocked_since_ && !lent_) consider(*blocked_since_ + assignment_.cpu_release_delay);
  consider(tell_residence_at_);
  consider(leave_deadline());
  return earliest;
}

// ---- incoming calls ---------------------------------------------------------------------------

void ExecutorCore::on(const Assigned& event) {
  assignment_ = event.assignment;
  constructed_ = !is_actor();
  if (!is_actor()) return;
  groups_.configure(assignment_.actor.max_concurrency, assignment_.actor.groups);
  CallRow row;
  row.call = assignment_.actor.constructor;
  row.call.form.edit().kind = CallKind::construct_actor;
  admit(std::move(row));
}

bool ExecutorCore::accepts_calls() const { return !leaving_ && !(lent_ && !is_actor()); }

void ExecutorCore::on(ReceivedFromCaller& event) {
  if (!is_actor() && event.caller != assignment_.lessee) return mark_foreign_caller.hit();
  CallerRow& caller = callers_[event.caller];
  frames_.clear();
  auto message = caller.session.receive(now_, std::move(event.frame), frames_);
  caller_deadlines_.watch(event.caller, caller.session.next_deadline(), caller.armed);
  for (auto& frame : frames_) emit(SendToCaller{event.caller, std::move(frame)});
  if (message) std::visit([&](auto& each) { on(event.caller, each); }, *message);
}

void ExecutorCore::on(ProcessId caller, PushCall& message) {
  CallerRow& from = callers_.at(caller);
  from.last_number = std::max(from.last_number, message.number);
  from.knows_rounds = message.round != 0;
  from.closed = false;
  CallRow row;
  row.caller = caller;
  row.number = message.number;
  row.call = std::move(message.call);
  const auto group = row.call.form->beside ? std::nullopt : groups_.find(row.call.form->group);
  row.group = group.value_or(CallGroups::no_group);
  const bool round_over = is_round_over(from, message.round, row.group);
  if (round_over) mark_round_over.hit();
  if (round_over || !accepts_calls()) return hand_back(row, "");
  if (!group && !row.call.form->beside) return refuse_group(row);
  if (queue_.size() < options_.max_queue || row.call.form->beside) return admit(std::move(row));
  mark_queue_full.hit();
  say(caller, CallReturned{row.number, row.call.task, "", is_actor()});
  begin_round(row, std::nullopt);
}

// Arguments of queued calls are fetched before their turn.
void ExecutorCore::admit(CallRow&& row) {
  row.token = next_token_++;
  FetchArguments fetch = what_to_fetch(row.call);
  fetch.token = row.token;
  fetch.caller = row.caller;
  row.ready = fetch.refs.empty() && fetch.tensors.empty();
  if (!row.ready) emit(std::move(fetch));
  const auto token = row.token;
  beside_waits_ |= row.call.form->beside;
  groups_.queued(row.group);
  queue_.insert(token, std::move(row));
}

void ExecutorCore::refuse_group(const CallRow& row) {
  CallReply answer;
  answer.outcome = CallOutcome::failed;
  answer.results.push_back(error_value(ErrorKind::invalid_request,
                                       "concurrency_group of " + row.call.form->name +
                                           ": the actor has no group \"" + row.call.form->group +
                                           "\"; name one of concurrency_groups at its creation",
                                       row.call));
  reply(row, std::move(answer));
}

ExecutorCore::CallRow ExecutorCore::take_queued(QueuePosition& at) {
  CallRow row = std::move(at->second);
  groups_.unqueued(row.group);
  at = queue_.erase(at);
  return row;
}

void ExecutorCore::on(const ArgumentsFetched& event) {
  auto* queued = queue_.find(event.token);
  if (queued == nullptr) return;
  if (!event.failure) {
    queued->ready = true;
    return;
  }
  const bool store_full = event.failure->code == ErrorCode::resource_exhausted;
  const CallRow row = std::move(*queued);
  groups_.unqueued(row.group);
  queue_.erase(event.token);
  // Other calls of this executor use the memory: the call may run elsewhere, or here after they
  // end.
  if (store_full && !is_actor() && !(running_.empty() && queue_.empty())) {
    mark_store_full.hit();
    return hand_back(row, "");
  }
  mark_argument_lost.hit();
  emit(DropCall{row.token});
  CallReply answer;
  answer.outcome = CallOutcome::failed;
  answer.lost = event.lost;
  answer.unread = event.unread;
  // A caller of the previous release resends calls of actors in their order if `lost` names the
  // cause.
  if (is_actor()) answer.lost.insert(answer.lost.end(), event.unread.begin(), event.unread.end());
  answer.results.push_back(error_value(
      store_full ? ErrorKind::object_store_full : ErrorKind::object_lost,
      "an argument of " + row.call.form->name + " cannot be read: " + event.failure->text,
      row.call));
  const bool to_be_sent_again = !answer.lost.empty();
  reply(row, std::move(answer));
  if (to_be_sent_again && !assignment_.actor.out_of_order) begin_round(row, row.group);
}

// The refused call may be sent again, so no later call of its caller and group may start before it.
// None has started, because they waited for it. Without an order, none needs to return.
void ExecutorCore::begin_round(const CallRow& refused, std::optional<std::uint32_t> group) {
  auto* caller = callers_.find(refused.caller);
  if (!is_actor() || refused.call.form->beside || caller == nullptr || !caller->knows_rounds)
    return;
  ++caller->round;
  caller->first_rounds.resize(groups_.size(), 1);
  for (std::uint32_t i = 0; i < groups_.size(); ++i) {
    if (!group || *group == i) caller->first_rounds[i] = caller->round;
  }
  if (refused.token == 0) return;  // it was the last one
  for (auto at = queue_.begin(); at != queue_.end();) {
    const CallRow& row = at->second;
    if (row.token < refused.token || row.caller != refused.caller || row.group != *group) {
      ++at;
      continue;
    }
    mark_round.hit();
    hand_back(take_queued(at), "");
  }
}

bool ExecutorCore::is_round_over(const CallerRow& caller, std::uint64_t round,
                                 std::uint32_t group) {
  return caller.knows_rounds && group < caller.first_rounds.size() &&
         round < caller.first_rounds[group];
}

// Starts calls outside the order, regardless of other running or queued calls.
void ExecutorCore::start_beside() {
  if (!beside_waits_ || leaving_ || !constructed_) return;
  beside_waits_ = false;
  for (auto at = queue_.begin(); at != queue_.end();) {
    if (!at->second.call.form->beside || !at->second.ready) {
      beside_waits_ |= at->second.call.form->beside;
      ++at;
      continue;
    }
    ++beside_;
    start(take_queued(at));
  }
}

void ExecutorCore::start(CallRow row) {
  auto arguments = std::exchange(row.call.arguments, {});
  RunCall run{row.token, row.caller, row.call, row.group};
  run.call.arguments = std::move(arguments);
  emit(std::move(run));
  row.started = now_;
  groups_.started(row.group);
  row.start_reported = row.call.form->kind == CallKind::construct_actor;
  const auto token = row.token;
  if (!row.start_reported) unreported_.push_back({token, now_});
  const StreamTerms& stream = row.call.form->stream;
  if (stream.window != 0) items_.open(token, row.caller, row.number, stream);
  running_.insert(token, std::move(row));
}

// Many calls can run at one time, so counts and a queue replace scans of all running calls.
ExecutorCore::CallRow ExecutorCore::take_running(std::uint64_t token) {
  CallRow row = running_.take(token);
  set_blocked(row, false);
  if (row.call.form->beside) --beside_;
  groups_.ended(row.group);
  while (!unreported_.empty() && !running_.contains(unreported_.front().first))
    unreported_.pop_front();
  return row;
}

void ExecutorCore::set_blocked(CallRow& row, bool on) {
  if (row.call.form->beside || std::exchange(row.blocked, on) == on) return;
  blocked_ = on ? blocked_ + 1 : blocked_ - 1;
}

// Starts calls of each group in order of arrival. A call without its arguments delays only later
// calls of its caller and group.
void ExecutorCore::start_ready() {
  if (leaving_) return;
  PooledVector<std::pair<ProcessId, std::uint32_t>> held_up;
  for (auto at = queue_.begin(); at != queue_.end() && groups_.may_start();) {
    const CallRow& next = at->second;
    const bool constructor = next.call.form->kind == CallKind::construct_actor;
    const bool its_turn = constructed_ != constructor;
    if (next.call.form->beside) {
      ++at;  // its arguments are awaited
      continue;
    }
    if (!groups_.is_open(next.group)) {
      ++at;
      continue;
    }
    const std::pair order{next.caller, next.group};
    if (!its_turn || !next.ready || std::ranges::find(held_up, order) != held_up.end()) {
      if (!assignment_.actor.out_of_order) held_up.push_back(order);
      ++at;
      continue;
    }
    blocked_since_.reset();
    start(take_queued(at));
  }
}

void ExecutorCore::tell_started() {
  while (!unreported_.empty()) {
    const auto [token, started] = unreported_.front();
    CallRow* row = running_.find(token);
    if (row != nullptr && now_ - started < options_.started_report_delay) return;
    unreported_.pop_front();
    if (row == nullptr) continue;
    row->start_reported = true;
    say(row->caller, CallStarted{row->number, now_ - started});
  }
}

// ---- replies ----------------------------------------------------------------------------------

void ExecutorCore::on(CallFinished& event) {
  if (!running_.contains(event.token)) return;
  const CallRow row = take_running(event.token);
  if (row.call.form->stream.window != 0) items_.close(event.token);
  const Duration lasted = std::min(event.run_time, now_ - row.started);
  ran_.add({row.call.task, row.call.form, now_ - lasted, now_,
            row.cancelled || event.outcome != CallOutcome::value});
  if (event.leave) release_name();
  if (event.leave && !leaving_) cut_at_ = now_ + options_.exit_grace;
  if (event.leave) leave_when_done(EndKind::intended);
  if (row.call.form->kind == CallKind::construct_actor) {
    constructed_ = true;
    ValueRecord error;
    if (event.outcome != CallOutcome::value && !event.results.empty())
      error = event.results.front();
    return emit(SendToAgent{ConstructorFinished{std::move(error)}});
  }
  CallReply answer;
  answer.outcome = row.cancelled ? CallOutcome::cancelled : event.outcome;
  answer.results = std::move(event.results);
  answer.kept = std::move(event.kept);
  answer.handovers = std::move(event.handovers);
  answer.run_time = event.run_time;
  answer.pid = event.pid;
  answer.no_retry = event.no_retry;
  if (row.cancelled) answer.results.clear();
  if (!row.over_share.empty()) {
    mark_over_share.hit();
    answer.outcome = CallOutcome::failed;
    answer.results.assign(1, error_value(ErrorKind::out_of_memory, row.over_share, row.call));
    answer.handovers.clear();
  }
  const bool is_cut = row.cut && !row.cancelled && event.outcome != CallOutcome::value;
  if (is_cut) {
    answer.outcome = CallOutcome::failed;
    answer.results.assign(1, cut_error(row));
    answer.handovers.clear();
  }
  if (!event.pinned.empty()) {
    auto* caller = callers_.find(row.caller);
    if (caller == nullptr || row.cancelled || is_cut || !row.over_share.empty()) {
      emit(ReleasePins{std::move(event.pinned), false});
    } else {
      caller->pinned.emplace(std::pair(row.number, 0), std::move(event.pinned));
    }
  }
  ++finished_;
  leave_if_spent();
  if (!row.over_share.empty() && !is_actor()) leave_when_done(EndKind::retired);
  // Precedes the reply, on which the caller chooses the target of its next call.
  if (leaving_ && running_.empty()) say_farewell();
  // The actor or its job has ended: callers learn the cause from the head, not a cancellation that
  // they did not request.
  if (!hurries_) reply(row, std::move(answer));
}

void ExecutorCore::reply(const CallRow& row, CallReply&& answer) {
  if (row.call.form->kind == CallKind::construct_actor) {
    ValueRecord error = answer.results.empty() ? ValueRecord{} : answer.results.front();
    return emit(SendToAgent{ConstructorFinished{std::move(error)}});
  }
  answer.number = row.number;
  answer.task = row.call.task;
  answer.attempt = row.call.attempt;
  if (name_release_) {
    withheld_.emplace_back(row.caller, std::move(answer));
    return;
  }
  say(row.caller, std::move(answer));
}

void ExecutorCore::hand_back(const CallRow& row, std::string why) {
  if (row.token != 0) emit(DropCall{row.token});
  say(row.caller, CallReturned{row.number, row.call.task, std::move(why), false});
}

void ExecutorCore::hand_back_queue() {
  if (!queue_.empty()) mark_handed_back.hit();
  const auto calls = std::exchange(queue_, {});
  groups_.clear_queue();
  for (const auto& [token, row] : calls) {
    if (row.call.form->kind != CallKind::construct_actor) hand_back(row, "");
  }
}

void ExecutorCore::say(ProcessId caller, ExecutorMessage&& message) {
  auto* row = callers_.find(caller);
  if (row == nullptr) return;
  frames_.clear();
  row->session.send(now_, std::move(message), frames_);
  caller_deadlines_.watch(caller, row->session.next_deadline(), row->armed);
  for (auto& frame : frames_) emit(SendToCaller{caller, std::move(frame)});
}

void ExecutorCore::on(ProcessId, ReturnCallsRequest&) {
  if (!is_actor()) hand_back_queue();
}

void ExecutorCore::on(ProcessId caller, ReplyClaimed& message) {
  callers_.at(caller).closed |= message.closes;
  auto& pinned = callers_.at(caller).pinned;
  const auto at = pinned.find({message.number, message.item});
  if (at == pinned.end()) return;
  emit(ReleasePins{std::move(at->second), message.unheld});
  pinned.erase(at);
}

void ExecutorCore::on(ProcessId caller, CancelCall& message) {
  const auto is_it = [&](const CallRow& row) {
    return row.caller == caller && row.number == message.number;
  };
  const auto queued =
      std::ranges::find_if(queue_, [&](const auto& each) { return is_it(each.second); });
  if (queued != queue_.end()) {
    mark_cancel_queued.hit();
    auto at = queued;
    const CallRow row = take_queued(at);
    emit(DropCall{row.token});
    CallReply answer;
    answer.outcome = CallOutcome::cancelled;
    return reply(row, std::move(answer));
  }
  for (auto& [token, row] : running_) {
    if (!is_it(row)) continue;
    row.cancelled = true;
    mark_cancel_running.hit();
    emit(CancelRunning{token, message.recursive});
    if (!message.force || is_actor()) return;
    // The caller gets its reply now, and the process exits while the user's code still runs.
    mark_forced.hit();
    CallReply answer;
    answer.outcome = CallOutcome::cancelled;
    const CallRow ended = take_running(token);
    items_.close(ended.token);
    reply(ended, std::move(answer));
    return leave_when_done(EndKind::killed);
  }
}

void ExecutorCore::on(const CallerAdmitted& event) {
  if (is_actor() || event.caller == assignment_.lessee) callers_[event.caller].agent = event.agent;
}

// A head that restarts does not know the processes of a node that died before, only its agent.
void ExecutorCore::on(const CallerGone& event) {
  std::vector<ProcessId> gone{event.caller};
  for (const auto& [id, caller] : callers_)
    if (caller.agent == event.caller) gone.push_back(id);
  for (const ProcessId each : gone) drop_caller(each);
}

void ExecutorCore::drop_caller(ProcessId id) {
  auto* caller = callers_.find(id);
  if (caller == nullptr) return;
  // A process that got a ref from it relied on its hold, and now takes its own hold.
  for (auto& [number, refs] : caller->pinned)
    orphans_.emplace_back(now_ + options_.orphans_delay, std::move(refs));
  callers_.erase(id);
  for (auto at = queue_.begin(); at != queue_.end();) {
    const CallRow& row = at->second;
    if (row.caller != id || row.call.form->kind == CallKind::construct_actor) {
      ++at;
      continue;
    }
    emit(DropCall{row.token});
    (void)take_queued(at);
  }
  for (auto& [token, row] : running_) {
    if (row.caller != id) continue;
    row.cancelled = true;
    emit(CancelRunning{token, true});
  }
}

// ---- CPU of blocked calls ---------------------------------------------------------------------

void ExecutorCore::on(const CallBlocked& event) {
  if (auto* running = running_.find(event.token)) set_blocked(*running, event.on);
}

void ExecutorCore::on(const Tick&) {
  while (!orphans_.empty() && orphans_.front().first <= now_) {
    emit(ReleasePins{std::move(orphans_.front().second), false});
    orphans_.pop_front();
  }
  std::vector<ProcessId> due;
  caller_deadlines_.take_due(
      now_, [this](ProcessId id) { return callers_.find(id); }, due);
  for (const ProcessId id : due) {
    CallerRow& caller = callers_.at(id);
    frames_.clear();
    caller.session.tick(now_, frames_);
    for (auto& frame : frames_) emit(SendToCaller{id, std::move(frame)});
    caller_deadlines_.watch(id, caller.session.next_deadline(), caller.armed);
  }
}

// While every running call is blocked, other work gets the CPU of the slot. Calls that have not
// started are returned, because a running call may wait for one of them.
void ExecutorCore::update_lending() {
  const std::size_t in_order = running_.size() - beside_;
  const bool all_wait = in_order > 0 && blocked_ == in_order;
  if (!all_wait) {
    blocked_since_.reset();
    if (lent_) {
      lent_ = false;
      emit(SendToAgent{ExecutorBlocked{false}});
    }
    return;
  }
  if (!blocked_since_) blocked_since_ = now_;
  if (!is_actor()) hand_back_queue();
  if (!lent_ && now_ - *blocked_since_ >= assignment_.cpu_release_delay) {
    mark_lent.hit();
    lent_ = true;
    emit(SendToAgent{ExecutorBlocked{true}});
  }
}

// ---- resident results -------------------------------------------------------------------------

// The lessee keeps a slot whose executor holds results, and sends it the calls that need them.
void ExecutorCore::on(const ResultsHeld& event) {
  held_ = event.residence;
  if (is_actor()) return;
  if (!leaving_ && std::exchange(holds_said_, held_.any()) != held_.any()) {
    for (auto& [id, caller] : callers_) say(id, ResidentStateChanged{held_.any()});
  }
  if (running_.empty()) leave_if_spent();
}

// A process that has run its maximum of calls stays while other processes may need the results that
// it holds.
void ExecutorCore::leave_if_spent() {
  const auto max_calls = assignment_.demand_class.max_calls;
  const bool spent = !is_actor() && max_calls > 0 && finished_ >= max_calls;
  if (!spent) return;
  if (!held_.any()) return leave_when_done(EndKind::retired);
  mark_stays.hit();
}

// Reports to the agent, and through it to the head, that the slot runs nothing and only holds
// results. The report is delayed past short gaps between calls, and released refs are reported at a
// limited rate.
void ExecutorCore::update_residence() {
  const bool idle = !is_actor() && !leaving_ && running_.empty() && queue_.empty() && held_.any();
  tell_residence_at_.reset();
  if (!idle) {
    idle_since_.reset();
    if (residence_said_.any() && !leaving_) {
      residence_said_ = {};
      emit(SendToAgent{ExecutorResident{}});
    }
    return;
  }
  if (!idle_since_) idle_since_ = now_;
  if (residence_said_ == held_) return;
  const bool first = !residence_said_.any();
  const Time due = first ? *idle_since_ + assignment_.cpu_release_delay
                         : residence_reported_at_ + options_.residence_report_interval;
  if (now_ < due) {
    tell_residence_at_ = due;
    return;
  }
  mark_resident.hit();
  residence_said_ = held_;
  residence_reported_at_ = now_;
  emit(SendToAgent{ExecutorResident{held_}});
}

// User code runs until it returns, unless it checks for cancellation, and its result is discarded.
// The process of a task then exits, so that its memory is certainly freed.
void ExecutorCore::on(const ShareExceeded& event) {
  for (auto& [token, row] : running_) {
    row.over_share = event.text;
    emit(CancelRunning{token, false});
  }
  if (running_.empty() && !is_actor()) leave_when_done(EndKind::retired);
}

}  // namespace mobula::internal::executor
