#include "client/engine/caller/completion_calls.h"

#include <algorithm>
#include <utility>

#include "client/engine/conversion.h"
#include "client/engine/process_engine.h"

namespace mobula::internal::client {
namespace {

using detail::Answer;

// Objects that one lock of the engine covers.
constexpr std::size_t objects_at_a_time = 256;

detail::ErrorRecord stopped_error() {
  return make_error(ErrorKind::not_initialized,
                    "waiting for completions: the cluster of this program has ended");
}

}  // namespace

Answer<std::uint64_t> CompletionCalls::add_sink(std::shared_ptr<detail::CompletionSink> sink) {
  const auto lock = engine_.lock();
  const std::uint64_t number = engine_.completions().add(std::move(sink));
  if (number == 0) return stopped_error();
  return number;
}

detail::Done CompletionCalls::subscribe(std::uint64_t sink,
                                        std::span<const detail::SubscribeRequest> requests,
                                        bool fetch_local) {
  while (!requests.empty()) {
    const auto lock = engine_.lock();
    const auto& completions = engine_.completions();
    if (!completions.contains(sink)) return stopped_error();
    const bool held = fetch_local && completions.runs_code(sink);
    const std::uint64_t before = completions.reports();
    const auto now = requests.first(std::min(requests.size(), objects_at_a_time));
    for (const auto& each : now) {
      engine_.step(
          SubscribeObject{ObjectId(bits(each.object)), sink, each.token, fetch_local, held});
    }
    // Another thread may wait for reports of the sink.
    if (completions.reports() != before) engine_.notify();
    requests = requests.subspan(now.size());
  }
  return std::nullopt;
}

void CompletionCalls::unsubscribe(std::uint64_t sink,
                                  const detail::SubscribeRequest& request) noexcept {
  const auto lock = engine_.lock();
  engine_.step(UnsubscribeObject{ObjectId(bits(request.object)), sink, request.token, false});
}

void CompletionCalls::remove_sink(std::uint64_t sink,
                                  std::span<const detail::RawId> objects) noexcept {
  Completions::SinkPtr removed;  // destroyed after the lock is released
  while (!objects.empty()) {
    const auto lock = engine_.lock();
    const auto now = objects.first(std::min(objects.size(), objects_at_a_time));
    for (const detail::RawId each : now)
      engine_.step(UnsubscribeObject{ObjectId(bits(each)), sink, 0, true});
    objects = objects.subspan(now.size());
  }
  const auto lock = engine_.lock();
  removed = engine_.completions().remove(sink);
}

Answer<bool> CompletionCalls::wait_for_report(const detail::Deadline& deadline,
                                              const std::function<bool()>& ready,
                                              const Waiting& waiting) {
  auto reported = wait_(
      deadline, [&] { return ready() || engine_.completions().ended(); }, waiting);
  const auto lock = engine_.lock();
  const bool over = engine_.stopping() || engine_.completions().ended();
  if (!over || !reported.ok() || !reported.value()) return reported;
  return stopped_error();
}

}  // namespace mobula::internal::client
