// Ends blocked calls of this process, for handlers of signals such as SIGINT:
//
//   void on_interrupt(int) { mobula::interrupt_waits(); }
//   …
//   std::signal(SIGINT, on_interrupt);
//
// An interruption ends `get`, `wait`, `get_view`, `CompletionQueue::take`, `as_completed`, `put`,
// `remote`, `wait_tensor_freed`, `init`, and queries of the cluster with `InterruptedError`, at
// once. The call can be repeated: refs, queues, ranges, and running calls are unchanged.
// Thread: any.
// Not: a signal handler, which Mobula never installs. Collective operations and shutdown().
#pragma once

#include <mobula/detail/export.h>

namespace mobula {

// Interrupts every thread of this process once: the call in which it is blocked, or otherwise its
// next call that blocks. A signal between a check and a blocking call is thus not lost. A thread
// receives interruptions from its first blocking call on, the thread of `init` from `init` on. A
// call that does not block ignores them. Async-signal-safe; keeps errno.
MOBULA_API void interrupt_waits() noexcept;

// Returns whether an interruption of the calling thread is pending, and clears it.
MOBULA_API bool take_interrupt() noexcept;

}  // namespace mobula
