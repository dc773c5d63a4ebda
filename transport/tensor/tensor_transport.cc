#include "transport/tensor/tensor_transport.h"

namespace mobula::internal {

bool may_succeed_again(const Failure& why) {
  return why.code == ErrorCode::unavailable || why.code == ErrorCode::timed_out ||
         why.code == ErrorCode::resource_exhausted;
}

void TensorTransport::serve(const ChannelKey&, TransferId) {}

}  // namespace mobula::internal
