#include "base/text/utf8.h"

#include <array>

namespace mobula::internal {

std::optional<std::pair<char32_t, std::size_t>> first_code_point(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const std::size_t length = lead < 0x80       ? 1
                             : lead >> 5 == 6  ? 2
                             : lead >> 4 == 14 ? 3
                             : lead >> 3 == 30 ? 4
                                               : 0;
  if (length == 0 || length > text.size()) return std::nullopt;
  if (length == 1) return std::pair{char32_t{lead}, length};
  char32_t code = lead & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xc0) != 0x80) return std::nullopt;
    code = code << 6 | (next & 0x3f);
  }
  constexpr std::array<char32_t, 5> smallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (code < smallest[length] || surrogate || code > 0x10ffff) return std::nullopt;
  return std::pair{code, length};
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  while (!text.empty()) {
    const auto next = first_code_point(text);
    const std::size_t size = next ? next->second : 1;
    valid += next ? text.substr(0, size) : std::string_view("\xef\xbf\xbd");
    text.remove_prefix(size);
  }
  return valid;
}

}  // namespace mobula::internal
