// Streams: steps of consumers in this process, and the wait of a producer for its consumers.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/model/stream_link.h"
#include "client/engine/conversion.h"
#include "client/engine/process_runtime.h"

namespace mobula::internal::client {
namespace {

using detail::Answer;
using detail::NextItem;
using detail::RawId;

detail::ErrorRecord no_stream(ObjectId position) {
  return make_error(ErrorKind::invalid_request, "next: object " + position.hex() +
                                                    " is not a stream; take it from "
                                                    "the result of a streaming call");
}

}  // namespace

// The step from a position whose value is in this process. Empty: it must be awaited or read.
std::optional<Answer<NextItem>> ProcessRuntime::take_item(ObjectId position) {
  auto lock = engine_->lock();
  const auto* row = engine_->core().object(position);
  if (row == nullptr || !row->ready || row->doubted || !row->is_inline() || row->value->is_error)
    return std::nullopt;
  const RefRecords& refs = row->value->contained;
  if (refs.empty() && row->value->size_bytes == 1) return NextItem{.ended = true};
  if (refs.size() != 2) return no_stream(position);
  const NextItem next{false, raw(refs.front().object.bits()), raw(refs.back().object.bits())};
  engine_->step(TakeItem{position});
  return next;
}

Answer<NextItem> ProcessRuntime::next_item(RawId position, const detail::Deadline& deadline) {
  const ObjectId object(bits(position));
  if (auto next = take_item(object)) return *std::move(next);
  detail::GetRequest request;
  request.deadline = deadline;
  detail::StoredValue value;
  if (auto failed = get({&position, 1}, request, {&value, 1})) return *std::move(failed);
  if (value.error) return *value.error;
  if (auto next = take_item(object)) return *std::move(next);
  const auto& refs = value.contained;
  if (refs.empty() && value.bytes.size() == 1) return NextItem{.ended = true};
  const auto is_object = [](const auto& ref) { return ref.kind == detail::RefKind::object; };
  if (refs.size() != 2 || !std::ranges::all_of(refs, is_object)) return no_stream(object);
  // The value still holds its refs.
  for (const auto& ref : refs) retain(ref);
  if (const auto link = stream_link(value.bytes)) {
    const auto lock = engine_->lock();
    engine_->step(ItemRead{object, ObjectId(bits(refs.back().id)), *link});
  }
  return NextItem{false, refs.front().id, refs.back().id};
}

detail::Done ProcessRuntime::wait_for_consumers(ProcessEngine::Lock& lock,
                                                const std::function<bool()>& has_space) {
  const auto waited = blocking_wait(lock, {"co_yield", {}, {}}, std::nullopt, has_space);
  if (waited == Waited::cancelled) return cancelled_error("co_yield");
  return std::nullopt;
}

}  // namespace mobula::internal::client
