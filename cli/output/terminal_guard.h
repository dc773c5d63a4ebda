// Sanitizes a stream of output for a terminal: colors, tabs, and carriage returns pass, other
// controls do not. Sequences that are split between chunks are joined; at most `longest_sequence`
// bytes are held back.
// Thread: owner.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mobula::internal::cli {

class TerminalGuard {
 public:
  static constexpr std::size_t longest_sequence = 64;

  // Returns the bytes to show: sequences for colors and line clearing unchanged, other controls as
  // \xNN. For other sequences only the escape character is replaced, so that they are readable and
  // have no effect.
  std::string pass(std::string_view bytes);
  // Ends the stream: returns held bytes and resets colors.
  std::string end();

 private:
  std::string held_;
  int follow_ = 0;  // continuation bytes that are still missing
  bool colored_ = false;
};

}  // namespace mobula::internal::cli
