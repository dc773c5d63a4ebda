// Wakes the waiting threads of the process after interrupt_waits(), which a signal handler may
// call.
// Thread: the loop.
#pragma once

#include <functional>

#include "base/result.h"
#include "transport/loop/event_loop.h"

namespace mobula::internal::client {

// Calls `wake` on the loop's thread after each interruption, until the watch is destroyed.
Result<Watch> watch_interruptions(EventLoop& loop, std::function<void()> wake);

}  // namespace mobula::internal::client
