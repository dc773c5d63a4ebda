#include "transport/ring/ring.h"

#include "transport/ring/ring_defined.h"

namespace mobula::internal {

template class BasicRingWriter<ProcessMemory>;
template class BasicRingReader<ProcessMemory>;

}  // namespace mobula::internal
