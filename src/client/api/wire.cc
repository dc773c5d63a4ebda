#include <mobula/detail/wire.h>

#include <string>

#include <mobula/errors.h>

namespace mobula::detail {

void throw_corrupt(const char* what) {
  throw SerializationError(std::string("reading a value: ") + what +
                           "; its bytes are damaged, or were written as another type");
}

void throw_unwritable(const char* what) {
  throw SerializationError(std::string("writing a value: ") + what);
}

}  // namespace mobula::detail
