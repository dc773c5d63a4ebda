// Removes directories, which may be large, on a separate thread. Requests beyond `max_waiting` and
// requests that wait at the end are dropped; the next start of an agent removes these directories.
// Thread: any.
#pragma once

#include <deque>
#include <string>
#include <thread>

#include "base/mutex.h"

namespace mobula::internal::worker {

class DirRemover {
 public:
  static constexpr std::size_t max_waiting = 10'000;

  DirRemover();
  // Waits for the directory that is being removed.
  ~DirRemover();
  DirRemover(const DirRemover&) = delete;
  DirRemover& operator=(const DirRemover&) = delete;

  void remove(std::string path);

 private:
  void run();

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::string> waiting_ MOBULA_GUARDED_BY(mutex_);
  bool ending_ MOBULA_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace mobula::internal::worker
