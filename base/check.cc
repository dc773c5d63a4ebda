#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace mobula::internal {

void check_failed(const char* file, int line, const char* condition, std::string_view message) {
  std::fprintf(stderr, "mobula: broken invariant at %s:%d: %s: %.*s\n", file, line, condition,
               static_cast<int>(message.size()), message.data());
  std::fflush(stderr);
  std::abort();
}

}  // namespace mobula::internal
