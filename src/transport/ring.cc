#include "transport/ring.h"

#include "transport/ring_defined.h"

namespace mobula::internal {

template class BasicRingWriter<ProcessMemory>;
template class BasicRingReader<ProcessMemory>;

}  // namespace mobula::internal
