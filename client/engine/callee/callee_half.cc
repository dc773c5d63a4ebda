#include "client/engine/callee/callee_half.h"

#include <algorithm>
#include <iterator>

#include "base/logging/stderr_queue.h"
#include "base/model/tensor_refs.h"
#include "mobula/detail/stages.h"
#include "protocol/codec/messages.h"
#include "protocol/messages/core_records.h"

namespace mobula::internal::client {

using executor::ArgumentsFetched;
using executor::RunningReports;

CalleeHalf::CalleeHalf(CalleeOptions options, StepEvents& events, const ClientCore& caller)
    : assignment_(std::move(options.assignment)),
      recorder_(std::move(options.recorder)),
      events_(events),
      caller_(caller),
      callers_(assignment_.head_signing_key, assignment_.demand_class.job,
               !assignment_.actor.actor.empty()) {
  jobs_.resize(assignment_.actor.groups.size() + 2);
  ticket_clock_.received(assignment_.ticket, wall_clock_ms(), monotonic_now());
}

// ---- inputs ------------------------------------------------------------------------------------

void CalleeHalf::open() {
  open_ = true;
  events_.add(executor::Assigned{assignment_});
  for (const auto& message : std::exchange(early_messages_, {})) received_from_agent(message);
  for (auto& call : std::exchange(early_calls_, {})) events_.add(std::move(call));
}

void CalleeHalf::received_from_agent(const AgentToProcess& message) {
  if (!open_) return early_messages_.push_back(message);
  if (const auto* end = std::get_if<EndExecutor>(&message))
    return events_.add(executor::EndRequested{end->graceful, end->stores, end->orderly});
  if (const auto* over = std::get_if<OverShare>(&message))
    return events_.add(executor::ShareExceeded{over->text});
  if (const auto* dead = std::get_if<PeersDead>(&message)) {
    for (const ProcessId process : dead->processes) {
      callers_.dead(process);
      events_.add(executor::CallerGone{process});
    }
  }
  if (const auto* trust = std::get_if<TrustChanged>(&message)) change_trust(*trust);
}

// Callers that a revoked key admitted are dropped, with their open connections.
void CalleeHalf::change_trust(const TrustChanged& trust) {
  if (!trust.agent_ticket.empty())
    ticket_clock_.received(trust.agent_ticket, wall_clock_ms(), monotonic_now());
  for (const ProcessId process : callers_.cut(trust.revoked_keys)) {
    print_stderr("mobula: process {} is cut off: its key was revoked or has expired",
                 process.brief());
    events_.add(executor::CallerGone{process});
  }
}

Result<bool> CalleeHalf::read(ProcessId caller, RingReader& ring) {
  while (true) {
    const auto found = ring.read(record_);
    if (!found || !*found) return found;
    detail::stages().pass(detail::Stage::arrived);
    auto frame = decode<CallerFrame>(record_);
    if (!frame) continue;
    auto& received = received_.emplace<executor::ReceivedFromCaller>();
    received.caller = caller;
    received.frame = std::move(*frame);
    if (open_) return true;
    early_calls_.push_back(std::move(received));
  }
}

// The first message authenticates the caller with a ticket. From another machine the ticket must
// match the key of the connection.
Result<ProcessId> CalleeHalf::greet(PeerHandle peer, const PeerOrigin& origin,
                                    std::span<const std::byte> bytes) {
  auto caller =
      callers_.greet(peer, origin, bytes, ticket_clock_.now_ms(wall_clock_ms(), monotonic_now()));
  if (caller) events_.add(executor::CallerAdmitted{*caller, callers_.agent_of(peer)});
  return caller;
}

void CalleeHalf::call_returned(std::uint64_t token) {
  contexts_.erase(token);
  add_results_held();
}

// ---- deferred calls ----------------------------------------------------------------------------

bool CalleeHalf::check_unsettled() {
  const auto is_settled = [this](const UnsettledCall& each) {
    return !caller_.holds_unconfirmed(each.reachable) && !caller_.storing(each.leaving);
  };
  bool any = false;
  for (std::size_t i = 0; i < unsettled_.size();) {
    if (!is_settled(unsettled_[i])) {
      ++i;
      continue;
    }
    UnsettledCall call = std::move(unsettled_[i]);
    unsettled_.erase(unsettled_.begin() + static_cast<std::ptrdiff_t>(i));
    std::ranges::copy(caller_.held(call.reachable), std::back_inserter(call.finished.kept));
    call_returned(call.finished.token);
    events_.add(std::move(call.finished));
    any = true;
  }
  return any;
}

bool CalleeHalf::on_cancel(std::uint64_t token, std::weak_ptr<detail::Job> job) {
  const auto* context = contexts_.find(token);
  if (context == nullptr) return true;  // complete
  if ((*context)->cancelled.load()) return false;
  (*context)->cancel_job = std::move(job);
  return true;
}

// ---- steps -------------------------------------------------------------------------------------

void CalleeHalf::step(Time now, executor::Event&& event, std::vector<executor::Command>& out) {
  const StepRecording<executor::ExecutorCore> recording(recorder_.get(), now, event, out);
  core_.consume(now, event, out);
}

void CalleeHalf::step_with_frame(Time now, std::vector<executor::Command>& out) {
  step(now, std::move(received_), out);
}

std::optional<Time> CalleeHalf::next_deadline() const {
  const auto of_core = core_.next_deadline();
  return of_core && report_at_ ? std::min(*of_core, *report_at_) : of_core ? of_core : report_at_;
}

void CalleeHalf::check() {
  fetches_due_ = false;
  if (std::exchange(tensors_due_, false)) add_results_held();
  check_fetches();
  if (!evacuating_ || !tensors_->evacuated()) return;
  evacuating_ = false;
  events_.add(executor::Evacuated{});
}

// The results that stay in this process.
void CalleeHalf::add_results_held() {
  const ResidentResults held = tensors_->residence();
  if (std::exchange(reported_held_, held) != held) events_.add(executor::ResultsHeld{held});
}

// ---- arguments ---------------------------------------------------------------------------------

void CalleeHalf::carry_out(executor::FetchArguments&& command) {
  if (command.refs.empty() && tensors_->has_made(command.tensors)) {
    return events_.add(ArgumentsFetched{.token = command.token, .failure = {}});
  }
  Fetch& fetch = fetches_[command.token];
  ahead_.waits(command.token, command.caller);
  for (const auto& argument : command.refs) {
    events_.add(AdoptRef{argument.ref});
    events_.add(WantObject{argument.ref.object, true});
    fetch.objects.push_back(argument.ref.object);
  }
  fetch.tensors = std::move(command.tensors);
  fetches_due_ = true;
}

void CalleeHalf::check_fetches() {
  for (auto& [token, fetch] : fetches_) {
    if (fetch.reported || !is_fetched(token, fetch)) continue;
    fetch.reported = true;
    events_.add(outcome_of(token, fetch));
  }
}

// The tensors of a call are pulled together once its objects are here, so that memory is reserved
// for all of them at once.
bool CalleeHalf::is_fetched(std::uint64_t token, Fetch& fetch) {
  const auto settled = [&](ObjectId object) { return caller_.settled(object); };
  if (!std::ranges::all_of(fetch.objects, settled)) return false;
  if (!fetch.pull) {
    find_tensors(fetch);
    if (!ahead_.may_pull(token, bytes_to_hold(fetch.tensors))) return false;
    fetch.pull = tensors_->pull(fetch.tensors, true);
  }
  return tensors_->ready(*fetch.pull);
}

ArgumentsFetched CalleeHalf::outcome_of(std::uint64_t token, const Fetch& fetch) const {
  ArgumentsFetched outcome;
  outcome.token = token;
  for (const ObjectId object : fetch.objects) {
    const auto* row = caller_.object(object);
    const auto why = row != nullptr ? why_unread(*row) : std::nullopt;
    if (why && why->code != ErrorCode::resource_exhausted) outcome.unread.push_back(object);
    if (why && !outcome.failure) outcome.failure = why;
  }
  for (const RefRecord& each : fetch.tensors) {
    const auto* why = tensors_->why_missing(each.object);
    if (why == nullptr || why->kind != detail::ErrorKind::object_lost) continue;
    outcome.lost.push_back(each.object);
    if (!outcome.failure) outcome.failure = failure(ErrorCode::not_found, why->message);
  }
  return outcome;
}

void CalleeHalf::find_tensors(Fetch& fetch) const {
  if (std::exchange(fetch.has_all_tensors, true)) return;
  for (const ObjectId object : fetch.objects) {
    const auto* row = caller_.object(object);
    if (row == nullptr) continue;
    std::ranges::copy_if(row->value->contained, std::back_inserter(fetch.tensors),
                         is_pulled_tensor);
  }
}

// Tensors that are mapped take no memory here.
std::uint64_t CalleeHalf::bytes_to_hold(const RefRecords& tensors) const {
  std::uint64_t bytes = 0;
  for (const RefRecord& each : tensors) {
    const bool in_place =
        each.tensor->in_shared_memory && each.tensor->holder->node == assignment_.node;
    if (!in_place)
      bytes += static_cast<std::uint64_t>(std::max<std::int64_t>(0, each.tensor->size_bytes));
  }
  return bytes;
}

LocalTensors::PullPtr CalleeHalf::drop_fetched(std::uint64_t token) {
  const auto at = fetches_.find(token);
  if (at == fetches_.end()) return nullptr;
  ahead_.begun(token);
  fetches_due_ = true;
  Fetch fetch = std::move(at->second);
  fetches_.erase(at);
  if (fetch.pull) tensors_->drop(fetch.pull);
  for (const ObjectId object : fetch.objects) {
    events_.add(UnwantObject{object});
    events_.add(ReleaseRef{object});
  }
  return std::move(fetch.pull);
}

// ---- running calls -----------------------------------------------------------------------------

void CalleeHalf::call_started(std::shared_ptr<TaskContext> context, const CallForm& form,
                              bool may_run_again) {
  const std::uint64_t token = context->token;
  if (!form.beside) note_running(form.name, context->task, may_run_again);
  contexts_.insert(token, std::move(context));
  ahead_.begun(token);
  fetches_due_ = true;
}

std::shared_ptr<TaskContext> CalleeHalf::carry_out(const executor::CancelRunning& command) {
  const auto* context = contexts_.find(command.token);
  if (context == nullptr) return nullptr;
  (*context)->cancelled.store(true);
  if (command.recursive) events_.add(CancelChildren{(*context)->task});
  return *context;
}

void CalleeHalf::carry_out(const executor::Evacuate&) {
  evacuating_ = true;
  tensors_->evacuate();
  tensors_due_ = true;
}

void CalleeHalf::carry_out(const executor::AwaitSubmitted&) {
  const auto work = caller_.unfinished();
  if (work.calls > 0) events_.add(executor::SubmittedPending{work.calls, work.example});
  events_.add(AwaitSubmitted{});
}

FindActor CalleeHalf::name_question() const {
  const ActorSpec& actor = assignment_.actor;
  return {0, actor.name, assignment_.name_space, actor.actor};
}

void CalleeHalf::note_running(const std::string& name, TaskId task, bool may_run_again) {
  if (running_.as_before(name, may_run_again)) return;
  const Time now = monotonic_now();
  switch (running_.starts(name, task, may_run_again, now)) {
    case RunningReports::Say::nothing: break;
    case RunningReports::Say::now: running_changed_ = true; break;
    case RunningReports::Say::later: report_at_ = now + RunningReports::pause; break;
  }
}

std::optional<RunningNow> CalleeHalf::take_running_report(Time now) {
  if (report_at_ && now >= *report_at_) {
    report_at_.reset();
    running_changed_ |= running_.again();
  }
  if (!std::exchange(running_changed_, false)) return std::nullopt;
  const auto& runs = running_.runs();
  return RunningNow{runs.name, runs.task, runs.may_run_again};
}

}  // namespace mobula::internal::client
