#include "store/core/byte_text.h"

#include <array>
#include <string_view>

#include <fmt/format.h>

namespace mobula::internal {

std::string byte_text(std::uint64_t bytes) {
  static constexpr std::array<std::string_view, 7> units{"B",   "KiB", "MiB", "GiB",
                                                         "TiB", "PiB", "EiB"};
  std::size_t unit = 0;
  std::uint64_t whole = bytes;
  std::uint64_t rest = 0;
  while (whole >= 1024) {
    rest = whole % 1024;
    whole /= 1024;
    ++unit;
  }
  const std::uint64_t tenths = rest * 10 / 1024;
  return tenths == 0 ? fmt::format("{} {}", whole, units[unit])
                     : fmt::format("{}.{} {}", whole, tenths, units[unit]);
}

}  // namespace mobula::internal
