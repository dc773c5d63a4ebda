// A text table for terminals: columns separated by two spaces, no borders, numbers right-aligned.
// Thread: owner.
#pragma once

#include <string>
#include <vector>

namespace mobula::internal::cli {

class TextTable {
 public:
  // Adds a row; the first row is the header. Control characters become '?'.
  void add(std::vector<std::string> row);
  // `colored`: headers are bold and states are colored. Widths ignore color sequences.
  std::string text(bool colored = false) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace mobula::internal::cli
