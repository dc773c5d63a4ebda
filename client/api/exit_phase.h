// The last phase of an executor: exit handlers and static destructors of user code run, and the
// process has left the cluster.
// Thread: the thread that runs the exit handlers.
#pragma once

namespace mobula::detail {

// From now on, calls of Mobula on this thread throw NotInitializedError, and refs that it destroys
// are not counted any more: the cluster releases those of a process that exits.
void begin_exit_phase();

// True if destructors on this thread have to update counts of the runtime. False in the exit phase,
// and in a forked child, whose parent has the counts.
bool counts_refs();

}  // namespace mobula::detail
