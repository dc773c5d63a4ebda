// Which refusals are worth a line in the log: of each source the first in a minute, so that whoever
// knocks without end fills no disk. Counts all of them. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/time.h"

namespace mobula::internal::head {

class RefusalLog {
 public:
  // How many of this source have gone unsaid since its last line, if this one is to be said.
  std::optional<std::uint64_t> refused(Time now, const std::string& source);
  std::uint64_t count() const { return count_; }

 private:
  static constexpr Duration quiet = 60s;
  static constexpr std::size_t max_sources = 1024;  // beyond, those of one minute share one line

  struct Source {
    Time said;
    std::uint64_t unsaid = 0;
  };
  std::map<std::string, Source> sources_;
  std::uint64_t count_ = 0;
};

}  // namespace mobula::internal::head
