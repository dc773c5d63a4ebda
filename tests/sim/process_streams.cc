// Streams between callers and executors: frames in both directions, and how a stream ends. The
// subscriptions of user code.
#include <iterator>
#include <memory>
#include <utility>

#include "protocol/codec/messages.h"
#include "sim/process_role.h"

namespace mobula::internal::sim {
namespace {

constexpr Duration lost_stream_delay = 2s;

}  // namespace

void Process::tell_executor(const client::SendToExecutor& command) {
  Process* executor = world().process_of(command.executor);
  if (executor == nullptr)
    return world().violation("grants", name() + " sends to an executor that never existed");
  const auto* push =
      command.frame.message ? std::get_if<PushCall>(&*command.frame.message) : nullptr;
  if (push != nullptr) world().streams().sent(*this, *push);
  auto& wire = wires_[executor->id()];
  if (!wire) {
    wire = std::make_shared<CallWire>();
    wire->caller = this;
    wire->executor = executor;
    wire->up = world().open_pipe(host(), executor->host(), true);
    wire->down = world().open_pipe(executor->host(), host(), true);
    if (!executor->alive()) {  // rejected
      if (push != nullptr)
        world().checkers().sent_to_the_dead(*executor, push->call.task, push->call.attempt);
      world().transmit(wire->down, [wire = wire] { wire->caller->wire_over(wire); });
      return;
    }
    executor->callers_[id()] = wire;
  }
  if (world().has_no_contact(host(), executor->host())) break_lost_stream(wire);
  if (push != nullptr && executor->alive()) {
    wire->in_transit.emplace(push->call.task, push->call.attempt);
  } else if (push != nullptr) {
    world().checkers().sent_to_the_dead(*executor, push->call.task, push->call.attempt);
  }
  world().log(*this, [&] { return "-> " + executor->name() + " " + describe(command.frame); });
  world().transmit(wire->up, [wire = wire, bytes = encode(command.frame)] {
    wire->executor->on_caller_message(wire, bytes);
  });
}

void Process::on_caller_message(const CallWirePointer& wire, const Bytes& bytes) {
  receive([this, wire, bytes] {
    auto frame = decode<CallerFrame>(bytes);
    if (!frame) return world().violation("codec", name() + ": " + frame.error().text);
    if (const auto* push = frame->message ? std::get_if<PushCall>(&*frame->message) : nullptr)
      wire->in_transit.erase({push->call.task, push->call.attempt});
    world().trace().fold(world().now(), number(), "caller", bytes);
    world().log(*this, [&] { return "<- " + wire->caller->name() + " " + describe(*frame); });
    if (!std::exchange(wire->admitted, true)) {
      step_executor(executor::CallerAdmitted{wire->caller->id(), wire->caller->voucher()});
    }
    step_executor(executor::ReceivedFromCaller{wire->caller->id(), std::move(*frame)});
  });
}

void Process::on_executor_message(const CallWirePointer& wire, const Bytes& bytes) {
  receive([this, wire, bytes] {
    auto frame = decode<ExecutorFrame>(bytes);
    if (!frame) return world().violation("codec", name() + ": " + frame.error().text);
    world().trace().fold(world().now(), number(), "executor", bytes);
    world().log(*this, [&] { return "<- " + wire->executor->name() + " " + describe(*frame); });
    world().checkers().reply_comes(*this, *frame);
    step_client(client::ReceivedFromExecutor{wire->executor->id(), std::move(*frame)});
  });
}

// The other end or the connection is gone, and all its messages have been delivered.
void Process::wire_over(const CallWirePointer& wire) {
  receive([this, wire] {
    if (wire->caller == this) {
      const auto at = wires_.find(wire->executor->id());
      if (at == wires_.end() || at->second != wire) return;
      wires_.erase(at);
      world().trace().fold(world().now(), number(), "stream over", wire->executor->number());
      return step_client(client::StreamEnded{wire->executor->id()});
    }
    const auto at = callers_.find(wire->caller->id());
    if (at != callers_.end() && at->second == wire) callers_.erase(at);
  });
}

// The transport detects only some time later that the other machine does not respond.
void Process::break_lost_stream(const CallWirePointer& wire) {
  if (std::exchange(wire->breaks, true)) return;
  world().kernel().after(lost_stream_delay, [this, wire] {
    world().break_pipe(wire->up);
    world().break_pipe(wire->down);
    if (alive()) wire_over(wire);
    if (wire->executor->alive()) wire->executor->wire_over(wire);
  });
}

void Process::break_lost_streams() {
  for (const auto& [executor, wire] : wires_) {
    if (world().has_no_contact(host(), wire->executor->host())) break_lost_stream(wire);
  }
}

void Process::break_stream(std::uint64_t which) {
  if (wires_.empty()) return;
  auto at = wires_.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(which % wires_.size()));
  const auto wire = at->second;
  world().log(*this, [&] { return "stream to " + wire->executor->name() + " breaks"; });
  world().break_pipe(wire->up);
  world().break_pipe(wire->down);
  wire_over(wire);
  wire->executor->wire_over(wire);
}

void Process::subscribe(ObjectId object) {
  if (world().plan().subscribes) step_client(world().completions().subscribe(*this, object));
}

void Process::unsubscribe(ObjectId object) {
  for (const auto& each : world().completions().unsubscribe(*this, object)) step_client(each);
}

}  // namespace mobula::internal::sim
