// A service that writes its calls into a file, which survives its process: the tests count how
// often each call ran.
#pragma once

#include <cstdint>
#include <string>

class Ledger {
 public:
  explicit Ledger(std::string path);
  // Appends the entry. An entry that begins with "die" ends the process after that.
  std::int64_t enter(std::string entry);
  std::int64_t pid();

 private:
  std::string path_;
  std::int64_t entries_ = 0;
};
