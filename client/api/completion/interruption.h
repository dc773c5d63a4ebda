// Interruptions of blocked calls (mobula/interrupt.h). The count of interruptions is a number of
// the process; each thread knows which of them it has received.
// A process has one event descriptor, which is never closed, because a signal handler may write to
// it at any time. The engine that runs watches it and wakes the waiting threads.
// Thread: any.
#pragma once

#include <string_view>

#include <mobula/detail/error_record.h>

namespace mobula::detail {

// Reports whether an interruption of this thread is pending.
bool interrupted();
// The error of an interrupted call. The thread has received the interruption.
ErrorRecord interrupted_error(std::string_view operation);

// An eventfd that is readable after an interruption. -1 if none can be opened; interruptions then
// end waits when another event wakes them.
int interrupt_event();
// Makes the descriptor unreadable, and returns whether it was readable.
bool clear_interrupt_event();

}  // namespace mobula::detail
