// Ends blocked calls of this process, for handlers of signals such as SIGINT:
// `void on_interrupt(int) { mobula::interrupt_waits(); }`. The calls throw `InterruptedError` at
// once and can be repeated: refs, queues, ranges, and running calls are unchanged.
// Thread: any.
// Not: a signal handler, which Mobula never installs. Collective operations and shutdown().
#pragma once

#include <mobula/detail/export.h>

namespace mobula {

// Interrupts every thread of this process once: the call in which it is blocked, or otherwise its
// next call that blocks, so that a signal between a check and a blocking call is not lost. A thread
// receives interruptions from its first blocking call on, the thread of `init` from `init` on.
// Calls that block: `get`, `get_view`, `wait`, `CompletionQueue::take`, `as_completed`, `put` and
// `remote` that wait for memory, `wait_tensor_freed`, `init`, and queries of the cluster.
// Async-signal-safe; keeps errno.
MOBULA_API void interrupt_waits() noexcept;

// Returns whether an interruption of the calling thread is pending, and clears it.
MOBULA_API bool take_interrupt() noexcept;

}  // namespace mobula
