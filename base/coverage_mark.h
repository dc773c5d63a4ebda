// Coverage marks: a file with a rare path defines `const Mark mark_x("area.what");` at namespace
// scope and calls `mark_x.hit()` on that path. Tests require marks, and the simulator lists those
// that its histories never reached.
// Thread: any (a relaxed increment). Marks never change behavior.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace mobula::internal {

class CoverageMark {
 public:
  // `name` must be a literal. Registered for the life of the process.
  explicit CoverageMark(const char* name);
  void hit() const;

 private:
  std::size_t index_;
};

// Every coverage mark of the process by name with its count, including zero.
std::map<std::string, std::uint64_t> mark_counts();

}  // namespace mobula::internal
