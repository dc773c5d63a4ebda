// Public calls that may block: get, wait, and submission beyond max_pending_bytes. Also cancel and
// kill.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/model/tensor_refs.h"
#include "client/api/completion/interruption.h"
#include "client/engine/caller/get_batch.h"
#include "client/engine/caller/pending_reason.h"
#include "client/engine/caller/user_threads.h"
#include "client/engine/conversion.h"
#include "client/engine/process_runtime.h"

namespace mobula::internal::client {
namespace {

using detail::Answer;
using detail::RawId;

// A call that blocks for longer prints the reason.
constexpr Duration slow_wait_delay = 3s;
// A get or wait that blocks for longer is reported to the core: other processes may wait for refs
// that its thread holds.
constexpr Duration blocked_report_delay = 50ms;
// Without progress for this time, the store may be full of objects that the call itself holds.
constexpr Duration stall_timeout = 100ms;

std::optional<Time> time_of(const detail::Deadline& deadline) {
  if (!deadline) return std::nullopt;
  return Time::from_ns(
      std::chrono::duration_cast<std::chrono::nanoseconds>(deadline->time_since_epoch()).count());
}

PooledVector<ObjectId> ids_of(std::span<const RawId> objects) {
  PooledVector<ObjectId> ids;
  ids.reserve(objects.size());
  for (const RawId each : objects) ids.emplace_back(bits(each));
  return ids;
}

// Refs to tensor elements that the values contain but that are stored separately.
RefRecords tensors_of(const ClientCore& core, std::span<const RawId> objects) {
  RefRecords tensors;
  for (const RawId each : objects) {
    const auto* row = core.object(ObjectId(bits(each)));
    if (row == nullptr) continue;
    for (const RefRecord& ref : row->value->contained) {
      if (is_pulled_tensor(ref)) tensors.push_back(ref);
    }
  }
  return tensors;
}

bool has_tensors(const ClientCore& core, std::span<const RawId> objects) {
  return std::ranges::any_of(objects, [&](RawId each) {
    const auto* row = core.object(ObjectId(bits(each)));
    return row != nullptr && std::ranges::any_of(row->value->contained, is_pulled_tensor);
  });
}

}  // namespace

ProcessRuntime::Waited ProcessRuntime::blocking_wait(ProcessEngine::Lock& lock, const WaitFor& what,
                                                     const detail::Deadline& deadline,
                                                     const std::function<bool()>& ready) {
  if (ready()) return Waited::ready;
  const auto until = time_of(deadline);
  const Time began = monotonic_now();
  if (until && began >= *until) return Waited::timed_out;
  if (in_callback()) return Waited::cancelled;
  const auto context = task();
  const auto over = [&] { return context->cancelled.load() || detail::interrupted() || ready(); };
  const bool in_call = context->token != 0;
  if (in_call) engine_->call_blocked(context->token, true);
  std::optional<Time> warn_at, stalls_at, report_at;
  bool reported = false;
  if (!until && !what.needed.empty()) report_at = began + blocked_report_delay;
  if (what.reason) warn_at = began + slow_wait_delay;
  if (what.stalled) stalls_at = began + stall_timeout;
  bool done = false;
  while (true) {
    std::optional<Time> wake = until;
    for (const auto& each : {warn_at, stalls_at, report_at}) {
      if (each && (!wake || *each < *wake)) wake = each;
    }
    done = engine_->wait(lock, wake, over);
    const Time now = monotonic_now();
    if (done || (until && now >= *until)) break;
    if (warn_at && now >= *warn_at) {
      const std::string reason = what.reason();
      const std::string placement = why_not_placed(*engine_, lock, what.objects);
      engine_->warn(fmt::format("{} has blocked for {} s: {}{}", what.operation,
                                slow_wait_delay / 1s, reason, placement));
      if (what.from_head != nullptr) *what.from_head = placement;
      warn_at.reset();
    }
    if (report_at && now >= *report_at) {
      report_at.reset();
      reported = is_only_user_thread();
      if (reported) engine_->step(BlockedOn{ids_of(what.needed)});
    }
    if (stalls_at && now >= *stalls_at) {
      stalls_at = now + stall_timeout;
      done = what.stalled();
      if (done) break;
    }
  }
  if (reported) engine_->step(BlockedOn{});
  if (in_call) engine_->call_blocked(context->token, false);
  if (!done) return Waited::timed_out;
  const bool cancelled = context->cancelled.load();
  const bool early = (cancelled || detail::interrupted()) && !engine_->stopping() && !ready();
  if (!early) return Waited::ready;
  return cancelled ? Waited::cancelled : Waited::interrupted;
}

detail::ErrorRecord ProcessRuntime::ended_error(Waited waited, std::string_view operation) {
  return waited == Waited::interrupted ? detail::interrupted_error(operation)
                                       : cancelled_error(operation);
}

Answer<bool> ProcessRuntime::wait_for_report(const detail::Deadline& deadline,
                                             const std::function<bool()>& ready,
                                             const CompletionCalls::Waiting& waiting) {
  auto lock = engine_->lock();
  std::vector<RawId> objects;
  WaitFor what{"take", {}, {}};
  what.reason = [&]() -> std::string {
    objects = waiting();
    what.objects = objects;
    if (objects.empty()) return "no ref is outstanding; another thread must add one";
    return fmt::format("{} outstanding; the first: {}", objects.size(),
                       why_pending(*engine_, {objects.data(), 1}));
  };
  const auto waited = blocking_wait(lock, what, deadline, ready);
  if (ended_early(waited)) return ended_error(waited, "take");
  return waited == Waited::ready;
}

// ---- submitting --------------------------------------------------------------------------------

// `more`: bytes that the call is about to store. A single call may exceed the limit.
detail::Done ProcessRuntime::wait_for_budget(ProcessEngine::Lock& lock, bool block,
                                             std::int64_t more) {
  const auto used = [&] { return engine_->core().pending_bytes() + submitting_bytes_; };
  const auto fits = [&] {
    return used() + more <= options_.max_pending_bytes || (more > 0 && used() == 0);
  };
  if (fits()) return std::nullopt;
  const auto state = [&] {
    return "arguments of pending calls have " + std::to_string(used()) + " bytes, this call adds " +
           std::to_string(more) + ", and max_pending_bytes is " +
           std::to_string(options_.max_pending_bytes);
  };
  if (!block) {
    return make_error(ErrorKind::pending_limit,
                      "remote: " + state() + "; wait for some calls to end, or raise the limit");
  }
  const auto waited = blocking_wait(lock, {"remote", state, {}}, std::nullopt, fits);
  if (ended_early(waited)) return ended_error(waited, "remote");
  return std::nullopt;
}

// ---- get ---------------------------------------------------------------------------------------

detail::ErrorRecord ProcessRuntime::timeout_error(std::span<const RawId> objects,
                                                  const std::string& from_head) {
  return make_error(ErrorKind::get_timeout,
                    "get: timed out: " + why_pending(*engine_, objects) + from_head);
}

detail::Done ProcessRuntime::get(std::span<const RawId> objects, const detail::GetRequest& request,
                                 std::span<detail::StoredValue> values) {
  const auto got = get_batch(objects, request, values, true);
  if (!got.ok()) return got.error();
  return std::nullopt;
}

Answer<std::size_t> ProcessRuntime::get_some(std::span<const RawId> objects,
                                             const detail::GetRequest& request,
                                             std::span<detail::StoredValue> values) {
  return get_batch(objects, request, values, false);
}

detail::Done ProcessRuntime::check_device(const detail::GetRequest& request) {
  if (!request.device || request.device->kind == Device::cpu) return std::nullopt;
  tensors_.open_devices();
  const auto memory = device_memory();
  if (memory && !memory->uuid_of(request.device->index).empty()) return std::nullopt;
  return make_error(ErrorKind::invalid_request,
                    "get: device: this process has no lease on a GPU of index " +
                        std::to_string(request.device->index) +
                        "; a task requests one with num_gpus");
}

Answer<std::size_t> ProcessRuntime::get_batch(std::span<const RawId> objects,
                                              const detail::GetRequest& request,
                                              std::span<detail::StoredValue> values, bool whole) {
  if (auto refused = check_device(request)) return *std::move(refused);
  Pulls pulls;  // destroyed after the lock is released
  auto lock = engine_->lock();
  GetBatch batch(*engine_, objects, whole);
  std::string from_head;
  WaitFor what{"get",     [&] { return why_pending(*engine_, objects); }, {}, objects, objects,
               &from_head};
  if (!whole && objects.size() > 1) {
    what.stalled = [&batch, seen = std::size_t{0}]() mutable {
      return std::exchange(seen, batch.size()) == batch.size() && batch.cut_short();
    };
  }
  const auto failed = [&](Waited waited) -> detail::Done {
    if (waited == Waited::ready) return std::nullopt;
    return ended_early(waited) ? ended_error(waited, "get") : timeout_error(objects, from_head);
  };
  if (auto why =
          failed(blocking_wait(lock, what, request.deadline, [&] { return batch.complete(); })))
    return *why;
  what.stalled = nullptr;
  const auto ready = objects.first(engine_->stopping() ? objects.size() : batch.size());
  if (has_tensors(engine_->core(), ready)) {
    const auto values_settled = [&] {
      return failed(
          blocking_wait(lock, what, request.deadline, [&] { return batch.all_settled(); }));
    };
    if (auto why = pull_tensors(lock, ready, request, pulls, values_settled)) return *why;
  }
  for (std::size_t i = 0; i < ready.size(); ++i) {
    values[i] = values_.stored_object(lock, ObjectId(bits(ready[i])));
    values[i].device = request.device;
  }
  for (const auto& pull : pulls) tensors_.drop(pull);
  engine_->settle();
  return ready.size();
}

// Pulls the elements of the values' tensors. `values_settled` waits for values that are recomputed
// because their elements were lost with their process.
detail::Done ProcessRuntime::pull_tensors(ProcessEngine::Lock& lock, std::span<const RawId> objects,
                                          const detail::GetRequest& request, Pulls& pulls,
                                          const std::function<detail::Done()>& values_settled) {
  std::optional<TransportPreference> preference;
  if (request.tensor_transport == Transport::object_store) {
    preference = TransportPreference{true, DirectPath::store, request.allow_fallback};
  } else if (request.tensor_transport != Transport::automatic) {
    preference = preference_of(request.tensor_transport, request.allow_fallback);
  }
  std::optional<int> device;
  if (request.device)
    device = request.device->kind == Device::cpu ? on_host : request.device->index;
  const auto fail = [&](detail::ErrorRecord why) {
    for (const auto& pull : pulls) tensors_.drop(pull);
    engine_->settle();
    return why;
  };
  const auto& core = engine_->core();
  for (auto tensors = tensors_of(core, objects); !tensors.empty();
       tensors = tensors_of(core, objects)) {
    pulls.push_back(tensors_.pull(tensors, false, preference, device));
    engine_->settle();
    const auto late = [&] {
      return "the elements of a tensor are not there yet; process " +
             tensors.front().owner.brief() + " has the first of them";
    };
    const auto waited = blocking_wait(lock, {"get", late, {}}, request.deadline,
                                      [&] { return tensors_.ready(*pulls.back()); });
    engine_->settle();
    if (ended_early(waited)) return fail(ended_error(waited, "get"));
    if (waited == Waited::timed_out)
      return fail(make_error(ErrorKind::get_timeout, "get: timed out: " + late()));
    for (const RefRecord& each : tensors) {
      const auto* why = tensors_.why_missing(each.object);
      if (why != nullptr && why->kind == ErrorKind::object_lost)
        engine_->step(ElementsLost{each.object});
    }
    const bool settled = std::ranges::all_of(
        objects, [&](RawId each) { return engine_->core().settled(ObjectId(bits(each))); });
    if (settled) break;
    if (auto why = values_settled()) return fail(*std::move(why));
  }
  return std::nullopt;
}

// ---- wait, cancel, kill ------------------------------------------------------------------------

// True if a value is on this node: in this process, or in the node's store, in memory or on disk.
// The check needs no hold.
bool ProcessRuntime::is_local(ObjectId object) const {
  const auto* row = engine_->core().object(object);
  if (row == nullptr || engine_->core().settled(object)) return true;
  return row->ready && row->value->location == engine_->core().node();
}

Answer<std::vector<bool>> ProcessRuntime::wait(std::span<const RawId> objects,
                                               std::size_t num_returns,
                                               const detail::Deadline& deadline, bool fetch_local) {
  auto lock = engine_->lock();
  const auto is_ready = [&](RawId id) {
    const ObjectId object(bits(id));
    const auto* row = engine_->core().object(object);
    if (fetch_local || row == nullptr || !row->owned) return is_local(object);
    return row->ready;
  };
  std::vector<bool> ready(objects.size(), false), wanted;
  std::size_t count = 0;
  const auto poll = [&] {
    for (std::size_t i = 0; i < objects.size() && count < num_returns; ++i) {
      if (ready[i] || !is_ready(objects[i])) continue;
      ready[i] = true;
      ++count;
      // A ready object is not held: the store may move its bytes to disk and receive the next
      // object.
      if (wanted.empty() || !wanted[i]) continue;
      wanted[i] = false;
      engine_->unwant(ObjectId(bits(objects[i])));
    }
    return count >= num_returns;
  };
  // In most calls the first few are ready, and the others need no fetch.
  if (poll()) return ready;
  wanted.resize(objects.size());
  for (std::size_t i = 0; i < objects.size(); ++i) {
    const ObjectId object(bits(objects[i]));
    const auto* row = engine_->core().object(object);
    if (ready[i] || (!fetch_local && (row == nullptr || row->owned))) continue;
    wanted[i] = true;
    engine_->want(object);
  }
  const auto reason = [&] {
    for (std::size_t i = 0; i < objects.size(); ++i) {
      if (ready[i]) continue;
      return fmt::format("{} of {} are ready; the first of the others: {}", count, num_returns,
                         engine_->core().why_pending(monotonic_now(), ObjectId(bits(objects[i]))));
    }
    return std::string();
  };
  const auto needed = num_returns >= objects.size() ? objects : std::span<const RawId>();
  const auto waited =
      blocking_wait(lock, {"wait", reason, {}, needed, objects}, deadline, std::ref(poll));
  for (std::size_t i = 0; i < objects.size(); ++i) {
    if (wanted[i]) engine_->unwant(ObjectId(bits(objects[i])));
  }
  if (ended_early(waited)) return ended_error(waited, "wait");
  return ready;
}

detail::Done ProcessRuntime::cancel(RawId id, bool force, bool recursive) {
  const ObjectId object(bits(id));
  auto lock = engine_->lock();
  if (force && engine_->core().is_actor_call(object)) {
    auto error = make_error(
        ErrorKind::invalid_request,
        "cancel: force does not apply to a call of an actor, whose process serves other calls too; "
        "cancel it without force, or end the actor with kill()");
    error.field = "force";
    error.rule = "must be false for a call of an actor";
    return error;
  }
  engine_->step(CancelObject{object, force, recursive});
  return std::nullopt;
}

detail::Done ProcessRuntime::kill(RawId actor, bool no_restart) {
  auto lock = engine_->lock();
  engine_->step(KillActor{ActorId(bits(actor)), no_restart});
  return std::nullopt;
}

}  // namespace mobula::internal::client
