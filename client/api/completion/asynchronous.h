// Requests of asynchronous actors, whose calls share one thread.
// Thread: any.
#pragma once

#include <memory>

#include <mobula/detail/request.h>

namespace mobula::detail {

// Returns the request with one thread, and with the default of asynchronous actors for
// max_concurrency if the user chose none. A request that names its threads is unchanged.
std::shared_ptr<const ActorRequest> on_one_thread(std::shared_ptr<const ActorRequest> request);

}  // namespace mobula::detail
