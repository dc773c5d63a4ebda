#include <mobula/detail/runtime.h>

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <utility>

#include <mobula/errors.h>

#include "base/mutex.h"
#include "client/api/exit_phase.h"

namespace mobula::detail {

namespace {

// Process-wide by nature: `task<f>` in user code receives no context.
struct Installed {
  internal::Mutex mutex;
  std::shared_ptr<Runtime> runtime MOBULA_GUARDED_BY(mutex);
};

Installed& installed() {
  static Installed* const process_wide = new Installed;  // outlives static refs of user code
  return *process_wide;
}

// A forked child has the memory, sockets, and rings of its parent, and none of its threads. The
// fork handler and the readers of these variables take no lock, because another thread of the
// parent may have held it.
std::atomic<bool> has_runtime{false};
std::atomic<pid_t> forked_from{0};  // not 0: this process is a child of a process with a runtime

void note_fork() {
  if (has_runtime.load()) forked_from.store(::getppid());
}

// True on the thread that runs exit handlers. Other threads of user code end with the process.
thread_local bool exits = false;

void refuse_exit_handler() {
  if (!exits) return;
  throw NotInitializedError(
      "calling Mobula in an exit handler or static destructor of executor process " +
      std::to_string(::getpid()) +
      ": the process has left the cluster; call Mobula in the destructor of the actor");
}

void watch_forks() {
  static std::once_flag once;
  std::call_once(once, [] { (void)::pthread_atfork(nullptr, nullptr, &note_fork); });
}

}  // namespace

bool in_forked_child() { return forked_from.load(std::memory_order_relaxed) != 0; }

void refuse_forked_child() {
  if (!in_forked_child()) return;
  throw NotInitializedError(
      "calling Mobula in process " + std::to_string(::getpid()) + ", a forked child of process " +
      std::to_string(forked_from.load()) +
      ": it shares the connections of its parent and cannot use them; call exec in the child, or "
      "fork before mobula::init");
}

std::string hex(RawId id) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(id.high),
                static_cast<unsigned long long>(id.low));
  return text;
}

Runtime::~Runtime() = default;

Answer<NextItem> Runtime::next_item(RawId, const Deadline&) {
  ErrorRecord refused;
  refused.kind = ErrorKind::invalid_request;
  refused.message = "next: this runtime has no streams";
  return refused;
}

void begin_exit_phase() { exits = true; }

bool counts_refs() { return !in_forked_child() && !exits; }

std::shared_ptr<Runtime> runtime() {
  refuse_forked_child();
  refuse_exit_handler();
  Installed& slot = installed();
  const internal::MutexLock lock(slot.mutex);
  if (!slot.runtime) {
    throw NotInitializedError(
        "calling Mobula before mobula::init, or after its cluster ended; keep the object that init "
        "returns for as long as you call");
  }
  return slot.runtime;
}

void install_runtime(std::shared_ptr<Runtime> runtime) {
  watch_forks();
  has_runtime.store(runtime != nullptr);
  Installed& slot = installed();
  std::shared_ptr<Runtime> previous;  // destroyed without the lock: its destructor may call back
  const internal::MutexLock lock(slot.mutex);
  previous = std::exchange(slot.runtime, std::move(runtime));
}

std::shared_ptr<const Anchor> Anchor::adopt(const std::shared_ptr<Runtime>& runtime,
                                            ContainedRef ref) {
  return std::make_shared<const Anchor>(runtime, ref);
}

std::shared_ptr<const Anchor> Anchor::retain(ContainedRef ref) {
  const auto owner = detail::runtime();
  owner->retain(ref);
  return adopt(owner, ref);
}

Anchor::~Anchor() {
  if (!counts_refs()) return;
  if (const auto owner = runtime_.lock()) owner->release(ref_);
}

// Compares owners without changing the use count: `runtime` is alive.
bool Anchor::belongs_to(const std::shared_ptr<Runtime>& runtime) const {
  return !runtime_.owner_before(runtime) && !runtime.owner_before(runtime_);
}

RawId require_id(const Anchor* anchor, const std::shared_ptr<Runtime>& runtime) {
  if (anchor == nullptr) {
    throw InvalidRequestError("using an ObjectRef or ActorHandle that refers to nothing");
  }
  if (!anchor->belongs_to(runtime)) {
    throw InvalidRequestError(
        "using " + hex(anchor->ref().id) +
        ", which belongs to a cluster that this program has left; make it again after init");
  }
  return anchor->ref().id;
}

}  // namespace mobula::detail
