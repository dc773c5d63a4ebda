// Starts a thread that blocks all signals, so that the thread of `main` receives them.
// Thread: any.
#pragma once

#include <functional>
#include <string_view>
#include <thread>

#include "base/result.h"

namespace mobula::internal {

// `name` has at most 15 characters and is visible in system tools. The caller joins the thread.
// Errors: resource_exhausted if no thread is available.
Result<std::thread> start_thread(std::string_view name, std::function<void()> body);

}  // namespace mobula::internal
