#include <mobula/detail/wire.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include <mobula/errors.h>

namespace mobula::detail {

void throw_corrupt(const char* what) {
  throw SerializationError(std::string("reading a value: ") + what +
                           "; its bytes are damaged, or were written as another type");
}

void throw_unwritable(const char* what) {
  throw SerializationError(std::string("writing a value: ") + what);
}

void use_huge_pages(const void* memory, std::size_t size_bytes) noexcept {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory) + page - 1) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(memory) + size_bytes) / page * page;
  // Advice only: a kernel without huge pages ignores it.
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace mobula::detail
