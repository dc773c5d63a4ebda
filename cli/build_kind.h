// Whether this program was compiled without optimization, and the sentence that users see then.
// Thread: any.
#pragma once

#include <string>

namespace mobula::internal::cli {

#if defined(__OPTIMIZE__)
inline constexpr bool is_debug_build = false;
#else
inline constexpr bool is_debug_build = true;
#endif

// "mobula 0.1.0", or "mobula 0.1.0 (debug build, not optimized)".
inline std::string version_line(const std::string& version, bool debug = is_debug_build) {
  return "mobula " + version + (debug ? " (debug build, not optimized)" : "");
}

}  // namespace mobula::internal::cli
