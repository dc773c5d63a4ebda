// Both ends of a pipe, close-on-exec. Value type.
// Thread: any.
#pragma once

#include "base/fd.h"
#include "base/result.h"

namespace mobula::internal::worker {

struct Pipe {
  Fd read;
  Fd write;
};

Result<Pipe> make_pipe();

}  // namespace mobula::internal::worker
