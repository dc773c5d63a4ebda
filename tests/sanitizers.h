// The sanitizers of this build. g++ and clang++ name them differently.
// Thread: any.
#pragma once

#include <cstdint>

namespace mobula::internal {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool has_address_sanitizer = true;
#elif defined(__has_feature)
inline constexpr bool has_address_sanitizer = __has_feature(address_sanitizer);
#else
inline constexpr bool has_address_sanitizer = false;
#endif

#if defined(__SANITIZE_THREAD__)
inline constexpr bool has_thread_sanitizer = true;
#elif defined(__has_feature)
inline constexpr bool has_thread_sanitizer = __has_feature(thread_sanitizer);
#else
inline constexpr bool has_thread_sanitizer = false;
#endif

inline constexpr bool sanitized = has_address_sanitizer || has_thread_sanitizer;

// Count of random histories. A sanitizer checks the accesses of a part, because the builds without
// one check the results of all.
constexpr std::uint64_t histories(std::uint64_t all) { return sanitized ? all / 4 : all; }

}  // namespace mobula::internal
