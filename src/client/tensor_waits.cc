// Public calls about tensors that other processes read.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "client/conversion.h"
#include "client/process_runtime.h"

namespace mobula::internal::client {
namespace {

mobula::Duration seconds_of(Duration span) { return std::chrono::duration_cast<mobula::Duration>(span); }

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

detail::Done ProcessRuntime::wait_tensor_freed(const Tensor& tensor, const detail::Deadline& deadline) {
  const auto& parts = tensor.parts();
  if (!parts.storage) return std::nullopt;
  if (const auto sealed = parts.storage->sealed(); !sealed.empty()) {
    return make_error(detail::ErrorKind::tensor_shared,
                      "wait_tensor_freed: it will never be freed: " + std::string(sealed) + "; clone() gives one of your own");
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
  } const waiting(*waits_for_freed_);
  for (const ObjectId object : tensors_.kept_in(*parts.storage)) {
    if (!engine_->core().refers_to(object)) continue;
    return make_error(detail::ErrorKind::tensor_shared,
                      "wait_tensor_freed: this process itself refers to the value that the tensor is part of, so waiting "
                      "would never end; let go of that ref before");
  }
  const auto reason = [&] { return fmt::format("the tensor is still read: {}", fmt::join(readers(), "; ")); };
  const auto waited = blocking_wait(lock, {"wait_tensor_freed", reason, {}}, deadline, [&] { return readers().empty(); });
  if (waited == Waited::ready) return std::nullopt;
  if (waited == Waited::cancelled) return cancelled_error("wait_tensor_freed");
  return make_error(detail::ErrorKind::get_timeout,
                    fmt::format("wait_tensor_freed: the tensor is still read: {}", fmt::join(readers(), "; ")));
}

}  // namespace mobula::internal::client
