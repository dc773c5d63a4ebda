#include <mobula/on_ready.h>

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include <mobula/detail/request.h>
#include <mobula/errors.h>

#include "base/fd.h"
#include "base/mutex.h"
#include "client/api/completion/completion_rows.h"
#include "client/api/completion/completion_source.h"
#include "client/api/exit_phase.h"

namespace mobula {

namespace {

[[noreturn]] void throw_queue_ended() {
  throw NotInitializedError(
      "using a CompletionQueue: the cluster that it was made in has ended; make a queue after "
      "init");
}

}  // namespace

// Lock order: the runtime's lock, then this one.
struct CompletionQueue::State final : detail::CompletionSink {
  explicit State(const OnReadyOptions& options) : fetch_local(options.fetch_local) {}

  // ---- with the runtime's lock held -------------------------------------------------------------
  void reported(std::uint64_t number) override {
    const internal::MutexLock lock(mutex);
    rows.set_ready(number);
    signal();
  }
  void stopped() noexcept override {
    const internal::MutexLock lock(mutex);
    ended = true;
    signal();
  }

  // ---- any thread -------------------------------------------------------------------------------
  std::shared_ptr<detail::CompletionSource> source_or_throw() const {
    detail::refuse_forked_child();
    auto alive = source.lock();
    if (!alive) throw_queue_ended();
    return alive;
  }
  std::size_t take_ready(std::span<std::uint64_t> tokens) {
    const internal::MutexLock lock(mutex);
    if (ended) throw_queue_ended();
    const std::size_t count = rows.take(tokens);
    signal();
    return count;
  }
  bool has_ready() {
    const internal::MutexLock lock(mutex);
    return rows.has_ready();
  }
  std::vector<detail::RawId> waiting() {
    const internal::MutexLock lock(mutex);
    return rows.waiting();
  }
  void erase(detail::CompletionRows::Number number) {
    const internal::MutexLock lock(mutex);
    rows.erase(number);
    signal();
  }
  // Makes the descriptor, if one exists, readable exactly while take() would return a token.
  void signal() MOBULA_REQUIRES(mutex) {
    const bool readable = ended || rows.has_ready();
    if (!event || readable == signalled) return;
    signalled = readable;
    std::uint64_t count = 1;
    if (readable) {
      (void)!::write(event.get(), &count, sizeof count);
    } else {
      (void)!::read(event.get(), &count, sizeof count);
    }
  }

  const bool fetch_local;
  std::weak_ptr<detail::Runtime> runtime;
  std::weak_ptr<detail::CompletionSource> source;
  std::uint64_t sink = 0;

  internal::Mutex mutex;
  detail::CompletionRows rows MOBULA_GUARDED_BY(mutex);
  internal::Fd event MOBULA_GUARDED_BY(mutex);  // opened by the first call of fd()
  bool signalled MOBULA_GUARDED_BY(mutex) = false;
  bool ended MOBULA_GUARDED_BY(mutex) = false;
};

CompletionQueue::CompletionQueue(const OnReadyOptions& options)
    : state_(std::make_shared<State>(options)) {
  const auto runtime = detail::runtime();
  const auto source = runtime->completion_source();
  if (!source) throw_queue_ended();
  state_->runtime = runtime;
  state_->source = source;
  state_->sink = source->add_sink(state_).take();
}

CompletionQueue::CompletionQueue(CompletionQueue&&) noexcept = default;

CompletionQueue& CompletionQueue::operator=(CompletionQueue&& other) noexcept {
  if (this == &other) return *this;
  end();
  state_ = std::move(other.state_);
  return *this;
}

CompletionQueue::~CompletionQueue() { end(); }

void CompletionQueue::end() noexcept {
  const auto state = std::move(state_);
  if (!state || !detail::counts_refs()) return;
  const auto source = state->source.lock();
  if (!source) return;
  std::vector<detail::RawId> waiting;
  {
    const internal::MutexLock lock(state->mutex);
    waiting = state->rows.waiting();
  }
  source->remove_sink(state->sink, waiting);
}

CompletionQueue::State& CompletionQueue::state() const {
  if (!state_) throw InvalidRequestError("using a CompletionQueue that was moved from");
  return *state_;
}

void CompletionQueue::add(const AnyRef& ref, std::uint64_t token) {
  State& own = state();
  const auto source = own.source_or_throw();
  const auto runtime = own.runtime.lock();
  if (!runtime) throw_queue_ended();
  const detail::RawId object = detail::require_id(ref.anchor().get(), runtime);
  detail::CompletionRows::Number number = 0;
  {
    const internal::MutexLock lock(own.mutex);
    if (own.ended) throw_queue_ended();
    number = own.rows.add(token, object);
  }
  const detail::SubscribeRequest request{object, number};
  if (auto failed = source->subscribe(own.sink, {&request, 1}, own.fetch_local)) {
    own.erase(number);
    detail::throw_error(*failed);
  }
}

void CompletionQueue::remove(std::uint64_t token) {
  State& own = state();
  const auto source = own.source_or_throw();
  while (true) {
    std::optional<detail::CompletionRows::Row> row;
    {
      const internal::MutexLock lock(own.mutex);
      row = own.rows.find(token);
    }
    if (!row) return;
    if (!row->ready) source->unsubscribe(own.sink, {row->object, row->number});
    own.erase(row->number);
  }
}

std::size_t CompletionQueue::take(std::span<std::uint64_t> tokens, Duration timeout) {
  State& own = state();
  detail::refuse_forked_child();
  const auto deadline = detail::deadline_after(timeout);
  if (tokens.empty()) return 0;
  while (true) {
    const std::size_t count = own.take_ready(tokens);
    if (count > 0 || timeout == Duration::zero()) return count;
    // Another thread may take the tokens first.
    const auto ready = own.source_or_throw()->wait_for_report(
        deadline, [&own] { return own.has_ready(); }, [&own] { return own.waiting(); });
    if (!ready.value()) return 0;
  }
}

std::size_t CompletionQueue::outstanding() const {
  State& own = state();
  const internal::MutexLock lock(own.mutex);
  return own.rows.size();
}

int CompletionQueue::fd() const {
  State& own = state();
  const internal::MutexLock lock(own.mutex);
  if (!own.event) {
    own.event = internal::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!own.event) {
      throw std::system_error(errno, std::generic_category(),
                              "opening the descriptor of a CompletionQueue");
    }
    own.signal();
  }
  return own.event.get();
}

}  // namespace mobula
