// Public calls about tensors that other processes read.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "client/engine/conversion.h"
#include "client/engine/process_runtime.h"
#include "client/engine/tensors/tensor_holders.h"

namespace mobula::internal::client {
namespace {

// Holders are requested from the head after this delay, then at doubled intervals, and at the
// deadline.
constexpr Duration first_check_delay = 60ms;
constexpr Duration last_check_delay = 60s;
// An answer of the head about holders is awaited for this time, also beyond the deadline of the
// wait.
constexpr Duration holders_timeout = 1s;
constexpr std::size_t max_named_objects = 64;
constexpr std::size_t max_named_holders = 8;
constexpr std::size_t max_chained_calls = 16;

mobula::Duration seconds_of(Duration span) {
  return std::chrono::duration_cast<mobula::Duration>(span);
}

std::string still_read(const std::vector<TensorHolder>& holders,
                       const std::vector<std::string>& readers) {
  std::string text = "wait_tensor_freed: the tensor is still read; held by ";
  for (std::size_t i = 0; i < std::min(holders.size(), max_named_holders); ++i) {
    text += (i == 0 ? "" : ", ") + holders[i].text;
  }
  if (holders.empty())
    text += "a process that its node does not know yet, or by a call of this process";
  if (holders.size() > max_named_holders)
    text += fmt::format(" and {} more", holders.size() - max_named_holders);
  return fmt::format("{}; release their refs before ({})", text, fmt::join(readers, "; "));
}

}  // namespace

std::vector<Transfer> ProcessRuntime::transfers() {
  const auto held = engine_->lock();
  std::vector<Transfer> all;
  for (const TransferRecord& each : tensors_.transfers()) {
    Transfer& transfer = all.emplace_back();
    transfer.path = to_string(each.path);
    transfer.bytes = each.size_bytes;
    transfer.queue_time = seconds_of(each.queued);
    transfer.wire_time = seconds_of(each.moved);
    transfer.refusals = each.refusals;
    transfer.encrypted = each.encrypted;
    transfer.in_place = each.in_place;
    if (each.group.empty()) transfer.peer = each.holder.hex();
    transfer.group = each.group;
    transfer.operation = each.operation;
    transfer.sent_bytes = each.sent_bytes;
  }
  return all;
}

void ProcessRuntime::note_of_group(TransferRecord&& record) {
  const auto held = engine_->lock();
  tensors_.note_of_group(std::move(record));
}

detail::Done ProcessRuntime::wait_tensor_freed(const Tensor& tensor,
                                               const detail::Deadline& deadline) {
  const auto& parts = tensor.parts();
  if (!parts.storage) return std::nullopt;
  if (const auto sealed = parts.storage->sealed(); !sealed.empty()) {
    return make_error(detail::ErrorKind::tensor_shared,
                      "wait_tensor_freed: it will never be freed: " + std::string(sealed) +
                          "; clone() gives one of your own");
  }
  auto lock = engine_->lock();
  const auto readers = [&] {
    auto all = detail::readers_of(parts);
    std::ranges::move(detail::onlookers_of(parts), std::back_inserter(all));
    return all;
  };
  struct Waiting {  // counted before the readers are determined
    std::atomic<int>& count;
    explicit Waiting(std::atomic<int>& of) : count(of) { ++count; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    ~Waiting() { --count; }
  } const waiting(tensors_.waits_for_freed());
  for (const ObjectId object : tensors_.kept_in(*parts.storage)) {
    if (!engine_->core().refers_to(object)) continue;
    return make_error(detail::ErrorKind::tensor_shared,
                      "wait_tensor_freed: this process itself refers to the value that the tensor "
                      "is part of, so waiting would never end; release that ref first");
  }
  const auto reason = [&] {
    return fmt::format("the tensor is still read: {}", fmt::join(readers(), "; "));
  };
  const WaitFor what{"wait_tensor_freed", reason, {}};
  Duration pause = first_check_delay;
  while (true) {
    detail::Deadline next = detail::Deadline(std::chrono::steady_clock::now() + pause);
    const bool is_last = deadline && *deadline <= *next;
    if (is_last) next = deadline;
    const auto waited = blocking_wait(lock, what, next, [&] { return readers().empty(); });
    if (waited == Waited::ready) return std::nullopt;
    if (ended_early(waited)) return ended_error(waited, "wait_tensor_freed");
    const auto holders = holders_of(lock, *parts.storage);
    if (readers().empty()) return std::nullopt;
    if (const auto never = why_never_freed(lock, *parts.storage, holders); !never.empty()) {
      return make_error(detail::ErrorKind::tensor_shared, "wait_tensor_freed: " + never);
    }
    if (is_last) return make_error(detail::ErrorKind::get_timeout, still_read(holders, readers()));
    pause = std::min(2 * pause, last_check_delay);
  }
}

// Processes that hold elements of this memory and that their nodes know. Empty if the head does not
// answer.
std::vector<TensorHolder> ProcessRuntime::holders_of(ProcessEngine::Lock& lock,
                                                     const detail::TensorStorage& storage) {
  auto objects = tensors_.kept_in(storage);
  if (objects.size() > max_named_objects) objects.resize(max_named_objects);
  std::string ids;
  for (const ObjectId each : objects) ids += (ids.empty() ? "" : ",") + each.hex();
  if (ids.empty()) return {};
  const auto document = query_head(lock, "holders", ids);
  return document ? tensor_holders(*document, engine_->core().options().process)
                  : std::vector<TensorHolder>();
}

std::optional<std::string> ProcessRuntime::query_head(ProcessEngine::Lock& lock,
                                                      const std::string& kind,
                                                      const std::string& argument) {
  const auto answer =
      engine_->query(lock, ReadState{0, kind, argument}, monotonic_now() + holders_timeout);
  const auto* read = answer ? std::get_if<ReadStateReply>(&*answer) : nullptr;
  if (read == nullptr) return std::nullopt;
  return read->json;
}

// Number of calls from the running one to a call that `holder` made, each of them awaited by the
// only thread of its caller. 0: no such chain is known.
std::size_t ProcessRuntime::awaited_calls(ProcessEngine::Lock& lock, CallerState state,
                                          ProcessId holder) {
  for (std::size_t calls = 1; calls <= max_chained_calls && state.awaits; ++calls) {
    if (state.caller == holder) return calls;
    const auto running = query_head(lock, "tasks", "");
    const TaskId outer = running ? only_call_of(*running, state.caller) : TaskId();
    if (outer.empty()) return 0;
    const auto document = query_head(lock, "task", outer.hex());
    if (!document) return 0;
    state = caller_state(*document, outer);
  }
  return 0;
}

// Neither the wait nor the call ends before the other: an argument of the running call refers to
// the tensor, or the process with the last ref is blocked until the call returns, directly or
// through calls of further processes.
std::string ProcessRuntime::why_never_freed(ProcessEngine::Lock& lock,
                                            const detail::TensorStorage& storage,
                                            const std::vector<TensorHolder>& holders) {
  const TaskId running = task()->task;
  if (task()->token == 0) return {};
  const auto document = query_head(lock, "task", running.hex());
  if (!document) return {};
  const CallerState state = caller_state(*document, running);
  const auto kept = tensors_.kept_in(storage);
  if (std::ranges::find_first_of(state.tensors, kept) != state.tensors.end()) {
    return "an argument of this very call refers to the tensor, so the wait would never end; wait "
           "in a call without it";
  }
  const auto holder = sole_holder(holders);
  if (holder.empty()) return {};
  const std::size_t calls = awaited_calls(lock, state, holder);
  if (calls == 0) return {};
  const std::string blocked =
      calls == 1 ? "on this very call" : fmt::format("on a chain of {} calls to this one", calls);
  return fmt::format(
      "{} holds the last ref on the tensor and is blocked in get or wait {}, so the wait would "
      "never end; "
      "release the ref before the call, or wait in another call",
      holders.front().text, blocked);
}

}  // namespace mobula::internal::client
