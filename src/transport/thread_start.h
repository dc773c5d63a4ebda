// Starts a thread that takes no signals: those are for the thread of `main`. Any thread.
#pragma once

#include <functional>
#include <string_view>
#include <thread>

#include "base/result.h"

namespace mobula::internal {

// `name` has at most 15 characters and shows in system tools. Fails with resource_exhausted when
// threads are. The caller joins.
Result<std::thread> start_thread(std::string_view name, std::function<void()> body);

}  // namespace mobula::internal
