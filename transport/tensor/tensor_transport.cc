#include "transport/tensor/tensor_transport.h"

namespace mobula::internal {

void TensorTransport::serve(const ChannelKey&, TransferId) {}

}  // namespace mobula::internal
