// Writes a whole text to a descriptor, in several writes if needed.
// Thread: any.
#pragma once

#include <string_view>

namespace mobula::internal::cli {

// Returns false if the write failed, with the reason in errno; 0: the descriptor accepted no bytes.
bool write_all(int fd, std::string_view text);

}  // namespace mobula::internal::cli
