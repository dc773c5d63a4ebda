// Checks of invariants, active in every build. A failed check prints location, condition, and
// message to stderr and aborts the process.
// Thread: any.
// Not: input from outside, which is a Result.
#pragma once

#include <string_view>

namespace mobula::internal {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               std::string_view message);

}  // namespace mobula::internal

// MOBULA_CHECK(condition, "the invariant, and the observed values").
#define MOBULA_CHECK(condition, message)                                           \
  do {                                                                             \
    if (!(condition)) [[unlikely]] {                                               \
      ::mobula::internal::check_failed(__FILE__, __LINE__, #condition, (message)); \
    }                                                                              \
  } while (false)
