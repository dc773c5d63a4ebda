// Binds threads to a processor, so that a figure and its floor are measured on the same processors.
// Thread: the main thread.
#pragma once

#include <sched.h>

#include <vector>

namespace mobula::bench {

// Processors that this process may use, in ascending order.
std::vector<int> allowed_processors();

// Binds all present threads of this process. Throws std::system_error.
void bind_all_threads(int processor);

// Binds the calling thread during its lifetime.
class Pinned {
 public:
  explicit Pinned(int processor);
  ~Pinned();
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;

 private:
  cpu_set_t before_;
};

}  // namespace mobula::bench
