// One thread that runs functions in order, for work that would block the event loop, such as a plan
// of 1,000 nodes. A function posts its result to the loop.
// Thread: any. The destructor waits for the running function and drops the others.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "base/mutex.h"

namespace mobula::internal::fleet {

class WorkThread {
 public:
  WorkThread();
  WorkThread(const WorkThread&) = delete;
  WorkThread& operator=(const WorkThread&) = delete;
  ~WorkThread();

  void run(std::function<void()> work);

 private:
  void serve();

  Mutex mutex_;
  CondVar changed_;
  std::deque<std::function<void()>> work_ MOBULA_GUARDED_BY(mutex_);
  bool ends_ MOBULA_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace mobula::internal::fleet
