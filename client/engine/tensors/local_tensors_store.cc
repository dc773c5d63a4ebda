// Tensors that are written to the node's store, because their process exits or because another
// process requests them there, and tensors that are read from the store.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/logging/log.h"
#include "client/engine/conversion.h"
#include "client/engine/tensors/local_tensors.h"

namespace mobula::internal::client {
namespace {

// A full store may get free memory within this time.
constexpr Duration capacity_timeout = 10s;
constexpr Duration capacity_retry_backoff = 100ms;

}  // namespace

// Runs on its own thread, because the wait for store memory may be long.
void LocalTensors::write_to_store() {
  auto lock = engine_.lock();
  while (true) {
    engine_.wait(lock, std::nullopt, [this] { return ending_ || !to_store_.empty(); });
    if (ending_ || engine_.stopping()) return;
    ToStore what = std::move(to_store_.front());
    to_store_.pop_front();
    const auto failed = write_one(lock, what);
    if (const auto at = kept_.find(what.object); at != kept_.end()) at->second.stored = true;
    if (failed) log_error("a tensor that others refer to could not be stored: {}", failed->text);
    if (exchange_) exchange_->stored(what.object, failed);
    engine_.tensors_changed();
    lock.unlock();
    what = {};  // may be the last share, whose destructor may take the lock
    lock.lock();
  }
}

std::optional<Failure> LocalTensors::write_one(ProcessEngine::Lock& lock, const ToStore& what) {
  const auto size = static_cast<std::int64_t>(what.bytes.size());
  const auto& core = engine_.core();
  if (core.object(what.object) == nullptr) return std::nullopt;  // no ref is left
  // Keeps the object until it is written. A receiver may confirm earlier, and the resulting release
  // would free the memory.
  engine_.step(RetainRef{what.object});
  auto failed = write_held(lock, what, size);
  engine_.step(ReleaseRef{what.object});
  return failed;
}

std::optional<Failure> LocalTensors::write_held(ProcessEngine::Lock& lock, const ToStore& what,
                                                std::int64_t size) {
  const auto& core = engine_.core();
  const Time until = monotonic_now() + capacity_timeout;
  auto space = engine_.reserve(lock, what.object, size, core.options().process, core.node());
  while (!space && space.error().code == ErrorCode::resource_exhausted && monotonic_now() < until &&
         !ending_) {
    engine_.wait(lock, monotonic_now() + capacity_retry_backoff, [this] { return ending_; });
    space = engine_.reserve(lock, what.object, size, core.options().process, core.node());
  }
  if (!space)
    return space.error().code == ErrorCode::already_exists ? std::nullopt
                                                           : std::optional(space.error());
  lock.unlock();
  Result<void> copied;
  if (what.device == on_host) {
    std::memcpy(space->data(), what.bytes.data(), what.bytes.size());
  } else {
    copied = detail::copy_to_host(what.device, what.bytes, space->data());
  }
  lock.lock();
  engine_.seal(lock, what.object, !copied, {}, true);
  engine_.step(ReleaseRef{what.object});  // a write adds one ref
  return copied ? std::nullopt : std::optional(copied.error());
}

void LocalTensors::take_from_store(Pull& pull, const RefRecord& ref) {
  const auto* row = engine_.core().object(ref.object);
  auto view = engine_.caller().view(ref.object);
  const bool is_error = row != nullptr && row->ready && row->value->is_error;
  const auto size = static_cast<std::size_t>(ref.tensor->size_bytes);
  TransferRecord record = std::move(pull.records[ref.object]);
  record.size_bytes = ref.tensor->size_bytes;
  record.ended = monotonic_now();
  if (row != nullptr && row->readable && view && !is_error && view->bytes().size() == size) {
    const auto bytes = view->bytes();
    got(pull, ref.object, {.bytes = bytes, .owner = nullptr},
        lease(ref.object, std::make_shared<SlabView>(std::move(*view)), true),
        "it was read from an object that others read too");
    note(std::move(record));
    return;  // still wanted, which pins it
  }
  std::string why = "the runtime was shut down";
  if (row != nullptr && row->reading->failure) why = row->reading->failure->text;
  if (is_error)
    why = error_of(*row->value,
                   row->value->bytes.empty() && view ? view->bytes() : row->value->bytes.bytes())
              .message;
  auto error = make_error(
      detail::ErrorKind::object_lost,
      fmt::format(
          "the elements of a tensor of process {} are lost: {}{}{}", ref.owner.brief(), why,
          record.refusals.empty() ? "" : "; before that: ", fmt::join(record.refusals, "; ")));
  error.cause = why;
  fail(ref.object, std::move(error));
  record.failed = true;
  record.refusals.push_back("store: " + why);
  note(std::move(record));
  engine_.caller().add_unwant(ref.object);
}

}  // namespace mobula::internal::client
