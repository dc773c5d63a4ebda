// Threads bound to a processor, so that a figure and its floor are measured on the same ones. For the main
// thread.
#pragma once

#include <sched.h>

#include <vector>

namespace mobula::bench {

// Processors that this process may use, in order.
std::vector<int> allowed_processors();

// All threads that this process has now. Throws std::system_error.
void bind_all_threads(int processor);

// The calling thread, as long as this lives.
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
