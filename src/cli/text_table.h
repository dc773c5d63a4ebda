// A table of text for a terminal: columns two blanks apart, no borders, numbers at the right. Pure.
#pragma once

#include <string>
#include <vector>

namespace mobula::internal::cli {

class TextTable {
 public:
  // The first row holds the headers. Control characters, which a terminal would obey, become '?'.
  void add(std::vector<std::string> row);
  // `coloured`: headers are bold and states have their colours; widths are those of what is seen.
  std::string text(bool coloured = false) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace mobula::internal::cli
