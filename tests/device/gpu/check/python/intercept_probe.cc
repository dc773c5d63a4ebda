// A library with the SONAME libcuda.so.1 for the stage `interception`, preloaded before the real
// driver. It replaces the calls that allocate device memory or report its amount, and writes a
// report at exit. All other calls go to the real driver, which is its dependency under the path
// $ORIGIN/real_libcuda.so. An experiment, not the product: it loads the driver at process start and
// counts requested bytes.
//   MOBULA_INTERCEPT_LIMIT   bytes that the process may allocate; not set: no limit
//   MOBULA_INTERCEPT_REPORT  file to which the report is appended as one JSON line
// Thread: any. Uses no C++ library, so that it loads into any process.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

namespace {

constexpr int success = 0, out_of_memory = 2;

enum Hook : int {
  get_proc_address,
  get_proc_address_v2,
  memory_info,
  device_total,
  alloc,
  alloc_managed,
  alloc_async,
  alloc_async_ptsz,
  alloc_from_pool,
  alloc_from_pool_ptsz,
  free_sync,
  free_async,
  free_async_ptsz,
  create,
  release,
  hooks
};

struct Entry {
  const char* symbol;  // as the real driver exports it
  const char* name;    // as cuGetProcAddress takes it
  void* real = nullptr;
  void* hook = nullptr;
  long calls = 0;
};

extern Entry table[hooks];

pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
long lookups = 0, replaced = 0, refused = 0;
unsigned long long used = 0, peak = 0;
constexpr int most_noted = 16;
char escaped[most_noted][96];
int escaped_count = 0;

class Locked {
 public:
  Locked() { pthread_mutex_lock(&lock); }
  ~Locked() { pthread_mutex_unlock(&lock); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

unsigned long long limit() {
  const char* const text = getenv("MOBULA_INTERCEPT_LIMIT");
  return text == nullptr ? ~0ull : strtoull(text, nullptr, 10);
}

// Sizes of allocations by address or handle: open addressing, for at most this many at a time.
constexpr unsigned long long buckets = 1u << 16;
struct Allocation {
  unsigned long long key, bytes;
} allocations[buckets];

void note(unsigned long long key, unsigned long long bytes) {
  for (unsigned long long i = 0, at = key * 0x9e3779b97f4a7c15ull >> 48; i < buckets;
       ++i, at = (at + 1) % buckets) {
    if (allocations[at].bytes != 0) continue;
    allocations[at] = {key, bytes};
    return;
  }
}
// Later entries may have probed past a freed one, so a lookup goes through the whole table in the
// worst case.
unsigned long long forget(unsigned long long key) {
  for (unsigned long long i = 0, at = key * 0x9e3779b97f4a7c15ull >> 48; i < buckets;
       ++i, at = (at + 1) % buckets) {
    if (allocations[at].bytes == 0 || allocations[at].key != key) continue;
    const unsigned long long bytes = allocations[at].bytes;
    allocations[at] = {0, 0};
    return bytes;
  }
  return 0;
}

void* real(Hook which) {
  Entry& entry = table[which];
  if (entry.real == nullptr) entry.real = dlsym(RTLD_NEXT, entry.symbol);
  return entry.real;
}
template <class Function>
Function* real_as(Hook which) {
  return reinterpret_cast<Function*>(real(which));
}

bool reserve(Hook which, unsigned long long bytes) {
  const Locked locked;
  ++table[which].calls;
  if (used + bytes > limit()) {
    ++refused;
    return false;
  }
  used += bytes;
  if (used > peak) peak = used;
  return true;
}
// The result of the driver: on failure the reservation ends.
int settle(int status, unsigned long long key, unsigned long long bytes) {
  const Locked locked;
  if (status == success) {
    note(key, bytes);
  } else {
    used -= bytes;
  }
  return status;
}
void released(Hook which, unsigned long long key) {
  const Locked locked;
  ++table[which].calls;
  used -= forget(key);
}

// Replaces a pointer that equals one of the real functions. `name` without an equal pointer is an
// escape.
void replace(const char* name, void** to, int version, unsigned long long flags) {
  const Locked locked;
  ++lookups;
  bool watched = false;
  for (int i = 0; i < hooks; ++i) {
    if (strcmp(table[i].name, name) == 0) watched = true;
    if (real(static_cast<Hook>(i)) != nullptr && table[i].real == *to) {
      *to = table[i].hook;
      ++replaced;
      return;
    }
  }
  if (!watched || escaped_count == most_noted) return;
  snprintf(escaped[escaped_count++], sizeof escaped[0], "%s %d %llu", name, version, flags);
}

__attribute__((destructor)) void report() {
  const char* const path = getenv("MOBULA_INTERCEPT_REPORT");
  if (path == nullptr || lookups == 0) return;
  char text[8192];
  int size =
      snprintf(text, sizeof text,
               "{\"lookups\":%ld,\"replaced\":%ld,\"refused\":%ld,\"peak_bytes\":%llu,\"calls\":{",
               lookups, replaced, refused, peak);
  bool first = true;
  for (const Entry& each : table) {
    if (each.calls == 0) continue;
    size += snprintf(text + size, sizeof text - static_cast<size_t>(size), "%s\"%s\":%ld",
                     first ? "" : ",", each.symbol, each.calls);
    first = false;
  }
  size += snprintf(text + size, sizeof text - static_cast<size_t>(size), "},\"escaped\":[");
  for (int i = 0; i < escaped_count; ++i)
    size += snprintf(text + size, sizeof text - static_cast<size_t>(size), "%s\"%s\"",
                     i == 0 ? "" : ",", escaped[i]);
  size += snprintf(text + size, sizeof text - static_cast<size_t>(size), "]}\n");
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) return;
  (void)!write(file, text, static_cast<size_t>(size));
  close(file);
}

}  // namespace

#define MOBULA_HOOK extern "C" __attribute__((visibility("default"))) int

MOBULA_HOOK cuGetProcAddress_v2(const char* name, void** to, int version, unsigned long long flags,
                                int* found) {
  const int status = real_as<int(const char*, void**, int, unsigned long long, int*)>(
      get_proc_address_v2)(name, to, version, flags, found);
  if (status == success && to != nullptr && *to != nullptr) replace(name, to, version, flags);
  return status;
}
MOBULA_HOOK cuGetProcAddress(const char* name, void** to, int version, unsigned long long flags) {
  const int status = real_as<int(const char*, void**, int, unsigned long long)>(get_proc_address)(
      name, to, version, flags);
  if (status == success && to != nullptr && *to != nullptr) replace(name, to, version, flags);
  return status;
}
MOBULA_HOOK cuMemGetInfo_v2(size_t* free, size_t* total) {
  size_t free_here = 0, total_here = 0;
  const int status = real_as<int(size_t*, size_t*)>(memory_info)(&free_here, &total_here);
  if (status != success) return status;
  const Locked locked;
  ++table[memory_info].calls;
  const unsigned long long most = limit();
  const unsigned long long left = most > used ? most - used : 0;
  if (free != nullptr) *free = left < free_here ? left : free_here;
  if (total != nullptr) *total = most < total_here ? most : total_here;
  return success;
}
MOBULA_HOOK cuDeviceTotalMem_v2(size_t* bytes, int device) {
  const int status = real_as<int(size_t*, int)>(device_total)(bytes, device);
  if (status == success && limit() < *bytes) *bytes = limit();
  return status;
}
MOBULA_HOOK cuMemAlloc_v2(unsigned long long* at, size_t bytes) {
  if (!reserve(alloc, bytes)) return out_of_memory;
  const int status = real_as<int(unsigned long long*, size_t)>(alloc)(at, bytes);
  return settle(status, status == success ? *at : 0, bytes);
}
MOBULA_HOOK cuMemAllocManaged(unsigned long long* at, size_t bytes, unsigned flags) {
  if (!reserve(alloc_managed, bytes)) return out_of_memory;
  const int status =
      real_as<int(unsigned long long*, size_t, unsigned)>(alloc_managed)(at, bytes, flags);
  return settle(status, status == success ? *at : 0, bytes);
}
#define MOBULA_ASYNC(function, which, pool_which, freeing, which_freeing, pool)                    \
  MOBULA_HOOK function(unsigned long long* at, size_t bytes, void* stream) {                       \
    if (!reserve(which, bytes)) return out_of_memory;                                              \
    const int status = real_as<int(unsigned long long*, size_t, void*)>(which)(at, bytes, stream); \
    return settle(status, status == success ? *at : 0, bytes);                                     \
  }                                                                                                \
  MOBULA_HOOK pool(unsigned long long* at, size_t bytes, void* from, void* stream) {               \
    if (!reserve(pool_which, bytes)) return out_of_memory;                                         \
    const int status = real_as<int(unsigned long long*, size_t, void*, void*)>(pool_which)(        \
        at, bytes, from, stream);                                                                  \
    return settle(status, status == success ? *at : 0, bytes);                                     \
  }                                                                                                \
  MOBULA_HOOK freeing(unsigned long long at, void* stream) {                                       \
    const int status = real_as<int(unsigned long long, void*)>(which_freeing)(at, stream);         \
    if (status == success) released(which_freeing, at);                                            \
    return status;                                                                                 \
  }
MOBULA_ASYNC(cuMemAllocAsync, alloc_async, alloc_from_pool, cuMemFreeAsync, free_async,
             cuMemAllocFromPoolAsync)
MOBULA_ASYNC(cuMemAllocAsync_ptsz, alloc_async_ptsz, alloc_from_pool_ptsz, cuMemFreeAsync_ptsz,
             free_async_ptsz, cuMemAllocFromPoolAsync_ptsz)
#undef MOBULA_ASYNC
MOBULA_HOOK cuMemFree_v2(unsigned long long at) {
  const int status = real_as<int(unsigned long long)>(free_sync)(at);
  if (status == success) released(free_sync, at);
  return status;
}
MOBULA_HOOK cuMemCreate(unsigned long long* handle, size_t bytes, const void* properties,
                        unsigned long long flags) {
  if (!reserve(create, bytes)) return out_of_memory;
  const int status = real_as<int(unsigned long long*, size_t, const void*, unsigned long long)>(
      create)(handle, bytes, properties, flags);
  return settle(status, status == success ? *handle : 0, bytes);
}
// Counts as the end of the allocation, although a mapping may keep the memory.
MOBULA_HOOK cuMemRelease(unsigned long long handle) {
  const int status = real_as<int(unsigned long long)>(release)(handle);
  if (status == success) released(release, handle);
  return status;
}
#undef MOBULA_HOOK

namespace {

#define MOBULA_ENTRY(symbol, name) \
  { #symbol, name, nullptr, reinterpret_cast < void*>(&symbol), 0 }
Entry table[hooks] = {
    MOBULA_ENTRY(cuGetProcAddress, "cuGetProcAddress"),
    MOBULA_ENTRY(cuGetProcAddress_v2, "cuGetProcAddress"),
    MOBULA_ENTRY(cuMemGetInfo_v2, "cuMemGetInfo"),
    MOBULA_ENTRY(cuDeviceTotalMem_v2, "cuDeviceTotalMem"),
    MOBULA_ENTRY(cuMemAlloc_v2, "cuMemAlloc"),
    MOBULA_ENTRY(cuMemAllocManaged, "cuMemAllocManaged"),
    MOBULA_ENTRY(cuMemAllocAsync, "cuMemAllocAsync"),
    MOBULA_ENTRY(cuMemAllocAsync_ptsz, "cuMemAllocAsync"),
    MOBULA_ENTRY(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync"),
    MOBULA_ENTRY(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync"),
    MOBULA_ENTRY(cuMemFree_v2, "cuMemFree"),
    MOBULA_ENTRY(cuMemFreeAsync, "cuMemFreeAsync"),
    MOBULA_ENTRY(cuMemFreeAsync_ptsz, "cuMemFreeAsync"),
    MOBULA_ENTRY(cuMemCreate, "cuMemCreate"),
    MOBULA_ENTRY(cuMemRelease, "cuMemRelease"),
};
#undef MOBULA_ENTRY

}  // namespace
