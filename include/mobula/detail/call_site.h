// A place in user code, for messages.
// Thread: any (values).
#pragma once

namespace mobula::detail {

// As a default argument, `CallSite::here()` names the caller.
struct CallSite {
  const char* file = "";
  int line = 0;

  static constexpr CallSite here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
    return {file, line};
  }
};

}  // namespace mobula::detail
