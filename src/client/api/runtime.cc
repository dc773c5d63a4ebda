#include <mobula/detail/runtime.h>

#include <cstdio>
#include <utility>

#include <mobula/errors.h>

#include "base/mutex.h"

namespace mobula::detail {

namespace {

// One per process by nature: what `task<f>` in user code reaches without being handed anything.
struct Installed {
  internal::Mutex mutex;
  std::shared_ptr<Runtime> runtime MOBULA_GUARDED_BY(mutex);
};

Installed& installed() {
  static Installed* const process_wide = new Installed;  // outlives static refs of user code
  return *process_wide;
}

}  // namespace

std::string hex(RawId id) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(id.high),
                static_cast<unsigned long long>(id.low));
  return text;
}

Runtime::~Runtime() = default;

std::shared_ptr<Runtime> runtime() {
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
  Installed& slot = installed();
  std::shared_ptr<Runtime> previous;  // ends outside the lock: its destructor may call back
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
  if (const auto owner = runtime_.lock()) owner->release(ref_);
}

// Compared without counting: `runtime` is alive.
bool Anchor::belongs_to(const std::shared_ptr<Runtime>& runtime) const {
  return !runtime_.owner_before(runtime) && !runtime.owner_before(runtime_);
}

RawId require_id(const Anchor* anchor, const std::shared_ptr<Runtime>& runtime) {
  if (anchor == nullptr) {
    throw InvalidRequestError("using an ObjectRef or ActorHandle that refers to nothing");
  }
  if (!anchor->belongs_to(runtime)) {
    throw InvalidRequestError("using " + hex(anchor->ref().id) +
                              ", which belongs to a cluster that this program has left; make it "
                              "anew after init");
  }
  return anchor->ref().id;
}

}  // namespace mobula::detail
