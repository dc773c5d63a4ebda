// Records of tensor transfers, and the wait for exclusive use of a tensor. A call or `put` with a
// `tensor_transport` other than object_store leaves the tensors of a large value in the process
// that produced them. Readers pull them over the named path or the best path; readers on the same
// machine map host memory in place.
// Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <mobula/detail/export.h>
#include <mobula/options.h>
#include <mobula/tensor.h>

namespace mobula {

// One tensor that this process received, or one operation of a collective group (`group` is not
// empty).
struct Transfer {
  // Name of the transport; "staged": through host memory at both ends; "store": read from the
  // object store.
  std::string path = {};
  std::int64_t bytes = 0;  // bytes received
  Duration queue_time{};   // wait for capacity
  Duration wire_time{};    // time of the transfer
  // Reasons against better paths, failed attempts, and a destination in host memory: "PATH:
  // REASON".
  std::vector<std::string> refusals = {};
  bool encrypted = false;       // whether the bytes were encrypted in transit
  std::string peer = {};        // process that held the tensor; empty for groups
  bool in_place = false;        // whether the tensor was mapped without a copy
  std::string group = {};       // name of the collective group, or its id
  std::string operation = {};   // "all_reduce(sum), float32 [4] with ranks 1, 2"
  std::int64_t sent_bytes = 0;  // bytes that this process sent in the operation
};

// Returns the latest 1,024 transfers of this process, oldest first. Operations that move no bytes
// are not logged.
MOBULA_API std::vector<Transfer> transfer_log();

// Returns when only this program can read the tensor's memory; `mutable_view` then succeeds.
// `GetTimeoutError` at the timeout. `TensorSharedError` immediately if the wait can never end: the
// tensor is read-only, or this process refers to the value that contains it.
MOBULA_API void wait_tensor_freed(const Tensor& tensor, Duration timeout);

}  // namespace mobula
