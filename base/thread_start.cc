#include "base/thread_start.h"

#include <fmt/format.h>
#include <pthread.h>

#include <csignal>
#include <string>
#include <system_error>
#include <utility>

namespace mobula::internal {

Result<std::thread> start_thread(std::string_view name, std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread started;
  int error = 0;
  try {
    started = std::thread(std::move(body));
  } catch (const std::system_error& why) {
    error = why.code().value();
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) return errno_failure(fmt::format("start the thread {}", name), error);
  pthread_setname_np(started.native_handle(), std::string(name).c_str());
  return started;
}

}  // namespace mobula::internal
