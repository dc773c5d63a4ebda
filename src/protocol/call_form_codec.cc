// Forms of calls on the wire: each is a run of bytes, and a thread keeps the last ones it met.
#include "model/task.h"
#include "protocol/recent_values.h"

namespace mobula::internal {

void write(Writer& out, const CopyOnWrite<CallForm>& value) {
  Bytes memory;
  out.binary(recent_values<CallForm>().bytes_of(value, memory));
}

void read(Reader& in, CopyOnWrite<CallForm>& value) {
  const auto bytes = in.binary();
  read_recent(in, bytes, value);
}

}  // namespace mobula::internal
