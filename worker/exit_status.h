// Reads how a process that is no child of this one has ended.
// Thread: any. Not: waiting for the end.
#pragma once

#include <sys/types.h>

#include <optional>

#include "base/model/jobs/principal.h"

namespace mobula::internal::worker {

// Kind `exited` or `signalled`, with the code or the signal. Known while the process is a zombie,
// and on Linux 6.15 and later also after its parent has read the status. Nothing if the process
// runs or the status is not available.
std::optional<EndCause> exit_status_of(pid_t process, int pidfd);

}  // namespace mobula::internal::worker
