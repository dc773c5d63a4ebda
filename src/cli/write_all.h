// Everything that is to be written to a descriptor, however many writes that takes. Any thread.
#pragma once

#include <string_view>

namespace mobula::internal::cli {

// False: not all of it could be written, and errno says why; 0: it took nothing.
bool write_all(int fd, std::string_view text);

}  // namespace mobula::internal::cli
