// Of the many refs that travel few are tensors: those take one byte for what they are not.
#include "model/task.h"
#include "protocol/codec.h"

namespace mobula::internal {

void write(Writer& out, const CopyOnWrite<TensorRecord>& value) {
  if (value.is_empty()) return out.nil();
  write(out, *value);
}

void read(Reader& in, CopyOnWrite<TensorRecord>& value) {
  value = {};
  if (in.nil() || !in.claim(1, sizeof(TensorRecord))) return;
  TensorRecord record;
  read(in, record);
  value = std::move(record);
}

}  // namespace mobula::internal
