// Sizes in bytes as people read them. Pure, any thread.
#pragma once

#include <cstdint>
#include <string>

namespace mobula::internal {

// "512 B", "64 KiB", "1.5 GiB": at most one digit after the point.
std::string byte_text(std::uint64_t bytes);

}  // namespace mobula::internal
