// Subscriptions with a callback.
#include <mobula/on_ready.h>

#include <chrono>
#include <exception>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include <mobula/errors.h>

#include "base/logging/stderr_queue.h"
#include "base/mutex.h"
#include "client/api/completion/completion_source.h"
#include "client/api/exit_phase.h"

namespace mobula {

namespace detail {

// The callback runs without the lock. Its thread is the only one that uses the function then.
class SubscriptionState final : public CompletionSink,
                                public std::enable_shared_from_this<SubscriptionState> {
 public:
  SubscriptionState(std::function<void(std::size_t)> callback, std::function<void()> stopped,
                    const OnReadyOptions& options, CallSite site)
      : callback_(std::move(callback)),
        on_stopped_(std::move(stopped)),
        fetch_local_(options.fetch_local),
        site_(site) {}

  bool runs_code() const override { return true; }
  void run(std::uint64_t index) noexcept override;
  void stopped() noexcept override;
  void start(std::span<const AnyRef> refs);
  void cancel() noexcept;

 private:
  bool begin(std::optional<std::uint64_t> index);
  void call(const std::function<void()>& function) noexcept;
  void end();

  std::function<void(std::size_t)> callback_;
  std::function<void()> on_stopped_;
  const bool fetch_local_;
  const CallSite site_;
  std::weak_ptr<CompletionSource> source_;  // set by start()
  std::uint64_t sink_ = 0;

  internal::Mutex mutex_;
  internal::CondVar idle_;
  std::vector<RawId> objects_ MOBULA_GUARDED_BY(mutex_);
  std::vector<bool> reported_ MOBULA_GUARDED_BY(mutex_);
  std::thread::id running_ MOBULA_GUARDED_BY(mutex_);  // thread of the running callback
  bool ended_ MOBULA_GUARDED_BY(mutex_) = false;       // no further callback
};

void SubscriptionState::start(std::span<const AnyRef> refs) {
  const auto target = runtime();
  const auto source = target->completion_source();
  if (!source) throw NotInitializedError("on_ready: this program has no cluster");
  std::vector<SubscribeRequest> requests;
  requests.reserve(refs.size());
  for (const AnyRef& each : refs)
    requests.push_back({require_id(each.anchor().get(), target), requests.size()});
  {
    const internal::MutexLock lock(mutex_);
    for (const auto& each : requests) objects_.push_back(each.object);
    reported_.resize(requests.size());
  }
  source_ = source;
  sink_ = source->add_sink(shared_from_this()).take();
  require(source->subscribe(sink_, requests, fetch_local_));
}

// False: the subscription has ended.
bool SubscriptionState::begin(std::optional<std::uint64_t> index) {
  const internal::MutexLock lock(mutex_);
  if (ended_) return false;
  running_ = std::this_thread::get_id();
  if (index) {
    reported_[*index] = true;
  } else {
    ended_ = true;
  }
  return true;
}

void SubscriptionState::call(const std::function<void()>& function) noexcept {
  const auto log = [this](std::string_view text) {
    internal::print_stderr("mobula: completion callback of {}:{} threw {}", site_.file, site_.line,
                           text);
  };
  try {
    function();
  } catch (const std::exception& error) {
    log(error.what());
  } catch (...) {
    log("an object that is not a std::exception");
  }
}

void SubscriptionState::end() {
  std::function<void(std::size_t)> callback;  // destroyed after the lock is released
  std::function<void()> on_stopped;
  const internal::MutexLock lock(mutex_);
  running_ = {};
  if (ended_) {
    callback = std::move(callback_);
    on_stopped = std::move(on_stopped_);
  }
  idle_.notify_all();
}

void SubscriptionState::run(std::uint64_t index) noexcept {
  if (!begin(index)) return;
  call([&] { callback_(static_cast<std::size_t>(index)); });
  end();
}

void SubscriptionState::stopped() noexcept {
  if (!begin(std::nullopt)) return;
  if (on_stopped_) call(on_stopped_);
  end();
}

void SubscriptionState::cancel() noexcept {
  std::function<void(std::size_t)> callback;  // destroyed after the lock is released
  std::function<void()> on_stopped;
  std::vector<RawId> waiting;
  {
    internal::MutexLock lock(mutex_);
    ended_ = true;
    while (running_ != std::thread::id() && running_ != std::this_thread::get_id())
      idle_.wait(lock);
    for (std::size_t i = 0; i < objects_.size(); ++i) {
      if (!reported_[i]) waiting.push_back(objects_[i]);
    }
    objects_.clear();
    if (running_ == std::thread::id()) {
      callback = std::move(callback_);
      on_stopped = std::move(on_stopped_);
    }
  }
  const auto source = source_.lock();
  if (source && sink_ != 0) source->remove_sink(sink_, waiting);
}

std::shared_ptr<SubscriptionState> make_subscription(std::function<void(std::size_t)> callback,
                                                     std::function<void()> stopped,
                                                     const OnReadyOptions& options, CallSite site) {
  return std::make_shared<SubscriptionState>(std::move(callback), std::move(stopped), options,
                                             site);
}

bool is_ready(const AnyRef& ref) {
  const auto target = runtime();
  const RawId object = require_id(ref.anchor().get(), target);
  auto ready = target->wait({&object, 1}, 1, std::chrono::steady_clock::now(), true);
  return ready.ok() && ready.value().front();
}

void start(const std::shared_ptr<SubscriptionState>& subscription, std::span<const AnyRef> refs) {
  subscription->start(refs);
}

}  // namespace detail

Subscription::Subscription(std::shared_ptr<detail::SubscriptionState> state)
    : state_(std::move(state)) {}

Subscription::Subscription(Subscription&&) noexcept = default;

Subscription& Subscription::operator=(Subscription&& other) noexcept {
  if (this == &other) return *this;
  cancel();
  state_ = std::move(other.state_);
  return *this;
}

Subscription::~Subscription() { cancel(); }

void Subscription::cancel() noexcept {
  const auto state = std::move(state_);
  if (state && detail::counts_refs()) state->cancel();
}

Subscription on_ready(std::span<const AnyRef> refs, std::function<void(std::size_t)> callback,
                      const OnReadyOptions& options, detail::CallSite site) {
  if (!callback) throw InvalidRequestError("on_ready: the callback is empty");
  auto state = detail::make_subscription(std::move(callback), {}, options, site);
  Subscription subscription(state);
  detail::start(state, refs);
  return subscription;
}

}  // namespace mobula
