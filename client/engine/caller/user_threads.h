// Counts the threads of this process that are not Mobula's own.
// Thread: any. Not: threads of other libraries, which count as user threads.
#pragma once

namespace mobula::internal::client {

// False if another thread may run user code, or if the threads cannot be listed.
bool is_only_user_thread();

}  // namespace mobula::internal::client
