#include <mobula/transfer.h>

#include <mobula/detail/runtime.h>

namespace mobula {

std::vector<Transfer> transfer_log() { return detail::runtime()->transfers(); }

void wait_tensor_freed(const Tensor& tensor, Duration timeout) {
  detail::require(detail::runtime()->wait_tensor_freed(tensor, detail::deadline_after(timeout)));
}

}  // namespace mobula
