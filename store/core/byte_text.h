// Human-readable sizes in bytes.
// Thread: any (pure).
#pragma once

#include <cstdint>
#include <string>

namespace mobula::internal {

// Returns "512 B", "64 KiB", or "1.5 GiB": at most one decimal digit.
std::string byte_text(std::uint64_t bytes);

}  // namespace mobula::internal
