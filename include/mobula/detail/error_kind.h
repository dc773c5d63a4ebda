// Kinds of errors: the one vocabulary of the library, its messages, and its commands.
// Thread: any (plain values).
#pragma once

#include <cstdint>

namespace mobula::detail {

// One kind per exception class of errors.h. Serialized errors contain the numbers: append only.
enum class ErrorKind : std::uint8_t {
  other = 0,
  not_initialized = 1,
  invalid_request = 2,
  not_found = 3,
  pending_limit = 4,
  unschedulable = 5,
  task = 6,
  task_cancelled = 7,
  worker_crashed = 8,
  out_of_memory = 9,
  actor_died = 10,
  actor_unavailable = 11,
  object_lost = 12,
  get_timeout = 13,
  object_store_full = 14,
  transfer = 15,
  tensor_shared = 16,
  placement_group_removed = 17,
  connection = 18,
  permission = 19,
  protocol_mismatch = 20,
  serialization = 21,
  collective = 22,
  interrupted = 23,
};

}  // namespace mobula::detail
