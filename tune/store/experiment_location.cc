#include "tune/store/experiment_location.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace mobula::internal::tune {

Result<void> ExperimentLocation::check() const {
  constexpr std::size_t max_bytes = 200;
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) >= 0x20 && c != '/' && c != 0x7f;
  });
  if (!name.empty() && name.size() <= max_bytes && name.front() != '.' && plain) return {};
  return failure(
      ErrorCode::invalid_argument,
      fmt::format("name of experiment: '{:.60}' ({} bytes) cannot name a directory; use 1 "
                  "to {} bytes without '/', control characters, and a dot at the beginning",
                  name, name.size(), max_bytes));
}

std::string default_storage() {
  const char* const given = std::getenv("MOBULA_TUNE_STORAGE");
  if (given != nullptr && *given != '\0') return given;
  const char* const home = std::getenv("HOME");
  return std::string(home != nullptr && *home != '\0' ? home : ".") + "/mobula_tune";
}

}  // namespace mobula::internal::tune
