#include "base/model/direct_path.h"

namespace mobula::internal {

std::string_view to_string(DirectPath path) {
  switch (path) {
    case DirectPath::inproc: return "inproc";
    case DirectPath::shm: return "shm";
    case DirectPath::tcp: return "tcp";
    case DirectPath::gloo: return "gloo";
    case DirectPath::ucx: return "ucx";
    case DirectPath::cuda_ipc: return "cuda_ipc";
    case DirectPath::nccl: return "nccl";
    case DirectPath::store: return "store";
    case DirectPath::staged: return "staged";
    case DirectPath::nixl: return "nixl";
  }
  return "unknown";
}

}  // namespace mobula::internal
