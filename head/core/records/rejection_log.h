// Decides which rejections are logged: the first of each source per minute, so that a peer that
// retries without end does not fill the disk. Counts all of them.
// Thread: owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/time.h"

namespace mobula::internal::head {

class RejectionLog {
 public:
  // Returns the number of suppressed lines of this source since its last line, or nothing if this
  // one is suppressed too.
  std::optional<std::uint64_t> refused(Time now, const std::string& source);
  std::uint64_t count() const { return count_; }

 private:
  static constexpr Duration quiet = 60s;
  static constexpr std::size_t max_sources = 1024;  // sources beyond it share one line per minute

  struct Source {
    Time said;
    std::uint64_t unsaid = 0;
  };
  std::map<std::string, Source> sources_;
  std::uint64_t count_ = 0;
};

}  // namespace mobula::internal::head
