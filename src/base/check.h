// Checks of our own invariants, on in every build. Never for input from outside: that is a Result.
// Any thread. A failed check prints place, condition and message to stderr and aborts the process.
#pragma once

#include <string_view>

namespace mobula::internal {

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               std::string_view message);

}  // namespace mobula::internal

// MOBULA_CHECK(condition, "what must hold, and what was seen").
#define MOBULA_CHECK(condition, message)                                                  \
  do {                                                                                    \
    if (!(condition)) [[unlikely]] {                                                      \
      ::mobula::internal::check_failed(__FILE__, __LINE__, #condition, (message));        \
    }                                                                                     \
  } while (false)
