// Coverage marks: a file that has a rare path defines `const Mark mark_x("area.what");` at namespace
// scope and calls `mark_x.hit()` there, so that tests can demand it and the simulator can list what
// its histories never reached. Any thread; a relaxed increment. Marks never change behaviour.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace mobula::internal {

class Mark {
 public:
  // `name` must be a literal. Registered for the life of the process.
  explicit Mark(const char* name);
  void hit() const;

 private:
  std::size_t index_;
};

// Every mark of the process by name with its count, also those never hit.
std::map<std::string, std::uint64_t> mark_counts();

}  // namespace mobula::internal
