// Calls that this process serves: the commands of the executor core, and messages of callers.
#include <utility>

#include "base/logging/stderr_queue.h"
#include "client/engine/callee/callee_half.h"
#include "client/engine/process_engine.h"
#include "mobula/detail/stages.h"
#include "protocol/codec/messages.h"

namespace mobula::internal::client {
namespace {

constexpr std::uint64_t max_reported_rejections = 10;

}  // namespace

// ---- inputs ------------------------------------------------------------------------------------

void ProcessEngine::open_callee() {
  callee_->open();
  settle();
}

void ProcessEngine::call_blocked(std::uint64_t token, bool on) {
  if (callee_) step(executor::CallBlocked{token, on});
}

void ProcessEngine::finish_call(executor::CallFinished&& finished) {
  callee_->call_returned(finished.token);
  step(std::move(finished));
}

void ProcessEngine::check_unsettled() {
  if (callee_->check_unsettled()) settle();
}

// By ring: one frame per step. False: the ring is corrupted.
bool ProcessEngine::read_calls(ProcessId caller, RingReader& ring) {
  while (true) {
    const auto found = callee_->read(caller, ring);
    if (!found || !*found) return found.ok();
    ++calls_received_;
    settle();
    begin_step();
    callee_->step_with_frame(clock_.now(), callee_commands_);
    carry_out(callee_commands_);
    end_step();
  }
}

// By an accepted connection.
void ProcessEngine::caller_message(PeerHandle peer, const PeerOrigin& origin,
                                   std::span<const std::byte> bytes) {
  if (!callee_ || !callee_->is_open()) return;
  const ProcessId* known = callee_->caller_of(peer);
  if (known == nullptr) return greet(peer, origin, bytes);
  auto frames = decode_all<CallerFrame>(bytes);
  if (!frames) return;
  const ProcessId caller = *known;
  for (auto& frame : *frames) step(executor::ReceivedFromCaller{caller, std::move(frame)});
}

void ProcessEngine::greet(PeerHandle peer, const PeerOrigin& origin,
                          std::span<const std::byte> bytes) {
  const auto greeted = callee_->greet(peer, origin, bytes);
  if (greeted) {
    if (auto bus = sockets_->bus()) (*bus)->trust(peer);
    return;
  }
  if (greeted.error().code != ErrorCode::permission_denied) return;
  reject_peer(peer, greeted.error().text);
  if (refused_callers_++ >= max_reported_rejections) return;
  print_stderr("mobula: a caller is refused: {}", greeted.error().text);
}

// ---- steps -------------------------------------------------------------------------------------

void ProcessEngine::step(executor::Event event) {
  settle();
  begin_step();
  take(std::move(event));
  end_step();
}

void ProcessEngine::take(executor::Event&& event) {
  callee_->step(clock_.now(), std::move(event), callee_commands_);
  carry_out(callee_commands_);
}

// The runner takes the calls first.
void ProcessEngine::carry_out(std::vector<executor::Command>& commands) {
  callee_stepped_ = true;
  runner_->take(commands);
  for (auto& command : commands) {
    if (auto* frame = std::get_if<executor::SendToCaller>(&command)) {
      send_to_caller(*frame);
    } else if (auto* agent = std::get_if<executor::SendToAgent>(&command)) {
      tell_agent(std::move(agent->message));
    } else if (auto* fetch = std::get_if<executor::FetchArguments>(&command)) {
      callee_->carry_out(std::move(*fetch));
    } else if (const auto* run = std::get_if<executor::RunCall>(&command)) {
      if (run->group == executor::CallGroups::no_group) owner_.beside_call_queued();
      notify();
    } else if (const auto* drop = std::get_if<executor::DropCall>(&command)) {
      drop_call(drop->token);
    } else if (const auto* cancel = std::get_if<executor::CancelRunning>(&command)) {
      const auto call = callee_->carry_out(*cancel);
      if (!call) continue;
      notify();  // its thread may be blocked in a public call
      if (auto job = std::exchange(call->cancel_job, {}).lock()) run_callback(std::move(job));
      owner_.call_cancelled(call);
    } else if (std::holds_alternative<executor::WindowMoved>(command)) {
      notify();
    } else if (auto* pins = std::get_if<executor::ReleasePins>(&command)) {
      add(UnpinRefs{std::move(pins->refs), pins->unheld});
    } else if (const auto* evacuate = std::get_if<executor::Evacuate>(&command)) {
      callee_->carry_out(*evacuate);
    } else if (const auto* awaits = std::get_if<executor::AwaitSubmitted>(&command)) {
      callee_->carry_out(*awaits);
    } else if (std::holds_alternative<executor::ReleaseName>(command)) {
      caller_.release_name(callee_->name_question());
    } else if (std::holds_alternative<executor::DestroyActor>(command)) {
      callee_->destroy_actor();
      notify();
    } else if (const auto* leaves = std::get_if<executor::Leave>(&command)) {
      leave_ = *leaves;
    }
  }
  commands.clear();
  if (auto report = callee_->take_running_report(clock_.now())) tell_agent(std::move(*report));
}

// By ring, or by the connection of a caller that has none.
void ProcessEngine::send_to_caller(const executor::SendToCaller& command) {
  const Bytes& bytes = encode_frame_(command.frame);
  const bool sent = rings_.reply(command.caller, bytes);
  detail::stages().pass(detail::Stage::answered);
  if (sent) return;
  if (const auto peer = callee_->connection_of(command.caller)) tell_peer(*peer, bytes);
}

// The pull's last share is destroyed later and without the lock.
void ProcessEngine::drop_call(std::uint64_t token) {
  auto pull = callee_->drop_fetched(token);
  if (!pull) return;
  if (!pull->lent.empty()) add(EndBorrow{pull->lent});
  (void)loop().post([pull = std::move(pull)] {});
}

}  // namespace mobula::internal::client
