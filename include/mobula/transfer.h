// Tensors that stay in the process that made them until somebody needs them: where they went, and when
// nobody reads them there any more. Values and functions; any thread.
//
// `.tensor_transport` of a call, or of put, other than object_store leaves the tensors in a large value
// where they are. Whoever reads the value pulls them from there, by the path that is named or the best
// there is: of a process of the same machine they are seen in place. Those of GPUs come to a GPU of the reader,
// the same one if it has that, or to host memory if it has none.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <mobula/detail/export.h>
#include <mobula/options.h>
#include <mobula/tensor.h>

namespace mobula {

// How one tensor came here; or what this process moved in one operation of a collective group, where `group` is not empty.
struct Transfer {
  // A transport's name; "staged": by way of the host's memory at both ends; "store": it had been written there.
  std::string path = {};
  std::int64_t bytes = 0;
  Duration queue_time{};               // until there was room for it
  Duration wire_time{};
  // Of better paths, of tries that failed, and why it lies on no GPU: "PATH: WHY".
  std::vector<std::string> refusals = {};
  bool encrypted = false;              // on its way
  std::string peer = {};               // the process that had it; empty for a group's
  bool in_place = false;               // nothing was copied
  std::string group = {};              // the collective group's name, else its id
  std::string operation = {};          // of the group: "all_reduce(sum), float32 [4] with ranks 1, 2"
  std::int64_t sent_bytes = 0;         // in it, by this process; `bytes` came
};

// The latest ones of this process, oldest first; at most 1,024. Operations that move nothing are none.
MOBULA_API std::vector<Transfer> transfer_log();

// Returns when nobody but this program can read the tensor's memory: mutable_view then gives it back.
// GetTimeoutError at the timeout, with who is left. TensorSharedError at once where waiting would never
// end: the tensor is read-only for good, or this process itself refers to the value that it is part of.
MOBULA_API void wait_tensor_freed(const Tensor& tensor, Duration timeout);

}  // namespace mobula
