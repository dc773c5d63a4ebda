// Reads UTF-8 of other processes, which may be invalid.
// Thread: any.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace mobula::internal {

// The first code point of `text`, which is not empty, and its length in bytes. Nothing if the text
// does not begin with valid UTF-8.
std::optional<std::pair<char32_t, std::size_t>> first_code_point(std::string_view text);

// The text with each invalid byte replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace mobula::internal
