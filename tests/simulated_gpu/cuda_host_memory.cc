// Pinned host memory of the simulated driver. A stream that copies from or to it holds it, and
// freeing it in that time is misuse.
#include <cstdlib>
#include <map>
#include <mutex>

#include "simulated_gpu/cuda_state.h"
#include "simulated_gpu/settings.h"

namespace simulated_gpu {
namespace {

struct Pinned {
  explicit Pinned(void* block) : at(block) {}
  ~Pinned() { std::free(at); }
  void* at;
  std::size_t size = 0;
};

struct Tables {
  std::mutex mutex;
  std::map<abi::Address, std::shared_ptr<Pinned>> pinned;
};
Tables& host_tables() {
  static auto* const made = new Tables;  // leaked: threads of user code may outlive main
  return *made;
}

}  // namespace

std::shared_ptr<void> pinned_at(abi::Address at) {
  Tables& all = host_tables();
  const std::scoped_lock lock(all.mutex);
  auto after = all.pinned.upper_bound(at);
  if (after == all.pinned.begin()) return nullptr;
  --after;
  return at - after->first < after->second->size ? after->second : nullptr;
}

}  // namespace simulated_gpu

using namespace simulated_gpu;

extern "C" {

int cuMemHostAlloc(void** to, std::size_t size, unsigned) {
  if (const auto status = enter_context("cuMemHostAlloc")) return status;
  if (const auto broken = unsafe_call()) return broken;
  *to = nullptr;
  if (size == 0) return abi::success;
  constexpr std::size_t page = 4'096;
  auto made = std::make_shared<Pinned>(std::aligned_alloc(page, (size + page - 1) / page * page));
  if (made->at == nullptr) return abi::out_of_memory;
  made->size = size;
  *to = made->at;
  const std::scoped_lock lock(host_tables().mutex);
  host_tables().pinned.emplace(reinterpret_cast<abi::Address>(*to), std::move(made));
  return abi::success;
}

int cuMemFreeHost(void* at) {
  if (const auto status = enter("cuMemFreeHost")) return status;
  if (const auto broken = unsafe_call()) return broken;
  const std::scoped_lock lock(host_tables().mutex);
  const auto found = host_tables().pinned.find(reinterpret_cast<abi::Address>(at));
  if (found == host_tables().pinned.end())
    misuse("cuMemFreeHost of memory that is not pinned, or not any more");
  if (found->second.use_count() > 1) misuse("cuMemFreeHost of memory that a stream still uses");
  host_tables().pinned.erase(found);
  return abi::success;
}

}  // extern "C"
