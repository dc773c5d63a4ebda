// What a program prints on its way to a terminal, as it comes: colours, tabs and carriage returns pass, and nothing
// else that a terminal would obey. Sequences and characters that are cut by the end of a piece are put together with
// the next one; what is held back is at most `longest_sequence` bytes. Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mobula::internal::cli {

class TerminalGuard {
 public:
  static constexpr std::size_t longest_sequence = 64;

  // What may be shown of it: sequences that set colours or clear the rest of a line as they are, other controls as
  // \xNN (of other sequences the escape character alone, so that they are read and not obeyed).
  std::string pass(std::string_view bytes);
  // Nothing more comes: what was held back, and the end of colours.
  std::string end();

 private:
  std::string held_;
  int follow_ = 0;  // bytes that the character before still has
  bool coloured_ = false;
};

}  // namespace mobula::internal::cli
