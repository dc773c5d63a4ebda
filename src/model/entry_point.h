// The command of a submitted job: what is run in a slot in place of an executor. Plain values.
#pragma once

#include <string>
#include <vector>

#include "base/fields.h"
#include "base/time.h"

namespace mobula::internal {

struct EntryPoint {
  std::vector<std::string> argv;  // empty: there is none; a name without '/' is looked for in PATH
  std::string working_folder;     // empty, or not there: a scratch folder of the node
  bool needs_working_folder = false;  // it has to be there
  Duration time_limit{};          // of one attempt; 0: none
  Duration grace = std::chrono::seconds(10);  // between SIGTERM and SIGKILL
  bool given() const { return !argv.empty(); }
  template <class Visit>
  static constexpr auto fields(Visit visit) {
    return visit(field("argv", &EntryPoint::argv), field("working_folder", &EntryPoint::working_folder),
                 field("needs_working_folder", &EntryPoint::needs_working_folder),
                 field("time_limit", &EntryPoint::time_limit), field("grace", &EntryPoint::grace));
  }
  friend bool operator==(const EntryPoint&, const EntryPoint&) = default;
};

}  // namespace mobula::internal
